#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "support/run_program.hpp"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using testing_support::mpirun_evenkeel;
using testing_support::ProgramResult;
using testing_support::run_command;
using testing_support::run_evenkeel;
using testing_support::ScratchFolder;
using testing_support::write_text;

constexpr const char* commands[] = {"",       "run",           "plan",        "fit",  "synth",  "inspect",
                                    "config", "config schema", "config show", "feed", "buffer", "store"};

/// Wrong arguments, and the one line that reports them.
struct WrongWords {
  const char* words;
  const char* line;

  /// How GoogleTest and CTest print a case: the arguments, never addresses, which change between runs.
  friend void PrintTo(const WrongWords& wrong, std::ostream* out) {
    *out << "'evenkeel " << wrong.words << "'";
  }
};

class CommandLine : public testing::TestWithParam<WrongWords> {};

TEST_P(CommandLine, errors_are_one_line_with_status_2) {
  const ProgramResult result = run_evenkeel(GetParam().words);
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.err, std::string("evenkeel: error: ") + GetParam().line + "\n");
  EXPECT_EQ(result.out, "");
}

INSTANTIATE_TEST_SUITE_P(
    Wrong, CommandLine,
    testing::Values(
        WrongWords{"pln", "unexpected argument 'pln'. See: evenkeel --help"},
        WrongWords{"config schem", "unexpected argument 'schem'. See: evenkeel config --help"},
        WrongWords{"plan --lengths x.csv --config no.yaml",
                   "no.yaml: cannot open the configuration: No such file or directory. Check the path and "
                   "its permissions"},
        WrongWords{"config show no.yaml",
                   "no.yaml: cannot open the configuration: No such file or directory. Check the path and "
                   "its permissions"},
        WrongWords{"plan", "plan needs --lengths or --arrivals. See: evenkeel plan --help"},
        WrongWords{"run job.yaml --stpes 4", "unexpected argument '--stpes'. See: evenkeel run --help"},
        WrongWords{"run job.yaml --stpes=4", "unexpected argument '--stpes=4'. See: evenkeel run --help"},
        WrongWords{"run job.yaml -q", "unexpected argument '-q'. See: evenkeel run --help"},
        WrongWords{"--set a=b run job.yaml", "unexpected argument '--set'. See: evenkeel run --help"},
        WrongWords{"run job.yaml more", "unexpected argument 'more'. See: evenkeel run --help"},
        WrongWords{"run job.yaml --steps 0", "--steps: '0' is out of range; allowed: 1 to 2^63 - 1"},
        WrongWords{"run job.yaml --steps -3", "--steps: '-3' is out of range; allowed: 1 to 2^63 - 1"},
        WrongWords{"run job.yaml --steps 99999999999999999999",
                   "--steps: '99999999999999999999' is out of range; allowed: 1 to 2^63 - 1"},
        WrongWords{"run job.yaml --steps 1.5", "--steps: '1.5' is not an integer; allowed: 1 to 2^63 - 1"},
        WrongWords{"run job.yaml --dump --report r",
                   "--dump: needs a value; '--report' looks like an option"},
        WrongWords{"run job.yaml --dump --report", "--dump: needs a value; '--report' looks like an option"},
        WrongWords{"run job.yaml --progress fast", "--progress: 'fast' is not one of auto, bar, lines, off"},
        WrongWords{"run job.yaml --log-level inf",
                   "--log-level: 'inf' is not one of trace, debug, info, warning, error, off"},
        WrongWords{"plan --lengths x --ranks 2147483647",
                   "--ranks: '2147483647' is out of range; allowed: 1 to 1048576"},
        WrongWords{"synth --out x --seed -1", "--seed: '-1' is out of range; allowed: 0 to 2^64 - 1"},
        WrongWords{"synth --out x --group-size 0",
                   "--group-size: '0' is out of range; allowed: 1 to 1048576"},
        WrongWords{"synth --out x --prompt-sigma nan",
                   "--prompt-sigma: 'nan' is not a number; allowed: 0 to 10"},
        WrongWords{"synth --out x --prompt-median 0",
                   "--prompt-median: '0' is out of range; allowed: above 0"},
        WrongWords{"plan --lengths x.csv --json a --html ./a",
                   "--html: names the same file as --json. Give each option its own file"},
        WrongWords{"plan --lengths x.csv --json x.csv",
                   "--json: names the same file as --lengths. Give each option its own file"},
        WrongWords{"synth --out x --prompt-max 8",
                   "--prompt-max: '8' is out of range; allowed: 16 to 1099511627776"},
        WrongWords{"config import x.yaml --from verl --override a.b=1 ~c",
                   "config import: is part of the Python package: run python3 -m evenkeel.config_import, or "
                   "evenkeel-import if pip installed it"},
        WrongWords{
            "config schema mesh --markdown",
            "--markdown: writes all keys, so it cannot be combined with the key mesh. Leave out one of them"},
        WrongWords{"run job.yaml \"$(printf '\\033[31mx')\"",
                   "unexpected argument '\\x1b[31mx'. See: evenkeel run --help"}));

