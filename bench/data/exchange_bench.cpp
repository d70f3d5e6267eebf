#include <fmt/format.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <numeric>

#include "base/narrow.hpp"
#include "bench/data/transfer_job.hpp"
#include "bench/measurement.hpp"
#include "bench/race.hpp"
#include "mesh/mpi_call.hpp"

namespace evenkeel::bench {
namespace {

/// Moves the same bytes as the exchange with one MPI_Alltoallv between two existing buffers.
class PlainAlltoallv {
 public:
  /// Collective. `bytes_from[r]` is received from rank r.
  PlainAlltoallv(const boost::mpi::communicator& world, std::span<const std::int64_t> bytes_from)
      : world_(world) {
    for (const std::int64_t bytes : bytes_from) from_.push_back(narrow<int>(bytes, "bytes from a rank"));
    boost::mpi::all_to_all(world, from_, to_);
    const auto offsets_of = [](const std::vector<int>& counts) {
      std::vector<int> offsets(counts.size(), 0);
      std::partial_sum(counts.begin(), counts.end() - 1, offsets.begin() + 1);
      return offsets;
    };
    to_offsets_ = offsets_of(to_);
    from_offsets_ = offsets_of(from_);
    source_.assign(sum(to_), std::byte{1});
    target_.assign(sum(from_), std::byte{0});
  }

  void run() {
    check_mpi(MPI_Alltoallv(source_.data(), to_.data(), to_offsets_.data(), MPI_BYTE, target_.data(),
                            from_.data(), from_offsets_.data(), MPI_BYTE, world_),
              "MPI_Alltoallv");
  }

 private:
  [[nodiscard]] static std::size_t sum(const std::vector<int>& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0}, [](std::size_t total, int count) {
      return total + static_cast<std::size_t>(count);
    });
  }

  const boost::mpi::communicator& world_;
  std::vector<int> to_;
  std::vector<int> from_;
  std::vector<int> to_offsets_;
  std::vector<int> from_offsets_;
  std::vector<std::byte> source_;
  std::vector<std::byte> target_;
};

double exchange_seconds(const TimedStep& step) {
  return step.phases.exchange + step.phases.pack;
}

/// The first case is memcpy, the second MPI_Alltoallv.
Table speeds(std::span<const Samples> samples, std::int64_t bytes) {
  Table table("exchange", "The slowest rank's time, all ranks beginning together",
              {{"case", "case"},
               {"gb_per_second", "GB/s", 2},
               {"ms_median", "ms, median", 3},
               {"ms_min", "least", 3},
               {"ms_max", "most", 3},
               {"speed_of_memcpy", "x memcpy", 3},
               {"speed_of_alltoallv", "x MPI_Alltoallv", 3}});
  for (const Samples& s : samples) {
    const double middle = median(s.seconds);
    table.add({s.name, static_cast<double>(bytes) / middle / 1e9, middle * 1e3,
               std::ranges::min(s.seconds) * 1e3, std::ranges::max(s.seconds) * 1e3,
               speed_against(samples[0], s), speed_against(samples[1], s)});
  }
  return table;
}

}  // namespace

Report bench_exchange(const boost::mpi::communicator& world, const TransferOptions& options) {
  TransferJob job(world, options);
  const TimedStep first = job.step();
  const std::int64_t received =
      std::accumulate(first.bytes_from.begin(), first.bytes_from.end(), std::int64_t{0});
  PlainAlltoallv plain(world, first.bytes_from);
  const std::vector<std::byte> source(static_cast<std::size_t>(received), std::byte{1});
  std::vector<std::byte> target(source.size());

  Race race(world);
  race.add_memcpy(source, target);
  race.add("MPI_Alltoallv, buffer to buffer", [&] { return seconds_of([&] { plain.run(); }); });
  for (const NamedPath& path : exchange_paths(job.has_several_nodes())) {
    race.add(fmt::format("evenkeel {}, into packed tensors", path.name),
             [&job, path] { return exchange_seconds(job.step(path.exchange)); });
  }
  const std::vector<Samples> samples = race.run(options.rounds);
  const auto total = boost::mpi::all_reduce(world, received, std::plus<std::int64_t>());
  if (world.rank() != 0) return {};

  Report report{"exchange",
                {{"ranks", world.size()},
                 {"mesh", fmt::format("dp {}", world.size())},
                 {"samples", job.num_samples()},
                 {"bytes_per_token", job.bytes_per_token()},
                 {"bytes_over_all_ranks", total},
                 {"rounds", options.rounds}},
                {},
                {"Bytes are the samples' own, over all ranks, what stays on its rank included. Evenkeel's "
                 "exchange makes its tensors and the derived ones (labels, positions, mask, weights) in the "
                 "time shown; the other two find their buffers ready."}};
  report.tables.push_back(speeds(samples, total));
  return report;
}

}  // namespace evenkeel::bench
