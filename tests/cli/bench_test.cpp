#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/run_program.hpp"

// Figures are not tested, only that each benchmark runs to its end on a small case and writes what it
// promises.

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing_support::mpirun_evenkeel;
using testing_support::ProgramResult;
using testing_support::read_text;
using testing_support::run_evenkeel;
using testing_support::ScratchFolder;

nlohmann::json written(const ScratchFolder& scratch) {
  return nlohmann::json::parse(read_text(scratch / "bench.json"));
}

std::string json_option(const ScratchFolder& scratch) {
  return " --json " + (scratch / "bench.json").string();
}

void expect_machine_and_sizes(const nlohmann::json& report) {
  EXPECT_FALSE(report.at("machine").at("cpu").get<std::string>().empty());
  EXPECT_GE(report.at("machine").at("cores"), 1);
  EXPECT_FALSE(report.at("sizes").empty());
}

TEST(BenchPack, writes_every_case_with_its_spread_and_its_speed_against_memcpy) {
  const ScratchFolder scratch;
  const ProgramResult result =
      run_evenkeel("bench pack --sequences 9 --row-bytes 3 --cp 2 --repeat 2" + json_option(scratch));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("| pack |"));
  const nlohmann::json report = written(scratch);
  expect_machine_and_sizes(report);
  EXPECT_EQ(report.at("ragged").at(0).at("case"), "memcpy");
  for (const char* table : {"ragged", "padded", "groups", "derived"}) {
    for (const auto& row : report.at(table)) {
      EXPECT_LE(row.at("ms_min"), row.at("ms_median"));
      EXPECT_LE(row.at("ms_median"), row.at("ms_max"));
      EXPECT_GT(row.at("bytes"), 0);
      EXPECT_GT(row.at("speed"), 0);
    }
  }
}

TEST(BenchPack, tells_why_there_is_no_comparison_with_another_language) {
  const ProgramResult result = run_evenkeel("bench pack --sequences 2 --repeat 1 --python no-such-python");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("'no-such-python' cannot be run"));
}

}  // namespace
}  // namespace evenkeel
