#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/run_program.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::mpirun_evenkeel;
using testing_support::ProgramResult;
using testing_support::read_text;
using testing_support::run_evenkeel;
using testing_support::ScratchFolder;
using testing_support::write_text;

/// A folder with synthetic rollouts, in which files are converted.
class ConvertCommand : public testing::Test {
 protected:
  ConvertCommand() {
    made("synth --samples 40 --response-median 30 --prompt-median 20 --out " + in("a.jsonl"));
  }

  [[nodiscard]] std::string in(const std::string& name) const { return (scratch_ / name).string(); }
  static void made(const std::string& arguments) {
    const ProgramResult result = run_evenkeel(arguments);
    ASSERT_EQ(result.status, 0) << result.err;
  }
  [[nodiscard]] ProgramResult convert(const std::string& from, const std::string& to,
                                      const std::string& options = "--progress off") const {
    return run_evenkeel("convert '" + in(from) + "' " + in(to) + " " + options);
  }
  void converted(const std::string& from, const std::string& to, const std::string& options = "") const {
    const ProgramResult result = convert(from, to, "--progress off " + options);
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(in(to) + ": 40 samples, "));
  }
  void expect_equal(const std::string& a, const std::string& b) const {
    EXPECT_TRUE(read_text(in(a)) == read_text(in(b))) << a << " " << b;
  }

  ScratchFolder scratch_;
};

TEST_F(ConvertCommand, converts_to_every_format_and_back_without_loss) {
  converted("a.jsonl", "one.jsonl");
  converted("a.jsonl", "b.safetensors");
  converted("b.safetensors", "c.safetensors");
  converted("c.safetensors", "back.jsonl");
  expect_equal("b.safetensors", "c.safetensors");
  expect_equal("one.jsonl", "back.jsonl");
  converted("back.jsonl", "again.safetensors");
  expect_equal("b.safetensors", "again.safetensors");
}

TEST_F(ConvertCommand, writes_only_tokens_and_lengths_if_the_rest_is_dropped) {
  EXPECT_THAT(convert("a.jsonl", "t.idx").err,
              AllOf(HasSubstr("t.idx: can hold only tokens"), HasSubstr("--drop")));
  EXPECT_FALSE(std::filesystem::exists(in("t.idx")));
  converted("a.jsonl", "t.idx", "--drop reward,advantages,prompt_lengths,uid --vocab-size 32000");
  EXPECT_THAT(run_evenkeel("inspect " + in("t.bin")).out,
              HasSubstr("40 documents of 40 sequences of uint16"));
  converted("t.idx", "t.safetensors");
  converted("t.safetensors", "u.idx", "--vocab-size 32000");
  expect_equal("t.bin", "u.bin");
  expect_equal("t.idx", "u.idx");
  converted("a.jsonl", "l.csv", "--drop all");
  const std::string of_rollouts = run_evenkeel("inspect " + in("a.jsonl")).out;
  const std::string of_table = run_evenkeel("inspect " + in("l.csv")).out;
  const auto counts = [](const std::string& text) {
    const std::size_t first = text.find('\n');
    return text.substr(first, text.find("\nfield ") - first);
  };
  EXPECT_EQ(counts(of_rollouts) + "\n", counts(of_table));
}

TEST_F(ConvertCommand, drops_named_fields_and_refuses_unknown_names) {
  converted("a.jsonl", "b.jsonl", "--drop advantages");
  EXPECT_THAT(read_text(in("b.jsonl")), testing::Not(HasSubstr("advantages")));
  const ProgramResult misspelt = convert("a.jsonl", "c.jsonl", "--progress off --drop advantges");
  EXPECT_EQ(misspelt.status, 1);
  EXPECT_THAT(misspelt.err, AllOf(HasSubstr("--drop: names 'advantges'"), HasSubstr("advantages")));
  const ProgramResult kept = convert("a.jsonl", "c.jsonl", "--progress off --drop prompt_lengths");
  EXPECT_EQ(kept.status, 1);
  EXPECT_THAT(kept.err, HasSubstr("always stores where prompts end"));
  EXPECT_FALSE(std::filesystem::exists(in("c.jsonl")));
}

