#include "report/metrics_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "evenkeel/base/error.hpp"
#include "report/run_report.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing_support::read_text;
using testing_support::ScratchFolder;
using testing_support::write_text;

StepFigures measured_step(std::int64_t number, const std::string& profile = {}) {
  StepFigures figures;
  figures.step = number;
  figures.profile = profile;
  return figures;
}

class Metrics : public testing::Test {
 protected:
  /// Returns "STEP PROFILE" of each line.
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> found;
    std::istringstream file(read_text(path_));
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      found.push_back(std::to_string(json.at("step").get<int>()) + " " +
                      json.at("profile").get<std::string>());
    }
    return found;
  }
  void write(std::int64_t first_step, std::initializer_list<StepFigures> steps) const {
    MetricsLog log(path_, first_step);
    for (const StepFigures& figures : steps) log.add(figures);
    log.close();
  }

  ScratchFolder scratch_;
  std::filesystem::path path_ = scratch_ / "metrics.jsonl";
};

TEST_F(Metrics, are_written_when_a_step_ends) {
  MetricsLog log(path_);
  EXPECT_EQ(read_text(path_), "");
  log.add(measured_step(0));
  EXPECT_EQ(nlohmann::json::parse(read_text(path_)), to_json(measured_step(0)));
  EXPECT_EQ(read_text(path_).back(), '\n');
}

TEST_F(Metrics, start_over_with_the_first_step) {
  write_text(path_, "anything\n");
  write(0, {measured_step(0)});
  EXPECT_THAT(lines(), ElementsAre("0 "));
}

TEST_F(Metrics, continue_after_repeated_steps) {
  write(0, {measured_step(0, "a"), measured_step(0, "b"), measured_step(1, "a"), measured_step(1, "b"),
            measured_step(2, "a")});
  write(1, {measured_step(1, "a"), measured_step(1, "b")});
  EXPECT_THAT(lines(), ElementsAre("0 a", "0 b", "1 a", "1 b"));
}

TEST_F(Metrics, drop_an_incomplete_last_line) {
  write(0, {measured_step(0), measured_step(1)});
  const std::string whole = read_text(path_);
  for (const std::size_t cut : {whole.size() - 1, whole.size() - 20}) {
    write_text(path_, whole.substr(0, cut));
    write(2, {measured_step(2)});
    EXPECT_THAT(lines(), ElementsAre("0 ", "2 "));
  }
}

TEST_F(Metrics, start_without_an_existing_file) {
  write(3, {measured_step(3)});
  EXPECT_THAT(lines(), ElementsAre("3 "));
}

TEST_F(Metrics, reject_a_file_of_another_kind) {
  for (const std::string text : {"{}\n", "[]\n", "words\n", "{\"step\": \"0\"}\n"}) {
    write_text(path_, text);
    EXPECT_THROW(write(1, {}), InputError) << text;
    EXPECT_EQ(read_text(path_), text);
  }
}

TEST_F(Metrics, reject_links_and_special_files) {
  write_text(scratch_ / "other", "mine\n");
  std::filesystem::create_symlink(scratch_ / "other", path_);
  EXPECT_THROW(MetricsLog{path_}, IoError);
  EXPECT_EQ(read_text(scratch_ / "other"), "mine\n");
  EXPECT_THROW(MetricsLog{scratch_ / "."}, IoError);
}

}  // namespace
}  // namespace evenkeel
