#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <vector>

#include "cli/terminal/terminal.hpp"
#include "support/run_program.hpp"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing_support::ProgramResult;
using testing_support::run_command;
using testing_support::run_evenkeel;
using testing_support::ScratchFolder;
using testing_support::write_text;

/// Returns what `inspect` prints for a file or folder.
std::string inspect_output(const std::filesystem::path& path) {
  const ProgramResult result = run_evenkeel("inspect " + path.string());
  EXPECT_EQ(result.status, 0) << result.err;
  return result.out;
}

TEST(InspectCommand, distinguishes_rollouts_from_a_state_in_a_json_file) {
  const ScratchFolder scratch;
  write_text(scratch / "rollouts.json", R"({"prompt_ids": [1], "response_ids": [2, 3]})"
                                        "\n"
                                        R"({"prompt_ids": [4], "response_ids": [5]})");
  EXPECT_THAT(inspect_output(scratch / "rollouts.json"), HasSubstr("2 samples in 2 groups"));
  write_text(scratch / "list.json", R"([{"prompt_ids": [1], "response_ids": [2]}])");
  const ProgramResult list = run_evenkeel("inspect " + (scratch / "list.json").string());
  EXPECT_EQ(list.status, 1);
  EXPECT_THAT(list.err, AllOf(HasSubstr("it is not a state"),
                              HasSubstr("put them in a file whose name ends in .jsonl")));
}

TEST(InspectCommand, shows_tensors_of_a_dump) {
  const ScratchFolder scratch;
  write_text(scratch / "job.yaml",
             "source: {kind: synthetic, samples: 24}\nmicro_batch: {max_tokens: 1048576}\n");
  const std::filesystem::path dump = scratch / "dump";
  const ProgramResult run =
      run_evenkeel("run " + (scratch / "job.yaml").string() + " --log-level off --dump " + dump.string());
  ASSERT_EQ(run.status, 0) << run.err;
  const std::filesystem::path file = dump / "step-000000/dp-000/cp-000/tp-000/pp-000/mb-00000.safetensors";
  EXPECT_THAT(inspect_output(file), AllOf(HasSubstr("cu_seqlens_padded"), HasSubstr("num_tokens")));
  EXPECT_THAT(inspect_output(file),
              AllOf(HasSubstr("\ntensor             dtype    shape     bytes\n"),
                    HasSubstr("\nsample_index       int64    [24]        192\n"),
                    HasSubstr("\nevenkeel_dump  micro-batch 0 of 1 of step 0\nlayout         packed\n")));
}

TEST(InspectCommand, accepts_formats_of_fields_in_lines) {
  const ScratchFolder scratch;
  write_text(
      scratch / "told.jsonl",
      R"({"prompt_ids": [1], "response_ids": [2, 3, 4], "axes": [[0, 1, 2, 3], [0, 0, 1, 1]], "from": "a"})"
      "\n");
  const std::string file = (scratch / "told.jsonl").string();
  const ProgramResult told = run_evenkeel("inspect " + file + " --read-as axes=axes,from=text");
  EXPECT_EQ(told.status, 0) << told.err;
  EXPECT_THAT(told.out, AllOf(HasSubstr("axes   int64  token        [2]"), HasSubstr("from   uint8  text")));
  EXPECT_THAT(run_evenkeel("inspect " + file).err, HasSubstr("read_as: rows, axes or runs"));
  EXPECT_THAT(run_evenkeel("inspect " + file + " --read-as axes=axes,x=rows").err,
              HasSubstr("no line has a field 'x'"));
  write_text(scratch / "lengths.jsonl", "{\"length\": 3}\n");
  for (const std::filesystem::path& other : {scratch / "lengths.jsonl", scratch.path()})
    EXPECT_THAT(run_evenkeel("inspect " + other.string() + " --read-as x=rows").err,
                HasSubstr("--read-as: declares formats of rollouts in JSON lines"));
}

TEST(InspectCommand, shows_fields_of_rollouts) {
  const ScratchFolder scratch;
  write_text(scratch / "rollouts.jsonl",
             R"({"prompt_ids":[1],"response_ids":[2],"a_field_with_a_long_name_indeed":[[1,2]],"reward":1,)"
             R"("spoken":null})"
             "\n"
             R"({"prompt_ids":[1],"response_ids":[2],"a_field_with_a_long_name_indeed":[[1,2]],"reward":1,)"
             R"("spoken":"word"})"
             "\n");
  EXPECT_THAT(inspect_output(scratch / "rollouts.jsonl"),
              HasSubstr("field                            dtype  one row per     row shape\n"
                        "a_field_with_a_long_name_indeed  int64  response_token  [2]\n"
                        "reward                           int64  sample\n"
                        "left out  why\n"
                        "spoken    text, null\n"));
}

TEST(InspectCommand, reports_fields_whose_kind_depends_on_empty_prompts_like_a_jobs_log) {
  const ScratchFolder scratch;
  const std::string path = (scratch / "rollouts.jsonl").string();
  write_text(path, R"({"prompt_ids":[],"response_ids":[2,3],"turn":[0,1],"reward":1})"
                   "\n");
  write_text(scratch / "job.yaml", "source: {kind: jsonl, path: " + path + "}\n");
  const std::string run = "run " + (scratch / "job.yaml").string();
  EXPECT_THAT(inspect_output(path), AllOf(HasSubstr("turn    int64  token, since all prompts are empty\n"),
                                          HasSubstr("reward  int64  sample\n")));
  EXPECT_THAT(
      run_evenkeel(run).err,
      HasSubstr(path + ": all prompts are empty, so these fields are read as one row per token: 'turn'"));
  write_text(path, R"({"prompt_ids":[1],"response_ids":[2,3],"turn":[0,1],"reward":1})"
                   "\n");
  EXPECT_THAT(inspect_output(path), HasSubstr("turn    int64  response_token\n"));
  EXPECT_THAT(run_evenkeel(run).err, Not(HasSubstr("prompts are empty")));
}

