#include <fmt/format.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <charconv>
#include <fstream>
#include <string>

#include "base/hash.hpp"
#include "bench/benchmarks.hpp"
#include "bench/measurement.hpp"
#include "bench/plan/lengths.hpp"
#include "evenkeel/service/data_service.hpp"

namespace evenkeel::bench {
namespace {

constexpr std::int64_t num_parts = 10;
constexpr LogNormal soak_lengths{6.0, 1.0, 16, 4096};
constexpr const char* injected = "made up by the benchmark";

/// Memory that this process has for itself, and memory that it shares with others, in bytes; 0 if the system
/// does not report it.
struct Memory {
  double own = 0;
  double shared = 0;
};

Memory memory_now() {
  Memory memory;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    const std::size_t digits = line.find_first_of("0123456789");
    if (digits == std::string::npos) continue;
    double kibibytes = 0;
    std::from_chars(line.data() + digits, line.data() + line.size(), kibibytes);
    if (line.starts_with("RssAnon:")) memory.own = kibibytes * 1024;
    if (line.starts_with("RssShmem:")) memory.shared = kibibytes * 1024;
  }
  return memory;
}

/// Returns samples whose lengths and tokens differ in every step but are the same in every run.
RaggedBatch samples_of(std::int64_t step, int rank, std::int64_t count) {
  const std::uint64_t seed =
      mix_64(static_cast<std::uint64_t>(step) * 8191 + static_cast<std::uint64_t>(rank));
  std::vector<SampleShape> shapes;
  for (const std::int64_t length : made_up_lengths(static_cast<std::size_t>(count), seed, soak_lengths)) {
    const SampleId id{rank * count + static_cast<std::int64_t>(shapes.size())};
    shapes.push_back({id, static_cast<std::uint64_t>(id.value()), length / 4, length - length / 4});
  }
  RaggedBatch batch(std::move(shapes));
  std::int64_t place = 0;
  for (std::int64_t& token :
       batch.add_field({std::string(input_ids_field), DType::int64, FieldKind::token, {}})
           .values<std::int64_t>())
    token = static_cast<std::int64_t>(mix_64(seed + static_cast<std::uint64_t>(place++)) >> 40);
  return batch;
}

/// The job with a large number of steps: samples go in, tokens are returned as results, and are compared with
/// the input.
class Soak {
 public:
  Soak(const boost::mpi::communicator& world, const SoakOptions& options)
      : world_(world), options_(options), service_(world, config_of(options)) {}

  /// Collective.
  void step(std::int64_t number) {
    if (options_.fail_every > 0 && number % options_.fail_every == options_.fail_every - 1) fail(number);
    const RaggedBatch brought = samples_of(number, world_.rank(), samples_of_rank());
    const Step step = service_.step(brought);
    StepResults results(step.micro_batches.size());
    for (std::size_t m = 0; m < step.micro_batches.size(); ++m)
      results.put<std::int64_t>(m, "tokens_again", FieldKind::token,
                                step.micro_batches[m].tensors.find(input_ids_field)->values<std::int64_t>());
    const RaggedBatch home = service_.collect(step, results);
    const bool equal = std::ranges::equal(home.fields()[0].values<std::int64_t>(),
                                          brought.fields()[0].values<std::int64_t>());
    if (!boost::mpi::all_reduce(world_, equal, std::logical_and<>()))
      throw InputError(fmt::format("step {}", number), "came back with other tokens than were brought",
                       "This is a defect of Evenkeel: please report it");
  }

  [[nodiscard]] std::int64_t num_failed() const noexcept { return num_failed_; }

 private:
  static Config config_of(const SoakOptions& options) {
    Config config;
    config.micro_batch.max_tokens = options.cap;
    return config;
  }
  [[nodiscard]] std::int64_t samples_of_rank() const noexcept {
    return std::max<std::int64_t>(options_.samples / world_.size(), 1);
  }

  // Each rank in turn is the one whose reader throws; all ranks must get the error.
  void fail(std::int64_t number) {
    const int bad = static_cast<int>(num_failed_ % world_.size());
    try {
      static_cast<void>(service_.step([&]() -> RaggedBatch {
        if (world_.rank() == bad) throw InputError(fmt::format("step {}", number), injected, "");
        return samples_of(number, world_.rank(), samples_of_rank());
      }));
    } catch (const InputError& error) {
      if (error.report().message == injected && error.report().rank == bad) {
        ++num_failed_;
        return;
      }
      throw;
    }
    throw InputError(fmt::format("step {}", number), "was made although a reader threw",
                     "This is a defect of Evenkeel: please report it");
  }

  const boost::mpi::communicator& world_;
  SoakOptions options_;
  DataService service_;
  std::int64_t num_failed_ = 0;
};

/// A tenth of all steps; memory is that of the rank with the most, at its end.
struct Part {
  std::int64_t steps = 0;
  double seconds = 0;
  Memory memory;
};

Part part_of(const boost::mpi::communicator& world, Soak& soak, std::int64_t first, std::int64_t end) {
  Part part;
  part.steps = end - first;
  world.barrier();
  part.seconds = seconds_of([&] {
    for (std::int64_t step = first; step < end; ++step) soak.step(step);
    world.barrier();
  });
  const Memory mine = memory_now();
  part.memory.own = boost::mpi::all_reduce(world, mine.own, boost::mpi::maximum<double>());
  part.memory.shared = boost::mpi::all_reduce(world, mine.shared, boost::mpi::maximum<double>());
  return part;
}

Table table_of(const std::vector<Part>& parts) {
  Table table("soak", "Tenths of the run",
              {{"steps", "steps"},
               {"steps_per_second", "steps/s", 1},
               {"speed", "x first tenth", 3},
               {"own_mib", "MiB of the largest rank's own", 2},
               {"own", "x second tenth", 4},
               {"shared_mib", "MiB shared", 2}});
  const auto speed = [](const Part& part) { return static_cast<double>(part.steps) / part.seconds; };
  for (const Part& part : parts)
    table.add({part.steps, speed(part), speed(part) / speed(parts.front()), part.memory.own / (1 << 20),
               part.memory.own / parts[1].memory.own, part.memory.shared / (1 << 20)});
  return table;
}

}  // namespace

Report bench_soak(const boost::mpi::communicator& world, const SoakOptions& options) {
  Soak soak(world, options);
  std::vector<Part> parts;
  for (std::int64_t part = 0; part < num_parts; ++part)
    parts.push_back(
        part_of(world, soak, options.steps * part / num_parts, options.steps * (part + 1) / num_parts));
  if (world.rank() != 0) return {};
  Report report{
      "soak",
      {{"ranks", world.size()},
       {"steps", options.steps},
       {"samples", options.samples},
       {"cap", options.cap},
       {"errors", soak.num_failed()}},
      {},
      {"Every step's samples have lengths of their own. Tokens come back as results, and were equal to "
       "what was brought in every step. Errors are steps whose reader throws on one rank, each rank in "
       "turn; all ranks were told, and went on."}};
  report.tables.push_back(table_of(parts));
  return report;
}

}  // namespace evenkeel::bench
