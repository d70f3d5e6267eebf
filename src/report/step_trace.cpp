#include "report/step_trace.hpp"

#include <mpi.h>

#include <algorithm>
#include <limits>
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

namespace {

constexpr int tag = 7311;
constexpr int rounds = 8;

double here() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void answer(const boost::mpi::communicator& world, int rank) {
  const Waiting waiting("MPI_Recv");
  for (int round = 0; round < rounds; ++round) {
    double asked = 0;
    check_mpi(MPI_Recv(&asked, 1, MPI_DOUBLE, rank, tag, world, MPI_STATUS_IGNORE), "MPI_Recv");
    const double now = here();
    check_mpi(MPI_Send(&now, 1, MPI_DOUBLE, rank, tag, world), "MPI_Send");
  }
}

/// By how much this rank's clock is ahead of rank 0's: rank 0 answered half way of the shortest round.
double ask(const boost::mpi::communicator& world) {
  const Waiting waiting("MPI_Recv");
  double shortest = std::numeric_limits<double>::infinity();
  double ahead = 0;
  for (int round = 0; round < rounds; ++round) {
    const double before = here();
    double told = 0;
    check_mpi(MPI_Send(&before, 1, MPI_DOUBLE, 0, tag, world), "MPI_Send");
    check_mpi(MPI_Recv(&told, 1, MPI_DOUBLE, 0, tag, world, MPI_STATUS_IGNORE), "MPI_Recv");
    const double after = here();
    if (after - before >= shortest) continue;
    shortest = after - before;
    ahead = (before + after) / 2 - told;
  }
  return ahead;
}

}  // namespace

CommonClock::CommonClock(const boost::mpi::communicator& world) {
  const Phase phase("compare clocks");
  double ahead = 0;
  if (world.rank() == 0) {
    for (int rank = 1; rank < world.size(); ++rank) answer(world, rank);
  } else {
    ahead = ask(world);
  }
  double start = here();
  const Waiting waiting("MPI_Bcast");
  check_mpi(MPI_Bcast(&start, 1, MPI_DOUBLE, 0, world), "MPI_Bcast");
  start_ = start + ahead;
}

}  // namespace evenkeel
