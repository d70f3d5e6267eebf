#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "support/run_program.hpp"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::mpirun_evenkeel;
using testing_support::ProgramResult;
using testing_support::ScratchFolder;
using testing_support::write_text;

constexpr int three_ranks = 3;
constexpr std::size_t num_lines = 30;

/// Rollouts with 30 good lines, of which tests corrupt one that the first, middle or last rank reads.
class BadInput : public testing::Test {
 protected:
  BadInput() {
    for (std::size_t i = 0; i < num_lines; ++i)
      lines_.emplace_back(R"({"uid":"a","prompt_ids":[1,2],"response_ids":[3,4,5]})");
  }

  void write_rollouts() const {
    std::string text;
    for (const std::string& line : lines_) text += line + "\n";
    write_text(scratch_ / "rollouts.jsonl", text);
  }

  [[nodiscard]] std::string rollouts() const { return (scratch_ / "rollouts.jsonl").string(); }

  [[nodiscard]] ProgramResult run(const std::string& yaml, const std::string& arguments = "") const {
    write_text(scratch_ / "job.yaml", yaml);
    return mpirun_evenkeel(three_ranks, "run " + (scratch_ / "job.yaml").string() + " " + arguments);
  }
  [[nodiscard]] ProgramResult run_on_rollouts(const std::string& arguments = "") const {
    write_rollouts();
    return run("source: {kind: jsonl, path: " + rollouts() + "}\n", arguments);
  }

  ScratchFolder scratch_;
  std::vector<std::string> lines_;
};

/// Expects one message that contains all of `parts`, and an exit status that indicates failure.
void expect_one_message(const ProgramResult& result, const std::vector<std::string>& parts) {
  EXPECT_NE(result.status, 0);
  std::size_t messages = 0;
  for (std::size_t at = result.err.find("evenkeel: "); at != std::string::npos;
       at = result.err.find("evenkeel: ", at + 1)) {
    ++messages;
  }
  EXPECT_EQ(messages, 1U) << result.err;
  for (const std::string& part : parts) EXPECT_THAT(result.err, HasSubstr(part));
}

const std::array<std::size_t, 3> first_middle_last{0, num_lines / 2, num_lines - 1};

TEST_F(BadInput, malformed_json_is_named_by_its_line_whichever_rank_reads_it) {
  for (const std::size_t bad : first_middle_last) {
    const std::string good = std::exchange(lines_[bad], R"({"prompt_ids":[1,2],"response_ids":[3,)");
    expect_one_message(run_on_rollouts(), {rollouts() + ":" + std::to_string(bad + 1)});
    lines_[bad] = good;
  }
}

TEST_F(BadInput, a_negative_token_is_named_by_its_line_whichever_rank_reads_it) {
  for (const std::size_t bad : first_middle_last) {
    const std::string good =
        std::exchange(lines_[bad], R"({"uid":"a","prompt_ids":[1,-7],"response_ids":[3]})");
    expect_one_message(run_on_rollouts(), {rollouts() + ":" + std::to_string(bad + 1), "-7"});
    lines_[bad] = good;
  }
}

TEST_F(BadInput, a_sample_above_the_cap_is_named_with_its_length_and_the_cap) {
  for (const std::size_t bad : first_middle_last) {
    const std::string good =
        std::exchange(lines_[bad], R"({"uid":"a","prompt_ids":[1,2,3,4,5],"response_ids":[6,7,8,9]})");
    expect_one_message(run_on_rollouts("--set micro_batch.max_tokens=8"),
                       {"sample " + std::to_string(bad), "has 9 tokens", "the cap of 8"});
    lines_[bad] = good;
  }
}

TEST_F(BadInput, a_field_that_one_line_lacks_is_named) {
  for (std::string& line : lines_) line = R"({"prompt_ids":[1],"response_ids":[2],"reward":1.0})";
  lines_.back() = R"({"prompt_ids":[1],"response_ids":[2]})";
  expect_one_message(run_on_rollouts(), {rollouts() + ":30", "'reward' holds numbers in line", "in line 30"});
}