TEST(InspectCommand, names_skipped_fields_and_escapes_control_characters) {
  const ScratchFolder scratch;
  write_text(scratch / "rollouts.jsonl",
             R"({"prompt_ids":[1],"response_ids":[2],"note":"a","a\u001b[31mred":1,"c\u001b[0m":null})"
             "\n");
  const ProgramResult result = run_evenkeel("inspect " + (scratch / "rollouts.jsonl").string());
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\nnote      text\n"));
  EXPECT_THAT(result.out, HasSubstr("\nc\\x1b[0m  null\n"));
  EXPECT_THAT(result.out, HasSubstr("a\\x1b[31mred"));
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
}

TEST(InspectCommand, refuses_what_a_job_refuses) {
  const ScratchFolder scratch;
  const auto refusal = [&](const std::string& name, const std::string& text) {
    write_text(scratch / name, text);
    const ProgramResult result = run_evenkeel("inspect " + (scratch / name).string());
    EXPECT_NE(result.status, 0) << text;
    return result.err;
  };
  const std::string good = R"({"prompt_ids":[1],"response_ids":[2]})"
                           "\n";
  EXPECT_THAT(refusal("a.jsonl", good + R"({"prompt_ids":[1],"response_ids":[-2]})"
                                        "\n"),
              HasSubstr("a.jsonl:2: response_ids[0] is -2"));
  EXPECT_THAT(refusal("a.jsonl", R"({"prompt_ids":[1],"response_ids":[2],"x":[1,2,3]})"
                                 "\n"),
              HasSubstr("a.jsonl:1: field 'x' has 3 rows"));
  EXPECT_THAT(refusal("a.jsonl", good + R"({"length":3})"
                                        "\n"),
              HasSubstr("a.jsonl:2: has no prompt_ids"));
  EXPECT_THAT(refusal("a.jsonl", good + R"({"prompt_ids":[1],"response_ids":[2],"x":1e39})"
                                        "\n"),
              HasSubstr("line 2"));
  EXPECT_THAT(refusal("empty.jsonl", "\n"), HasSubstr("empty.jsonl: has no samples"));
  EXPECT_THAT(refusal("empty.csv", "length\n"), HasSubstr("empty.csv: has no samples"));
}

TEST(InspectCommand, explains_why_a_file_cannot_be_opened) {
  const ScratchFolder scratch;
  std::filesystem::create_symlink("loop.jsonl", scratch / "loop.jsonl");
  for (const auto& [name, why] : {std::pair{std::string("loop.jsonl"), "Too many levels of symbolic links"},
                                  {std::string("loop.jsonl/a"), "Too many levels of symbolic links"},
                                  {std::string(300, 'a') + ".jsonl", "File name too long"}}) {
    const ProgramResult result = run_evenkeel("inspect " + (scratch / name).string());
    EXPECT_EQ(result.status, 1) << name;
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("cannot be opened: " + std::string(why)), Not(HasSubstr("internal"))));
  }
}

TEST(InspectCommand, accepts_a_pattern_like_a_job) {
  const ScratchFolder scratch;
  const auto write = [&](const std::string& name, const std::string& prompt, const std::string& fields) {
    write_text(scratch / name,
               R"({"uid":1,"prompt_ids":[)" + prompt + R"(],"response_ids":[2])" + fields + "}\n");
  };
  write("a.jsonl", "", R"(,"turn":[1])");
  write("b.jsonl", "1", R"(,"turn":[1])");
  const auto inspect = [&](const std::string& pattern) {
    return run_evenkeel("inspect '" + (scratch / pattern).string() + "'");
  };
  EXPECT_THAT(inspect("?.jsonl").out, AllOf(HasSubstr("?.jsonl\n2 files\n2 samples in 1 group\n"),
                                            HasSubstr("turn   int64  response_token\n")));
  write("b.jsonl", "1", "");
  EXPECT_THAT(inspect("*.jsonl").err, HasSubstr("b.jsonl:1: field 'turn' holds numbers in line 1 of"));
  EXPECT_THAT(inspect("*.safetensors").err, HasSubstr("*.safetensors: matches no file"));
  write("b.jsonl", "1", R"(,"turn":[1])");
  for (const char* name : {"a", "b"}) {
    const std::string path = (scratch / name).string();
    ASSERT_EQ(run_evenkeel("convert " + path + ".jsonl " + path + ".safetensors --progress off").status, 0);
  }
  const std::string each = inspect("*.safetensors").out;
  EXPECT_THAT(each, AllOf(HasSubstr("a.safetensors\ntensor"), HasSubstr("b.safetensors\ntensor")));
}

TEST(InspectCommand, announces_long_reads) {
  const ScratchFolder scratch;
  const std::vector<std::filesystem::path> files{scratch / "a", scratch / "b"};
  for (const std::filesystem::path& file : files) {
    write_text(file, "");
    std::filesystem::resize_file(file, cli::least_noted_bytes / 2);  // of no blocks
  }
  EXPECT_EQ(cli::reading_note("?", files), "reading ? (256.0 MiB)");
  EXPECT_EQ(cli::reading_note("a", std::span(files).first(1)), "");
  EXPECT_EQ(cli::reading_note("none", std::vector<std::filesystem::path>{scratch / "none"}), "");
}

}  // namespace
}  // namespace evenkeel