/// The text of such errors comes from CLI11.
TEST(IncompleteCommandLine, names_the_missing_option_and_points_to_help) {
  for (const auto& [words, name, see] : std::vector<std::array<std::string, 3>>{
           {"", "subcommand", "evenkeel --help"},
           {"config", "subcommand", "evenkeel config --help"},
           {"run", "CONFIG", "evenkeel run --help"},
           {"run job.yaml --steps", "--steps", "evenkeel run --help"},
           {"run job.yaml --dump a --dump b", "--dump", "evenkeel run --help"},
           {"run job.yaml --log-all-ranks=3", "log-all-ranks", "evenkeel run --help"}}) {
    const ProgramResult result = run_evenkeel(words);
    EXPECT_EQ(result.status, 2) << words;
    EXPECT_THAT(result.err,
                AllOf(StartsWith("evenkeel: error: "), HasSubstr(name), EndsWith(". See: " + see + "\n")));
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  }
}

TEST(CommandLineWithoutAValue, is_refused_by_the_option_s_name_in_every_command) {
  const std::string why = ": needs a value, but the value is empty. Check that shell variables in it are set";
  for (const auto& [words, option] : std::vector<std::pair<std::string, std::string>>{
           {"run job.yaml --state '' --resume", "--state"},
           {"run job.yaml --dump ''", "--dump"},
           {"run job.yaml --results ''", "--results"},
           {"run job.yaml --report ''", "--report"},
           {"run job.yaml --trace ''", "--trace"},
           {"run job.yaml --prometheus ''", "--prometheus"},
           {"run job.yaml --prometheus-file ''", "--prometheus-file"},
           {"run job.yaml --profiles ''", "--profiles"},
           {"run job.yaml --set ''", "--set"},
           {"run ''", "CONFIG"},
           {"plan --lengths ''", "--lengths"},
           {"plan --lengths x --config ''", "--config"},
           {"plan --lengths x --profile ''", "--profile"},
           {"plan --lengths x --json ''", "--json"},
           {"plan --lengths x --html ''", "--html"},
           {"synth --out ''", "--out"},
           {"inspect ''", "FILE"},
           {"convert '' b.jsonl", "INPUT"},
           {"convert a.jsonl ''", "OUTPUT"},
           {"config show ''", "CONFIG"},
           {"config schema ''", "KEY"},
           {"plan --lengths x.csv --json ''", "--json"}}) {
    const ProgramResult result = run_evenkeel(words);
    EXPECT_EQ(result.status, 2) << words;
    EXPECT_EQ(result.err, "evenkeel: error: " + option + why + "\n") << words;
  }
}

TEST(CommandLineUnderLauncher, errors_are_printed_by_rank_0_and_no_rank_hangs) {
  for (const char* words : {"run job.yaml --stpes 4", "pln"}) {
    const ProgramResult result = mpirun_evenkeel(3, words);
    EXPECT_EQ(result.status, 2) << words;
    const std::size_t first = result.err.find("evenkeel: error");
    ASSERT_NE(first, std::string::npos) << result.err;
    EXPECT_EQ(result.err.find("evenkeel: error", first + 1), std::string::npos) << result.err;
  }
}

TEST(CommandLineUnderLauncher, prints_help_and_version_once) {
  for (const char* words : {"--version", "run --help"}) {
    const ProgramResult result = mpirun_evenkeel(3, words);
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.out, run_evenkeel(words).out);
  }
}

TEST(CommandLineUnderLauncher, errors_on_another_rank_are_printed_too) {
  const ProgramResult result =
      run_command(testing_support::mpirun_programs + " -np 1 sleep 30 : -np 1 " EVENKEEL_PROGRAM " fly");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("unexpected argument 'fly'"));
}