TEST_F(BadInput, nan_and_infinity_are_named_by_field_line_and_column_whichever_rank_reads_them) {
  for (const std::size_t bad : first_middle_last) {
    const std::string good =
        std::exchange(lines_[bad], R"({"prompt_ids":[1,2],"response_ids":[3],"reward": NaN})");
    expect_one_message(run_on_rollouts(),
                       {rollouts() + ":" + std::to_string(bad + 1), "'reward' holds NaN in column 50"});
    lines_[bad] = good;
  }
}

TEST_F(BadInput, an_absurd_length_in_a_table_is_named_before_tokens_are_made) {
  write_text(scratch_ / "lengths.csv", "length\n5\n2000000000\n7\n");
  const std::string yaml = "source: {kind: lengths, path: " + (scratch_ / "lengths.csv").string() + "}\n";
  expect_one_message(run(yaml), {"lengths.csv", "sample 1 has 2000000000 tokens", "the cap of 8192"});
}

TEST_F(BadInput, settings_of_a_missing_field_are_refused) {
  expect_one_message(run_on_rollouts("--set fields.routed_expert.layers=stage"),
                     {"fields.routed_expert", "is not a field of any sample"});
}

TEST_F(BadInput, a_field_that_no_pass_gets_is_refused) {
  const std::string job =
      "--set 'profiles.encoder={}' --set 'profiles.model={}' --set 'fields.rewards.profiles=[encoder]'";
  for (const std::string passes : {"", " --profiles model"}) {
    expect_one_message(run_on_rollouts(job + passes),
                       {"fields.rewards.profiles", "no rank would get the field",
                        "Name one with --profiles, or set it to all"});
  }
}

TEST_F(BadInput, a_missing_source_is_an_error) {
  expect_one_message(run("source: {kind: jsonl, path: /no/such/rollouts.jsonl}\n"),
                     {"/no/such/rollouts.jsonl"});
}

TEST_F(BadInput, an_empty_source_is_an_error) {
  lines_.clear();
  expect_one_message(run_on_rollouts(), {rollouts() + ": has no samples"});
}

TEST_F(BadInput, a_missing_configuration_is_an_error) {
  expect_one_message(mpirun_evenkeel(three_ranks, "run /no/such/job.yaml"), {"/no/such/job.yaml"});
}

TEST_F(BadInput, an_unknown_key_suggests_the_nearest_known_one) {
  expect_one_message(run("micro_batch: {max_token: 100}\n"), {"max_token", "micro_batch.max_tokens"});
}

TEST_F(BadInput, a_value_of_the_wrong_type_is_an_error) {
  expect_one_message(run("micro_batch: {max_tokens: many}\n"), {"micro_batch.max_tokens", "many"});
}

TEST_F(BadInput, a_mesh_that_does_not_fit_the_world_shows_both_numbers) {
  expect_one_message(run_on_rollouts("--set mesh.tp=2"), {"does not divide the 3 ranks"});
  expect_one_message(run_on_rollouts("--set mesh.dp=2"), {"= 2 ranks, but the world has 3"});
}

TEST_F(BadInput, a_cap_below_the_alignment_is_an_error) {
  expect_one_message(run_on_rollouts("--set mesh.cp=3 --set micro_batch.max_tokens=5"),
                     {"micro_batch.max_tokens", "6 tokens"});
}

TEST_F(BadInput, a_dump_folder_that_cannot_be_written_is_an_error) {
  write_text(scratch_ / "a-file", "in the way");
  expect_one_message(run_on_rollouts("--dump " + (scratch_ / "a-file/dump").string()),
                     {"a-file/dump", "--dump"});
}

TEST_F(BadInput, a_report_folder_needed_only_by_rank_0_is_everybodys_error) {
  write_text(scratch_ / "a-file", "in the way");
  expect_one_message(run_on_rollouts("--report " + (scratch_ / "a-file/report").string()),
                     {"a-file/report", "--report"});
}

TEST_F(BadInput, a_source_that_needs_a_path_says_so) {
  expect_one_message(run("source: {kind: jsonl}\n"), {"source.path"});
}

TEST_F(BadInput, an_unknown_option_is_reported_once) {
  expect_one_message(mpirun_evenkeel(three_ranks, "run job.yaml --dumpp x"),
                     {"unexpected argument '--dumpp'", "See: evenkeel run --help"});
}

}  // namespace
}  // namespace evenkeel
