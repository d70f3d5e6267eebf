#include "data_ranks/least_of_all.hpp"

#include <mpi.h>

#include "base/activity.hpp"
#include "base/poll_pause.hpp"
#include "mesh/mpi_call.hpp"

namespace evenkeel {
namespace {

// A data rank waits here while trainers have enough, and lets others have its core.
void wait_for(OpenRequests& request, bool is_hurried) {
  const Waiting waiting("MPI_Iallreduce", is_hurried ? WaitFor::ranks : WaitFor::trainer);
  if (is_hurried) return request.wait_for_all();
  const PollPause pause;
  while (!request.are_over()) pause();
}

}  // namespace

LeastOfAll::Numbers LeastOfAll::of(const Numbers& mine, const Communicator& everyone, bool is_hurried) {
  least_ = mine;
  check_mpi(MPI_Iallreduce(MPI_IN_PLACE, least_.data(), static_cast<int>(least_.size()), MPI_INT64_T, MPI_MIN,
                           everyone, open_.at(0)),
            "MPI_Iallreduce");
  wait_for(open_, is_hurried);
  return least_;
}

}  // namespace evenkeel
