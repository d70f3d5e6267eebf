#include "bench/commands.hpp"

#include <fmt/format.h>

#include <boost/mpi/environment.hpp>
#include <iostream>
#include <limits>

#include "bench/benchmarks.hpp"
#include "cli/option_values.hpp"
#include "cli/rank_failures.hpp"
#include "cli/terminal/terminal.hpp"
#include "io/files/output_file.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel::bench {
namespace {

using cli::Action;
using cli::positive_number;
using cli::seed_number;
using cli::StandardOutput;
using cli::token_count_transform;
using cli::whole_number;

void publish(const Report& report, const std::filesystem::path& json) {
  std::cout << to_markdown(report);
  StandardOutput::flush();
  if (!json.empty()) write_text_file(json, to_json(report).dump(2) + "\n");
}

template <class Options>
struct BenchCommand {
  Options options;
  std::filesystem::path json;
};

template <class Options>
void add_json(CLI::App& command, BenchCommand<Options>& words) {
  command.add_option("--json", words.json, "Write all figures, the machine and the sizes to this file")
      ->type_name("FILE");
}

template <class Options>
void add_common_options(CLI::App& command, BenchCommand<Options>& words) {
  add_json(command, words);
  command.add_option("--repeat", words.options.rounds, "Rounds; medians are reported")
      ->type_name("COUNT")
      ->check(whole_number(1, std::numeric_limits<int>::max()))
      ->capture_default_str();
}

template <class Number>
CLI::Option* add_count(CLI::App& command, const char* name, Number& number, const char* about) {
  return command.add_option(name, number, about)
      ->type_name("COUNT")
      ->check(
          whole_number(1, static_cast<std::int64_t>(std::min<std::uint64_t>(
                              std::numeric_limits<Number>::max(), std::numeric_limits<std::int64_t>::max()))))
      ->capture_default_str();
}

void add_tokens(CLI::App& command, const char* name, std::int64_t& number, const char* about) {
  add_count(command, name, number, about)->type_name("TOKENS")->transform(token_count_transform());
}

void add_pack(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("pack", "The copy kernels against memcpy and loops in PyTorch");
  auto words = std::make_shared<BenchCommand<PackOptions>>();
  PackOptions& options = words->options;
  add_common_options(*command, *words);
  add_count(*command, "--sequences", options.sequences, "Sequences in the batch");
  add_count(*command, "--row-bytes", options.row_bytes, "Bytes of a token's row");
  add_count(*command, "--cp", options.cp, "Context-parallel ranks of the zigzag cut");
  command->add_flag("--warm", options.warm,
                    "Use the same buffers in every call; only cases that are compared with PyTorch");
  command->add_option("--seed", options.seed, "Seed of the lengths")
      ->type_name("NUMBER")
      ->check(seed_number())
      ->capture_default_str();
  command->add_option("--python", options.python, "Python that has torch, to compare with")
      ->type_name("PROGRAM")
      ->capture_default_str();
  command->footer("Example:\n  evenkeel-bench pack --cp 2 --json pack.json");
  command->callback([words, &chosen] {
    chosen = [words] {
      publish(bench_pack(words->options), words->json);
      return 0;
    };
  });
}

void add_plan(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("plan", "Partitioning, refinement and capped packing: time and quality");
  auto words = std::make_shared<BenchCommand<PlanOptions>>();
  PlanOptions& options = words->options;
  add_common_options(*command, *words);
  command->add_option("--lengths", options.lengths, "Length table to draw batches of 64 samples from")
      ->type_name("FILE");
  add_tokens(*command, "--cap", options.cap, "Tokens of a micro-batch");
  add_count(*command, "--draws", options.draws, "Batches packed under the cap");
  add_count(*command, "--max-items", options.max_items, "Leave out cases with more samples");
  command->add_option("--python", options.python, "Python to compare with")
      ->type_name("PROGRAM")
      ->capture_default_str();
  command->footer("Example:\n  evenkeel-bench plan --lengths lengths.csv --draws 50");
  command->callback([words, &chosen] {
    chosen = [words] {
      publish(bench_plan(words->options), words->json);
      return 0;
    };
  });
}

template <class Options>
using CollectiveBenchmark = Report (*)(const boost::mpi::communicator&, const Options&);
using TransferBenchmark = CollectiveBenchmark<TransferOptions>;

/// Steps are made ahead only by a thread, which requires that MPI may be called from it.
template <class Options>
boost::mpi::threading::level threads_for(const Options& options) {
  if constexpr (requires { options.prefetch; }) {
    if (options.prefetch > 0) return boost::mpi::threading::multiple;
  }
  return boost::mpi::threading::funneled;
}

template <class Options>
int run_on_all_ranks(CollectiveBenchmark<Options> benchmark, const BenchCommand<Options>& words) {
  const boost::mpi::environment environment(threads_for(words.options));
  const boost::mpi::communicator world;
  try {
    const Report report = benchmark(world, words.options);
    run_together(world, [&] {
      if (world.rank() == 0) publish(report, words.json);
    });
    return 0;
  } catch (...) {
    return cli::report_failure(world);
  }
}

/// Returns the command's options, so that more can be added.
TransferOptions& add_transfer(CLI::App& app, Action& chosen, const char* name, const char* about,
                              TransferBenchmark benchmark) {
  auto* command = app.add_subcommand(name, about);
  auto words = std::make_shared<BenchCommand<TransferOptions>>();
  TransferOptions& options = words->options;
  add_common_options(*command, *words);
  add_count(*command, "--bytes", options.bytes, "Bytes of samples each rank holds, roughly");
  command->add_option("--samples", options.samples, "Samples over all ranks; 64 a rank by default")
      ->type_name("COUNT")
      ->check(whole_number(1));
  add_tokens(*command, "--cap", options.cap, "Tokens of a micro-batch");
  command->footer(std::string("Example, under mpirun:\n  mpirun -n 4 evenkeel-bench ") + name);
  command->callback([words, benchmark, &chosen] {
    chosen = [words, benchmark] { return run_on_all_ranks(benchmark, *words); };
  });
  return options;
}

void add_prefix(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("prefix", "Shared prefixes against repeated ones, moved and packed");
  auto words = std::make_shared<BenchCommand<PrefixOptions>>();
  PrefixOptions& options = words->options;
  add_common_options(*command, *words);
  add_tokens(*command, "--tokens", options.tokens, "Tokens each rank holds with prefixes repeated, roughly");
  command->add_option("--response", options.response, "Tokens of a response")
      ->type_name("TOKENS")
      ->transform(token_count_transform())
      ->check(whole_number(4, 1 << 20))
      ->capture_default_str();
  add_tokens(*command, "--cap", options.cap, "Tokens of a micro-batch");
  command->footer("Example, under mpirun:\n  mpirun -n 2 evenkeel-bench prefix");
  command->callback(
      [words, &chosen] { chosen = [words] { return run_on_all_ranks(&bench_prefix, *words); }; });
}

void add_read(CLI::App& app, Action& chosen) {
  auto* command =
      app.add_subcommand("read", "Samples from a file that is not cached, in order against shuffled");
  auto words = std::make_shared<BenchCommand<ReadOptions>>();
  ReadOptions& options = words->options;
  add_common_options(*command, *words);
  command
      ->add_option("--folder", options.folder,
                   "Where to make the file, on the disk to measure; $TMPDIR by default")
      ->type_name("FOLDER");
  add_count(*command, "--bytes", options.bytes, "Bytes of the file");
  add_count(*command, "--samples", options.samples, "Samples of a step, over all ranks");
  command->footer("Example, under mpirun:\n  mpirun -n 2 evenkeel-bench read --folder /data");
  command->callback([words, &chosen] { chosen = [words] { return run_on_all_ranks(&bench_read, *words); }; });
}

void add_feed(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("feed", "How long trainers wait: reading themselves, against a feeder");
  auto words = std::make_shared<BenchCommand<FeedOptions>>();
  FeedOptions& options = words->options;
  add_common_options(*command, *words);
  command->add_option("--folder", options.folder, "Where to make files and the buffer; $TMPDIR by default")
      ->type_name("FOLDER");
  add_count(*command, "--samples", options.samples, "Samples of a step, over all ranks");
  add_count(*command, "--steps", options.steps, "Steps of a run");
  add_count(*command, "--prefetch", options.prefetch, "Steps made ahead of the trainer");
  command->footer("Example, under mpirun:\n  mpirun -n 1 --bind-to core evenkeel-bench feed");
  command->callback([words, &chosen] { chosen = [words] { return run_on_all_ranks(&bench_feed, *words); }; });
}

void add_soak(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("soak", "Very many steps: whether their time and memory stay the same");
  auto words = std::make_shared<BenchCommand<SoakOptions>>();
  SoakOptions& options = words->options;
  add_json(*command, *words);
  command->add_option("--steps", options.steps, "Steps of the run")
      ->type_name("COUNT")
      ->check(whole_number(10, std::int64_t{1} << 40))
      ->capture_default_str();
  add_count(*command, "--samples", options.samples, "Samples of a step, over all ranks");
  add_tokens(*command, "--cap", options.cap, "Tokens of a micro-batch, at least 4096");
  command
      ->add_option("--fail-every", options.fail_every,
                   "Make a reader throw on one rank after every this many steps; never by default")
      ->type_name("STEPS")
      ->check(whole_number(1));
  command->footer("Example, under mpirun:\n  mpirun -n 4 evenkeel-bench soak --fail-every 100");
  command->callback([words, &chosen] { chosen = [words] { return run_on_all_ranks(&bench_soak, *words); }; });
}

void add_stream(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand(
      "stream", "Steps formed while samples arrive: their time, and that of a job that generates and trains");
  auto words = std::make_shared<BenchCommand<StreamOptions>>();
  StreamOptions& options = words->options;
  add_common_options(*command, *words);
  command
      ->add_option("--lengths", options.lengths,
                   "Length table to draw groups from, beside made-up ones; repeatable")
      ->type_name("FILE")
      ->allow_extra_args(false);
  add_count(*command, "--groups", options.groups, "Groups of a step");
  add_count(*command, "--group-size", options.group_size, "Samples of a group");
  add_count(*command, "--steps", options.steps, "Steps of a run");
  add_count(*command, "--cap", options.cap, "Tokens of a micro-batch, at least 4096");
  add_count(*command, "--dp", options.dp, "DP ranks that steps are planned for");
  command->footer("Example:\n  evenkeel-bench stream --lengths lengths.csv --dp 32");
  command->callback([words, &chosen] {
    chosen = [words] {
      publish(bench_stream(words->options), words->json);
      return 0;
    };
  });
}

void add_buffer(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand(
      "buffer", "Samples that producers send to a buffer: until they are on the disk, and in memory");
  auto words = std::make_shared<BenchCommand<BufferBenchOptions>>();
  BufferBenchOptions& options = words->options;
  add_common_options(*command, *words);
  command
      ->add_option("--folder", options.folder,
                   "Where to keep samples, on the disk to measure; $TMPDIR by default")
      ->type_name("FOLDER");
  add_count(*command, "--producers", options.producers, "Producers that send at the same time");
  add_count(*command, "--bytes", options.bytes, "Bytes that they send in a round");
  command
      ->add_option("--held", options.held,
                   "Bytes in the buffer whose memory is looked at; 0: that is not measured")
      ->type_name("BYTES")
      ->check(whole_number(0, std::int64_t{1} << 50))
      ->capture_default_str();
  command->add_option("--idle", options.idle_seconds, "Seconds for which that buffer is left alone")
      ->type_name("SECONDS")
      ->check(positive_number())
      ->capture_default_str();
  command->footer("Example:\n  evenkeel-bench buffer --folder /data --held 0");
  command->callback([words, &chosen] {
    chosen = [words] {
      publish(bench_buffer(words->options), words->json);
      return 0;
    };
  });
}

}  // namespace

void add_commands(CLI::App& app, Action& chosen) {
  add_pack(app, chosen);
  add_plan(app, chosen);
  add_transfer(app, chosen, "exchange",
               "Every exchange path against MPI_Alltoallv and memcpy of the same bytes", bench_exchange);
  add_transfer(app, chosen, "layers", "A field of layers to the stages that have them, against memcpy",
               bench_layers);
  TransferOptions& step =
      add_transfer(app, chosen, "step", "The phases of a step, which add up to it", bench_step);
  app.get_subcommand("step")
      ->add_option("--prefetch", step.prefetch,
                   "Also make this many steps ahead, and measure how long a trainer waits if its compute "
                   "takes 1.2 times as long as the data work")
      ->type_name("STEPS")
      ->check(whole_number(1, 16));
  add_prefix(app, chosen);
  add_read(app, chosen);
  add_feed(app, chosen);
  add_stream(app, chosen);
  add_buffer(app, chosen);
  add_soak(app, chosen);
}

}  // namespace evenkeel::bench
