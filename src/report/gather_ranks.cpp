#include "report/gather_ranks.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/activity.hpp"
#include "mesh/mpi_call.hpp"
#include "service/step_record.hpp"
#include "transport/shared/shared_heap.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t num_seconds = phase_names.size() + 1;
constexpr std::size_t num_counts = 3 + std::size_t{LinkPicture::most_lines};  // bytes sent to every line

std::array<double, num_seconds> seconds_of(const Step& step) {
  std::array<double, num_seconds> values{};
  std::ranges::copy(times_of(step.seconds), values.begin());
  values.back() = step.waited;
  return values;
}

std::array<std::int64_t, num_counts> counts_of(const Step& step, const LinkPicture& links) {
  std::array<std::int64_t, num_counts> values{SharedHeap::of_process().usage().peak, step.volume.sent,
                                              step.volume.kept};
  const auto per_line = static_cast<std::size_t>(links.ranks_per_line);
  const std::vector<std::int64_t>& bytes_to = step.record->bytes_to;
  for (std::size_t rank = 0; rank < bytes_to.size(); ++rank) values[3 + rank / per_line] += bytes_to[rank];
  return values;
}

}  // namespace

GatheredRanks gather_ranks(const Mesh& mesh, const Step& step, GuardedWork& work) {
  const boost::mpi::communicator& world = mesh.world();
  const bool is_root = world.rank() == 0;
  const auto size = static_cast<std::size_t>(world.size());
  LinkPicture links;
  std::vector<double> seconds;
  std::vector<std::int64_t> counts;
  GatheredRanks gathered;
  work([&] {
    links = LinkPicture::of(mesh.world().size());
    if (!is_root) return;
    seconds.resize(size * num_seconds);
    counts.resize(size * num_counts);
    gathered.ranks.resize(size);
  });
  work.agree(world);
  const std::array<double, num_seconds> my_seconds = seconds_of(step);
  const std::array<std::int64_t, num_counts> my_counts = counts_of(step, links);
  const Waiting waiting("MPI_Gather");
  check_mpi(MPI_Gather(my_seconds.data(), num_seconds, MPI_DOUBLE, seconds.data(), num_seconds, MPI_DOUBLE, 0,
                       world),
            "MPI_Gather");
  check_mpi(
      MPI_Gather(my_counts.data(), num_counts, MPI_INT64_T, counts.data(), num_counts, MPI_INT64_T, 0, world),
      "MPI_Gather");
  if (!is_root) return gathered;
  const auto lines = static_cast<std::size_t>(links.lines());
  for (std::size_t r = 0; r < size; ++r) {
    RankPicture& rank = gathered.ranks[r];
    std::copy_n(&seconds[r * num_seconds], phase_names.size(), rank.seconds.begin());
    rank.waited = seconds[r * num_seconds + phase_names.size()];
    const std::span<const std::int64_t> of_rank = std::span(counts).subspan(r * num_counts, num_counts);
    rank.peak_bytes = of_rank[0];
    rank.sent_bytes = of_rank[1];
    rank.kept_bytes = of_rank[2];
    const std::size_t line = r / static_cast<std::size_t>(links.ranks_per_line);
    for (std::size_t other = 0; other < lines; ++other)
      links.bytes[line * lines + other] += of_rank[3 + other];
  }
  gathered.links = std::move(links);
  return gathered;
}

}  // namespace evenkeel
