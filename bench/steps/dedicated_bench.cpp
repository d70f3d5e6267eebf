#include <sys/resource.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.hpp"
#include "bench/benchmarks.hpp"
#include "bench/machine.hpp"
#include "bench/measurement.hpp"
#include "bench/steps/shared_folder.hpp"
#include "bench/steps/stand_in.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/data_ranks/serve.hpp"
#include "evenkeel/service/prefetcher.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "io/files/atomic_file.hpp"

namespace evenkeel::bench {
namespace {

namespace fs = std::filesystem;

/// Rollouts of 64 to 12,000 tokens, most of them short.
void write_rollouts(const fs::path& path, std::int64_t samples) {
  AtomicFile file(path);
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    const std::uint64_t draw = mix_64(static_cast<std::uint64_t>(sample) + 1);
    const std::uint64_t tokens = draw % 16 == 0 ? 2'000 + draw / 16 % 10'000 : 64 + draw / 16 % 900;
    std::string line = "{\"prompt_ids\":[1,2,3],\"response_ids\":[7";
    for (std::uint64_t t = 1; t < tokens; ++t)
      line += "," + std::to_string(10'000 + (draw + t * 7919) % 90'000);
    line += "]}\n";
    file.write(std::as_bytes(std::span(line)));
  }
  file.commit();
}

Config job_config(const fs::path& path, const DedicatedOptions& options) {
  Config config;
  config.source.kind = SourceKind::jsonl;
  config.source.path = path;
  config.batch.global_batch = options.samples;
  config.batch.shuffle = true;
  config.batch.epochs = 1'000'000;
  config.micro_batch.max_tokens = 16'384;
  config.exchange.prefetch = options.prefetch;
  return config;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// One way of getting steps.
struct Way {
  const char* name;
  const boost::mpi::communicator& ranks;
  const Config& config;
  SampleStream& stream;
};

/// Of all steps that count: what the slowest trainer waited, what the step took, and processor seconds of a
/// trainer's process a step.
struct Times {
  std::vector<double> waits;
  std::vector<double> steps;
  std::vector<double> cpu;
};

void run(const boost::mpi::communicator& trainers, const Way& way, std::int64_t steps,
         const std::function<void()>& compute, Times& times) {
  Prefetcher prefetcher(way.ranks, way.config, warm_up + steps,
                        [&](std::int64_t step) { return way.stream.read(step); });
  trainers.barrier();
  auto start = std::chrono::steady_clock::now();
  double cpu = cpu_seconds();
  while (const std::optional<Step> step = prefetcher.next()) {
    const double waited = boost::mpi::all_reduce(trainers, step->waited, boost::mpi::maximum<double>());
    compute();
    trainers.barrier();
    const auto end = std::chrono::steady_clock::now();
    if (step->index >= warm_up) {
      times.waits.push_back(waited);
      times.steps.push_back(Seconds(end - start).count());
    } else {
      cpu = cpu_seconds();
    }
    start = end;
  }
  const double mine = (cpu_seconds() - cpu) / static_cast<double>(steps);
  times.cpu.push_back(boost::mpi::all_reduce(trainers, mine, std::plus<>()) / trainers.size());
}

Table new_table() {
  return {"ways",
          "Steps of a JSONL source: what trainers wait, and what a step takes them",
          {{"compute", "compute"},
           {"way", "who reads and plans"},
           {"compute_ms", "compute, ms", 2},
           {"wait_ms", "wait, ms, median", 2},
           {"wait_ms_max", "most", 2},
           {"step_ms", "step, ms, median", 2},
           {"over_compute", "step over compute, %", 1},
           {"cpu_ms", "processor time of a trainer a step, ms", 2}}};
}

/// On the trainers.
Table measure(const boost::mpi::communicator& trainers, std::span<const Way> ways,
              const DedicatedOptions& options) {
  Times alone;
  run(
      trainers, ways.front(), options.steps, [] {}, alone);
  const double compute = compute_of_data_work * median(alone.waits);
  Table table = new_table();
  for (const StandIn& stand_in : stand_ins) {
    std::vector<Times> times(ways.size());
    for (int round = 0; round < options.rounds; ++round) {
      for (std::size_t w = 0; w < ways.size(); ++w)
        run(
            trainers, ways[w], options.steps, [&] { stand_in.run(Seconds(compute)); }, times[w]);
    }
    for (std::size_t w = 0; w < ways.size(); ++w) {
      const double step = median(times[w].steps);
      table.add({stand_in.name, ways[w].name, compute * 1e3, median(times[w].waits) * 1e3,
                 std::ranges::max(times[w].waits) * 1e3, step * 1e3, (step / compute - 1) * 100,
                 median(times[w].cpu) * 1e3});
    }
  }
  return table;
}

}  // namespace

Report bench_dedicated(const boost::mpi::communicator& world, const DedicatedOptions& options) {
  const int data = options.data_ranks;
  fail_together(world, try_on_replicated_data([&] {
                  if (data >= world.size()) {
                    throw MeshError("--data-ranks",
                                    std::to_string(data) + " of " + std::to_string(world.size()) +
                                        " ranks leave none to train",
                                    "Start more ranks under mpirun");
                  }
                }));
  const SharedFolder folder(world, options.folder.empty() ? fs::temp_directory_path() : options.folder);
  const fs::path path = folder.path() / "rollouts.jsonl";
  together(world, [&] {
    if (world.rank() == 0) write_rollouts(path, 8 * options.samples);
  });
  const Config embedded = job_config(path, options);
  Config alone = embedded;
  alone.exchange.prefetch = 0;
  Config dedicated = embedded;
  dedicated.mesh.data_ranks = data;
  // The last ranks read, so that rank 0 has the report.
  const boost::mpi::communicator job = world.split(0, (world.rank() + data) % world.size());
  const boost::mpi::communicator trainers = job.split(job.rank() < data ? 1 : 0);
  if (job.rank() < data) {
    serve(job, dedicated);
    return {};
  }
  SampleStream own_stream(trainers, embedded);
  SampleStream stream(job, dedicated);
  const Way ways[] = {{"trainers, when they need it", trainers, alone, own_stream},
                      {"trainers, ahead", trainers, embedded, own_stream},
                      {"data ranks, ahead", job, dedicated, stream}};
  Table table = measure(trainers, ways, options);
  dismiss_data_ranks();
  if (world.rank() != 0) return {};
  return {"dedicated",
          {{"trainers", trainers.size()},
           {"data_ranks", data},
           {"samples_of_a_step", options.samples},
           {"steps_of_a_run", options.steps},
           {"prefetch", options.prefetch},
           {"cores_of_a_rank", usable_cores()},
           {"rounds", options.rounds}},
          {std::move(table)},
          {"Compute takes 1.2 times as long as a step's data work. 'On a device' the trainer sleeps "
           "meanwhile, 'on its core' it is busy. Processor time has the polling for other ranks in it."}};
}

}  // namespace evenkeel::bench
