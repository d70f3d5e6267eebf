#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "support/run_program.hpp"

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing_support::mpirun_evenkeel;
using testing_support::ProgramResult;
using testing_support::read_text;
using testing_support::run_command;
using testing_support::run_evenkeel;
using testing_support::ScratchFolder;
using testing_support::write_text;

/// Reports of real runs.
class ReportOfARun : public testing::Test {
 protected:
  ReportOfARun() {
    const ProgramResult synth = run_evenkeel(
        "synth --samples 96 --prompt-median 300 --response-median 60 "
        "--response-max 800 --out " +
        (scratch_ / "rollouts.jsonl").string());
    EXPECT_EQ(synth.status, 0) << synth.err;
    write_text(scratch_ / "job.yaml",
               "source: {kind: jsonl, path: " + (scratch_ / "rollouts.jsonl").string() +
                   "}\nbatch: {global_batch: 24}\n");
  }

  [[nodiscard]] ProgramResult run(int ranks, const std::string& settings) const {
    std::filesystem::remove_all(scratch_ / "report");
    return mpirun_evenkeel(ranks, "run " + (scratch_ / "job.yaml").string() + " --report " +
                                      (scratch_ / "report").string() + " " + settings);
  }
  [[nodiscard]] nlohmann::json report() const {
    return nlohmann::json::parse(read_text(scratch_ / "report/report.json"));
  }

  ScratchFolder scratch_;
};

/// Settings whose reports together contain every line and key.
const std::vector<std::string> kinds{"",
                                     "--set prefix.share=tree",
                                     "--set balance.cost=measured",
                                     "--set micro_batch.mode=padded",
                                     "--set balance.preset=verl",
                                     "--set exchange.prefetch=0 --set balance.meet=micro-batch",
                                     "--set batch.delay_outliers=2 --set batch.outlier_length=600 "
                                     "--set batch.outliers_per_step=2"};

double sum_of(const nlohmann::json& phases) {
  double sum = 0;
  for (const char* phase : {"read", "gather", "plan", "agree", "exchange", "pack"})
    sum += phases.at(phase).get<double>();
  return sum;
}

TEST_F(ReportOfARun, has_consistent_phases_and_waits) {
  for (const std::string& kind : kinds) {
    ASSERT_EQ(run(3, kind).status, 0) << kind;
    const nlohmann::json whole = report();
    double total = 0;
    for (const auto& step : whole.at("steps")) {
      const auto& seconds = step.at("seconds");
      EXPECT_NEAR(sum_of(seconds), seconds.at("total").get<double>(), 1e-9);
      EXPECT_LE(step.at("waited_seconds"), seconds.at("total").get<double>() * (1 + 1e-9));
      EXPECT_GE(sum_of(step.at("slowest_seconds")), sum_of(seconds) * (1 - 1e-9));
      EXPECT_GE(step.at("longest_waited_seconds"), step.at("waited_seconds"));
      for (const auto& rank : step.at("slowest_ranks")) {
        EXPECT_GE(rank, 0);
        EXPECT_LT(rank, 3);
      }
      total += seconds.at("total").get<double>();
    }
    EXPECT_LE(total, whole.at("seconds")) << kind;
  }
}

TEST_F(ReportOfARun, never_shows_negative_alignment) {
  for (const std::string& kind : kinds) {
    ASSERT_EQ(run(2, kind + " --set mesh.cp=2").status, 0) << kind;
    EXPECT_EQ(read_text(scratch_ / "report/report.txt").find("(-"), std::string::npos) << kind;
    for (const auto& step : report().at("steps")) {
      const auto& sharing = step.at("sharing");
      const auto& filled = sharing.is_null() ? step.at("tokens") : sharing.at("tokens");
      EXPECT_GE(step.at("aligned_tokens"), filled) << kind;
      if (!sharing.is_null()) {
        EXPECT_GE(sharing.at("aligned_tokens_without"), step.at("tokens"));
      }
    }
  }
}

/// Slices on one track do not overlap partially.
void expect_nesting(const nlohmann::json& trace) {
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> tracks;
  for (const auto& event : trace) {
    if (event.at("ph") != "X") continue;
    const double begin = event.at("ts");
    tracks[{event.at("pid"), event.at("tid")}].emplace_back(begin, begin + event.at("dur").get<double>());
  }
  constexpr double rounding = 0.1;
  for (const auto& [track, slices] : tracks) {
    for (const auto& a : slices) {
      for (const auto& b : slices) {
        const bool cross =
            a.first < b.first - rounding && b.first < a.second - rounding && a.second < b.second - rounding;
        EXPECT_FALSE(cross) << track.first << " " << a.first << " " << a.second << " " << b.first << " "
                            << b.second;
      }
    }
  }
}