TEST(ExitStatus, distinguishes_a_wrong_configuration_from_failed_work) {
  const ScratchFolder scratch;
  write_text(scratch / "job.yaml", "mesh: {tpp: 2}\n");
  EXPECT_EQ(run_evenkeel("config show " + (scratch / "job.yaml").string()).status, 2);
  EXPECT_EQ(mpirun_evenkeel(2, "run " + (scratch / "job.yaml").string()).status, 2);
  EXPECT_EQ(mpirun_evenkeel(2, "run " + (scratch / "absent.yaml").string()).status, 2);
  EXPECT_EQ(run_evenkeel("inspect " + (scratch / "absent.jsonl").string()).status, 1);
  write_text(scratch / "lengths.csv", "length\n8\n");
  const std::string plan = "plan --ranks 3 --set mesh.tp=2 --lengths " + (scratch / "lengths.csv").string();
  EXPECT_EQ(run_evenkeel(plan).status, 2) << "a mesh that does not fit";
}

TEST(Inspect, lists_the_kinds_of_files_if_a_name_does_not_imply_one) {
  const ProgramResult result = run_evenkeel("inspect /bin/ls");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("/bin/ls: has a name that does not imply what kind of file it is"),
                                HasSubstr(".safetensors"), HasSubstr("the folder of a run")));
}

TEST(Help, of_every_command_has_examples) {
  for (const char* command : commands) {
    const ProgramResult help = run_evenkeel(std::string(command) + " --help");
    EXPECT_EQ(help.status, 0) << command;
    EXPECT_EQ(help.err, "") << command;
    EXPECT_THAT(help.out, HasSubstr("xample"));
  }
}

TEST(Help, lists_exit_statuses) {
  EXPECT_THAT(run_evenkeel("--help").out, AllOf(HasSubstr("Exit status"), HasSubstr("2 the command line")));
}

TEST(Colour, is_used_on_terminals_or_if_forced) {
  EXPECT_THAT(run_evenkeel("fly").err, Not(HasSubstr("\033")));
  EXPECT_THAT(run_command("CLICOLOR_FORCE=1 " EVENKEEL_PROGRAM " fly").err,
              HasSubstr("evenkeel: \033[1;31merror:\033[0m unexpected"));
  EXPECT_THAT(run_command("NO_COLOR=1 CLICOLOR_FORCE=1 " EVENKEEL_PROGRAM " fly").err,
              Not(HasSubstr("\033")));
}

/// Returns the output on a terminal of this kind.
std::string shown_on(const std::string& terminal, const std::string& words) {
  return run_command("TERM=" + terminal + " script -qec '" EVENKEEL_PROGRAM " " + words + "' /dev/null").out;
}

TEST(Terminal, gets_colors_and_a_bar_unless_it_is_dumb) {
  const ScratchFolder scratch;
  write_text(scratch / "job.yaml",
             "source: {kind: synthetic, samples: 16}\nmicro_batch: {max_tokens: 32768}\n");
  const std::string run = "run " + (scratch / "job.yaml").string();
  EXPECT_THAT(shown_on("xterm", "fly"), HasSubstr("\033[1;31merror:"));
  EXPECT_THAT(shown_on("xterm", run),
              HasSubstr("\r["));  // MPI, which initializes here, looks like a launcher
  EXPECT_THAT(shown_on("dumb", "fly"), AllOf(HasSubstr("error: "), Not(HasSubstr("\033"))));
  EXPECT_THAT(shown_on("dumb", run), AllOf(HasSubstr("step 1/1"), Not(HasSubstr("\033"))));
}

TEST(ConfigSchema, prints_all_keys_one_section_or_one_key) {
  const std::string all = run_evenkeel("config schema").out;
  EXPECT_THAT(all, AllOf(HasSubstr("mesh.tp:"), HasSubstr("exchange.prefetch:")));
  const std::string section = run_evenkeel("config schema micro_batch").out;
  EXPECT_THAT(section, AllOf(HasSubstr("micro_batch.mode:"), HasSubstr("micro_batch.max_tokens:"),
                             Not(HasSubstr("mesh.tp:"))));
  const std::string key = run_evenkeel("config schema micro_batch.max_tokens").out;
  EXPECT_THAT(key, AllOf(HasSubstr("micro_batch.max_tokens: 8192"), Not(HasSubstr("micro_batch.mode:"))));
}

}  // namespace
}  // namespace evenkeel