TEST_F(ConvertCommand, keeps_uids_and_adds_none) {
  const auto lines = [&](const std::string& name, const std::vector<std::string>& uids) {
    std::string text;
    for (const std::string& uid : uids) text += "{" + uid + R"("prompt_ids":[1],"response_ids":[2]})" + "\n";
    write_text(in(name), text);
    return text;
  };
  const std::vector<std::string> texts{R"("uid":"q1",)", R"("uid":"q1",)", R"("uid":"7",)"};
  const std::vector<std::string> numbers{R"("uid":-7,)", R"("uid":0,)"};
  const std::vector<std::string> none{"", ""};
  for (const auto& uids : {texts, numbers, none}) {
    const std::string before = lines("u.jsonl", uids);
    made("convert " + in("u.jsonl") + " " + in("u.safetensors") + " --progress off --overwrite");
    made("convert " + in("u.safetensors") + " " + in("back.jsonl") + " --progress off --overwrite");
    EXPECT_EQ(read_text(in("back.jsonl")), before);
  }
  lines("mixed.jsonl", {texts[0], "", numbers[0]});
  const ProgramResult refused = convert("mixed.jsonl", "m.safetensors");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("cannot hold the uid of sample 1: it is missing, but that of the first "
                                     "sample is a string"));
  EXPECT_EQ(convert("mixed.jsonl", "m.safetensors", "--progress off --drop uid").status, 0);
  made("convert " + in("m.safetensors") + " " + in("m.jsonl") + " --progress off");
  EXPECT_THAT(read_text(in("m.jsonl")), testing::Not(HasSubstr("uid")));
  EXPECT_THAT(convert("u.jsonl", "u.idx").err, HasSubstr("--drop prompt_lengths"));
  EXPECT_EQ(convert("u.jsonl", "u.idx", "--progress off --drop prompt_lengths").status, 0)
      << "no uids to lose";
}

TEST_F(ConvertCommand, refuses_negative_tokens_and_names_the_file) {
  const std::string index{
      "MMIDIDX\0\0\1\0\0\0\0\0\0\0\3\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"
      "\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0",
      62};
  write_text(in("t.idx"), index);
  write_text(in("t.bin"), std::string("\5\0\xff\xff", 4));
  const ProgramResult refused = convert("t.idx", "t.safetensors");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("t.bin: has -1 as token 1 of document 0"));
  EXPECT_FALSE(std::filesystem::exists(in("t.safetensors")));
}

TEST_F(ConvertCommand, writes_parts_that_a_pattern_reads_as_one_source) {
  const ProgramResult result = convert("a.jsonl", "part.safetensors", "--shard-samples 17 --progress off");
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* name : {"part-00000.safetensors", "part-00001.safetensors", "part-00002.safetensors"})
    EXPECT_TRUE(std::filesystem::exists(in(name)));
  converted("part-*.safetensors", "b.jsonl");
  converted("a.jsonl", "one.jsonl");
  expect_equal("one.jsonl", "b.jsonl");
}

TEST_F(ConvertCommand, overwrites_only_on_request_and_leaves_no_temporary_files) {
  write_text(in("b.safetensors"), "mine");
  const ProgramResult refused = convert("a.jsonl", "b.safetensors");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("b.safetensors: already exists. Give another name, or --overwrite"));
  EXPECT_EQ(read_text(in("b.safetensors")), "mine");
  converted("a.jsonl", "b.safetensors", "--overwrite");
  write_text(in("bad.jsonl"), "{\"prompt_ids\":[1],\"response_ids\":[2]}\n{\"prompt_ids\":[1]}\n");
  EXPECT_THAT(convert("bad.jsonl", "c.safetensors").err, HasSubstr("bad.jsonl:2: has no response_ids"));
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.path()))
    files += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(files, 3);
}

TEST_F(ConvertCommand, shows_progress_and_skipped_fields) {
  EXPECT_THAT(convert("a.jsonl", "b.safetensors", "--progress lines").err, HasSubstr("sample 40/40, "));
  EXPECT_THAT(convert("a.jsonl", "c.safetensors", "--progress bar").err, HasSubstr("sample 40/40, "));
  write_text(in("text.jsonl"), "{\"prompt_ids\":[1],\"response_ids\":[2],\"note\":\"a\"}\n");
  EXPECT_THAT(convert("text.jsonl", "d.safetensors").err, HasSubstr("text.jsonl: not read: 'note' (text)"));
}