TEST_F(ReportOfARun, comes_with_the_same_figures_in_metrics_and_trace) {
  for (const std::string kind : {"", "--set exchange.prefetch=0",
                                 "--profiles a,b --set profiles.a.loss.aggregation=token-mean "
                                 "--set profiles.b.micro_batch.max_tokens=16384"}) {
    std::filesystem::remove_all(scratch_ / "trace");
    ASSERT_EQ(run(4, "--set mesh.cp=2 --trace " + (scratch_ / "trace").string() + " " + kind).status, 0)
        << kind;
    const nlohmann::json steps = report().at("steps");
    std::istringstream metrics(read_text(scratch_ / "report/metrics.jsonl"));
    for (const auto& step : steps) {
      std::string line;
      ASSERT_TRUE(std::getline(metrics, line));
      EXPECT_EQ(nlohmann::json::parse(line), step);
    }
    std::int64_t sent = 0;
    for (const auto& step : steps) sent += step.at("bytes").at("sent").get<std::int64_t>();
    const nlohmann::json trace = nlohmann::json::parse(read_text(scratch_ / "trace/trace.json"));
    expect_nesting(trace);
    std::int64_t flowed = 0;
    for (const auto& event : trace)
      flowed += event.at("ph") == "f" ? event.at("args").at("bytes").get<std::int64_t>() : 0;
    EXPECT_EQ(flowed, sent) << kind;
  }
}

/// Returns the labels of a table: the text before its values, without continuation lines.
std::set<std::string> labels_of(const std::string& table) {
  std::set<std::string> labels;
  std::istringstream lines(table);
  std::string line;
  std::getline(lines, line);  // the heading
  while (std::getline(lines, line)) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin > 4) continue;  // continued, or advice
    const std::size_t end = line.find("  ", begin);
    std::string label = line.substr(begin, std::min(end, std::size_t{38}) - begin);
    label.erase(label.find_last_not_of(' ') + 1);
    labels.insert(label);
  }
  return labels;
}

/// The keys of a report; keys of nested objects as "outer.inner".
void add_keys(const nlohmann::json& json, const std::string& outer, std::set<std::string>& keys) {
  for (const auto& [name, value] : json.items()) {
    const std::string key = outer.empty() ? name : outer + "." + name;
    keys.insert(key);
    if (value.is_object()) add_keys(value, key, keys);
  }
}

TEST_F(ReportOfARun, is_explained_line_by_line_and_key_by_key_in_the_documentation) {
  const std::string page = read_text(EVENKEEL_SOURCE_DIR "/docs/report.md");
  for (const std::string& kind : kinds) {
    ASSERT_EQ(run(2, kind).status, 0) << kind;
    for (const std::string& label : labels_of(read_text(scratch_ / "report/report.txt")))
      EXPECT_THAT(page, HasSubstr("| " + label + " |")) << kind;
    std::set<std::string> keys;
    nlohmann::json whole = report();
    for (const auto& step : whole.at("steps")) add_keys(step, "", keys);
    whole.erase("steps");
    add_keys(whole, "", keys);
    for (const std::string& key : keys) EXPECT_THAT(page, HasSubstr("| `" + key + "` |")) << kind;
  }
}

TEST_F(ReportOfARun, is_shown_by_inspect_after_the_run) {
  ASSERT_EQ(run(3, "").status, 0);
  const std::filesystem::path folder = scratch_ / "report";
  const ProgramResult told = run_evenkeel("inspect " + folder.string());
  ASSERT_EQ(told.status, 0) << told.err;
  EXPECT_THAT(told.out, HasSubstr("  missing        nothing\n" + read_text(folder / "report.txt")));
  for (const char* name : {"report.json", "metrics.jsonl"})
    EXPECT_THAT(
        run_evenkeel("inspect " + (folder / name).string()).err,
        HasSubstr(std::string(name) + ": belongs to a run and is meant for programs. Give its folder"));
  write_text(folder / "report.txt", "\x1b[2J\n");
  EXPECT_THAT(run_evenkeel("inspect " + folder.string()).out, HasSubstr("\n\\x1b[2J\n"));
  std::filesystem::remove(folder / "report.txt");
  EXPECT_EQ(run_evenkeel("inspect " + folder.string()).status, 0);
}

}  // namespace
}  // namespace evenkeel
