#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "bench/benchmarks.hpp"
#include "bench/machine.hpp"
#include "bench/measurement.hpp"
#include "bench/steps/shared_folder.hpp"
#include "bench/steps/stand_in.hpp"
#include "bench/stream/buffer_process.hpp"
#include "evenkeel/service/data_service.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "io/files/output_file.hpp"

namespace evenkeel::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t epochs = 1'000'000;
constexpr std::int64_t capacity = std::int64_t{256}
                                  << 20;  // of the buffer, which limits how far ahead a feeder gets

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

Config job_config(const fs::path& path, const FeedOptions& options, std::int64_t prefetch) {
  Config config;
  config.source.kind = SourceKind::jsonl;
  config.source.path = path;
  config.batch.global_batch = options.samples;
  config.batch.shuffle = true;
  config.batch.epochs = epochs;
  config.micro_batch.max_tokens = 16'384;
  config.exchange.prefetch = prefetch;
  return config;
}

/// A separate buffer for one run, with a feeder that keeps it full. On rank 0.
class Feeding {
 public:
  Feeding(const fs::path& folder, const fs::path& path, const FeedOptions& options)
      : folder_(folder), null_(::open("/dev/null", O_WRONLY | O_CLOEXEC)) {
    fs::create_directories(folder_);
    buffer_.emplace(folder_, capacity);
    feeder_.emplace(
        std::vector<std::string>{"feed", path.string(), "--to", url(), "--progress", "off", "--set",
                                 "batch.shuffle=true", "--set", "batch.epochs=" + std::to_string(epochs),
                                 "--set", "batch.global_batch=" + std::to_string(options.samples)},
        null_);
  }
  Feeding(const Feeding&) = delete;
  Feeding& operator=(const Feeding&) = delete;
  ~Feeding() {
    feeder_.reset();
    buffer_.reset();
    ::close(null_);
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(buffer_->port()); }

 private:
  fs::path folder_;
  int null_;
  std::optional<BufferProcess> buffer_;
  std::optional<EvenkeelProcess> feeder_;
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Measurements of the steps after the warm-up: how long the slowest trainer waited, how long the step took,
/// and processor seconds of a trainer's process per step.
struct Times {
  std::vector<double> waits;
  std::vector<double> steps;
  std::vector<double> cpu;
};

void run(const boost::mpi::communicator& world, const Config& config, std::int64_t count,
         const std::function<void()>& compute, Times& times) {
  SampleStream stream(world, config);
  DataService service(world, config);
  Steps steps = service.steps([&](std::int64_t step) { return stream.read(step); }, warm_up + count);
  world.barrier();
  auto start = std::chrono::steady_clock::now();
  double cpu = cpu_seconds();
  while (const std::optional<Step> step = steps.next()) {
    const double waited = boost::mpi::all_reduce(world, step->waited_seconds, boost::mpi::maximum<double>());
    compute();
    stream.report_saved_before(step->index + 1);
    const auto end = std::chrono::steady_clock::now();
    if (step->index >= warm_up) {
      times.waits.push_back(waited);
      times.steps.push_back(Seconds(end - start).count());
    } else {
      cpu = cpu_seconds();
    }
    start = end;
  }
  const double mine = (cpu_seconds() - cpu) / static_cast<double>(count);
  times.cpu.push_back(boost::mpi::all_reduce(world, mine, std::plus<>()) / world.size());
  stream.stop_waiting();
}

Table new_table() {
  return {"ways",
          "Steps of a JSONL source: what trainers wait, and what a step takes them",
          {{"compute", "compute"},
           {"way", "who reads"},
           {"compute_ms", "compute, ms", 2},
           {"wait_ms", "wait, ms, median", 2},
           {"wait_ms_max", "most", 2},
           {"step_ms", "step, ms, median", 2},
           {"over_compute", "step over compute, %", 1},
           {"cpu_ms", "processor time of a trainer a step, ms", 2}}};
}

/// One way of supplying samples. `run` makes steps and adds their times.
struct Way {
  const char* name;
  std::function<void(const std::function<void()>& compute, Times& times)> run;
};

Table measure(std::span<const Way> ways, int rounds) {
  Times alone;
  ways.front().run([] {}, alone);
  const double compute = compute_of_data_work * median(alone.waits);
  Table table = new_table();
  for (const StandIn& stand_in : stand_ins) {
    std::vector<Times> times(ways.size());
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t w = 0; w < ways.size(); ++w)
        ways[w].run([&] { stand_in.run(Seconds(compute)); }, times[w]);
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

Report bench_feed(const boost::mpi::communicator& world, const FeedOptions& options) {
  const SharedFolder folder(world, options.folder.empty() ? fs::temp_directory_path() : options.folder);
  const fs::path path = folder.path() / "rollouts.jsonl";
  run_together(world, [&] {
    if (world.rank() == 0) write_rollouts(path, 8 * options.samples);
  });
  const auto read_own = [&](std::int64_t prefetch) {
    return [&, prefetch](const std::function<void()>& compute, Times& times) {
      run(world, job_config(path, options, prefetch), options.steps, compute, times);
    };
  };
  const auto be_fed = [&](const std::function<void()>& compute, Times& times) {
    std::unique_ptr<Feeding> feeding;
    std::string url;
    run_together(world, [&] {
      if (world.rank() == 0) feeding = std::make_unique<Feeding>(folder.path() / "buffer", path, options);
      if (feeding) url = feeding->url();
    });
    boost::mpi::broadcast(world, url, 0);
    Config config = job_config(path, options, options.prefetch);
    config.source = {SourceKind::stream, url};
    config.batch.shuffle = false;
    config.batch.epochs = 1;
    run(world, config, options.steps, compute, times);
  };
  const Way ways[] = {{"trainers, when they need it", read_own(0)},
                      {"trainers, ahead", read_own(options.prefetch)},
                      {"a feeder", be_fed}};
  Table table = measure(ways, options.rounds);
  if (world.rank() != 0) return {};
  return {
      "feed",
      {{"trainers", world.size()},
       {"samples_of_a_step", options.samples},
       {"steps_of_a_run", options.steps},
       {"prefetch", options.prefetch},
       {"cores_of_a_rank", usable_cores()},
       {"rounds", options.rounds}},
      {std::move(table)},
      {"Compute takes 1.2 times as long as a step's data work. 'On a device' the trainer sleeps meanwhile, "
       "'on its core' it is busy."}};
}

}  // namespace evenkeel::bench