TEST_F(ConvertCommand, has_options_for_formats_that_names_do_not_imply) {
  const ProgramResult unknown = convert("a.jsonl", "b.parquet");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("b.parquet: has a name that does not imply a format"));
  write_text(in("l.csv"), "length\n3\n");
  EXPECT_THAT(convert("l.csv", "m.jsonl").err, HasSubstr("--from lengths generates synthetic ones"));
  EXPECT_EQ(convert("l.csv", "m.jsonl", "--from lengths").status, 0);
  EXPECT_EQ(convert("a.jsonl", "tokens", "--to megatron --drop all").status, 0);
  EXPECT_TRUE(std::filesystem::exists(in("tokens.bin")));
  EXPECT_THAT(mpirun_evenkeel(2, "convert " + in("a.jsonl") + " " + in("x.safetensors")).err,
              HasSubstr("runs in one process"));
}

TEST_F(ConvertCommand, accepts_formats_of_fields_in_lines_and_refuses_unknown_fields) {
  write_text(
      in("told.jsonl"),
      R"({"prompt_ids": [1], "response_ids": [2, 3], "position_ids": [[0, 1, 2], [0, 0, 1]], "v": [[4, 2]]})"
      "\n");
  EXPECT_THAT(convert("told.jsonl", "none.safetensors").err, HasSubstr("read_as: rows, axes or runs"));
  made("convert " + in("told.jsonl") + " " + in("told.safetensors") +
       " --read-as position_ids=axes,v=runs --progress off");
  made("convert " + in("told.safetensors") + " " + in("plain.jsonl") + " --progress off");
  EXPECT_THAT(read_text(in("plain.jsonl")),
              AllOf(HasSubstr(R"("position_ids":[[0,0],[1,0],[2,1]])"), HasSubstr(R"("v":[4,4])")));
  const auto refusal = [&](const std::string& from, const std::string& told) {
    return convert(from, "none.safetensors", "--progress off --read-as " + told).err;
  };
  EXPECT_THAT(refusal("told.jsonl", "v=runs,position_ids=axes,w=text"),
              HasSubstr("no line has a field 'w', but it is declared as text"));
  EXPECT_THAT(refusal("told.safetensors", "v=runs"), HasSubstr("--read-as: declares formats of JSON lines"));
  EXPECT_THAT(refusal("told.jsonl", "v"), HasSubstr("'v' is not NAME=FORMAT"));
  EXPECT_THAT(refusal("told.jsonl", "v=lists"),
              HasSubstr("'lists' is not one of rows, text, bytes, axes, runs"));
  EXPECT_THAT(refusal("told.jsonl", "v=runs,v=rows"), HasSubstr("names 'v' twice"));
}

TEST_F(ConvertCommand, converts_a_dump_to_samples_that_a_job_reads) {
  write_text(in("job.yaml"),
             "source: {kind: jsonl, path: " + in("a.jsonl") +
                 "}\nbatch: {global_batch: 16}\nmicro_batch: {max_tokens: 4096}\nmesh: {cp: 2}\n");
  const ProgramResult run =
      mpirun_evenkeel(2, "run " + in("job.yaml") + " --log-level off --dump " + in("dump"));
  ASSERT_EQ(run.status, 0) << run.err;
  converted("dump", "d.safetensors");
  converted("a.jsonl", "direct.safetensors");
  expect_equal("direct.safetensors", "d.safetensors");
  for (const auto& [kind, path] : {std::pair{"dump", "dump"}, {"safetensors", "d.safetensors"}}) {
    const std::string again = std::string("again-") + kind;
    const ProgramResult second =
        mpirun_evenkeel(2, "run " + in("job.yaml") + " --log-level off --set source.kind=" + kind +
                               " --set source.path=" + in(path) + " --dump " + in(again));
    ASSERT_EQ(second.status, 0) << second.err;
    const std::string file = "/step-000001/dp-000/cp-001/tp-000/pp-000/mb-00000.safetensors";
    expect_equal("dump" + file, again + file);
  }
}

}  // namespace
}  // namespace evenkeel
