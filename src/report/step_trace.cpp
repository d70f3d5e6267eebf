#include "report/step_trace.hpp"

#include <mpi.h>

#include <algorithm>
#include <numeric>
#include <type_traits>

#include "base/activity.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/mpi_call.hpp"
#include "report/gather_ranks.hpp"
#include "service/step_record.hpp"

namespace evenkeel {
namespace {

void add_sent(const std::vector<std::int64_t>& bytes_to, int self, RankTrace& trace) {
  std::vector<RankTrace::Sent> sent;
  for (std::size_t rank = 0; rank < bytes_to.size(); ++rank) {
    if (bytes_to[rank] > 0 && static_cast<int>(rank) != self)
      sent.push_back({static_cast<std::int64_t>(rank), bytes_to[rank]});
  }
  for (const RankTrace::Sent& s : sent) trace.sent_bytes += s.bytes;
  trace.sent_to = std::ssize(sent);
  std::ranges::stable_sort(sent, std::greater(), &RankTrace::Sent::bytes);
  std::copy_n(sent.begin(), std::min(sent.size(), RankTrace::most_sent), trace.sent.begin());
}

}  // namespace

std::vector<RankTrace> gather_trace(const boost::mpi::communicator& world, const CommonClock& clock,
                                    const TrainerTimes& trainer, const Step& step) {
  static_assert(std::is_trivially_copyable_v<RankTrace>);
  RankTrace mine;
  std::vector<RankTrace> all;
  together(world, [&] {
    mine.made_at = clock.seconds_at(step.record->made_at);
    mine.phases = times_of(step.seconds);
    mine.made_ahead = trainer.made_ahead ? 1 : 0;
    mine.asked_at = clock.seconds_at(trainer.asked);
    mine.handed_at = clock.seconds_at(trainer.handed);
    mine.used_at = clock.now();
    add_sent(step.record->bytes_to, world.rank(), mine);
    if (world.rank() == 0) all.resize(static_cast<std::size_t>(world.size()));
  });
  const Waiting waiting("MPI_Gather");
  check_mpi(MPI_Gather(&mine, sizeof(mine), MPI_BYTE, all.data(), sizeof(mine), MPI_BYTE, 0, world),
            "MPI_Gather");
  return all;
}

}  // namespace evenkeel
