#include "data_ranks/job_ranks.hpp"

#include <mpi.h>

#include <string>

#include "base/activity.hpp"
#include "data_ranks/data_line.hpp"
#include "evenkeel/base/error.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/mpi_call.hpp"
#include "mesh/new_communicator.hpp"

namespace evenkeel {
namespace {

// Collective over the ranks from `first` on alone.
boost::mpi::communicator ranks_from(const boost::mpi::communicator& world, int first) {
  NewCommunicator part;
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group some = MPI_GROUP_NULL;
  int range[1][3] = {{first, world.size() - 1, 1}};
  constexpr int tag = 0;
  check_mpi(MPI_Comm_group(world, &all), "MPI_Comm_group");
  check_mpi(MPI_Group_range_incl(all, 1, range, &some), "MPI_Group_range_incl");
  const Waiting waiting("MPI_Comm_create_group");
  check_mpi(MPI_Comm_create_group(world, some, tag, part.place()), "MPI_Comm_create_group");
  check_mpi(MPI_Group_free(&some), "MPI_Group_free");
  check_mpi(MPI_Group_free(&all), "MPI_Group_free");
  part.return_errors();
  return part;
}

}  // namespace

JobRanks::JobRanks(const boost::mpi::communicator& world) : world_(world), own_(world) {
  const Phase phase("ranks meet");
  // Only data ranks know of their number at this time.
  const FirstMeeting meeting = meet(world_, Part::undecided, {}, true);
  data_ranks_ = meeting.data_ranks.value_or(0);
  all_watch_ = meeting.all_watch;
  if (data_ranks_ > 0) own_ = ranks_from(world_, data_ranks_);
}

bool JobRanks::settle(const Config& config) {
  fail_together(own_, try_on_replicated_data([&] {
                  require_known_number(config.mesh.data_ranks);
                  static_cast<void>(config.grid(world_.size()));
                }));
  if (data_ranks_ > 0 || config.mesh.data_ranks == 0) return false;
  data_ranks_ = config.mesh.data_ranks;
  const bool serves = own_.rank() < data_ranks_;
  if (!serves) own_ = ranks_from(world_, data_ranks_);
  return serves;
}

// Here, and not where services are made, trainers alone find out: one of them tells, not each program.
void JobRanks::require_known_number(int configured) const {
  if (data_ranks_ == 0 || configured == data_ranks_) return;
  throw ConfigError("mesh.data_ranks",
                    "is " + std::to_string(data_ranks_) + " on the ranks that serve and " +
                        std::to_string(configured) + " on those that train",
                    "Give every rank the same configuration, data ranks and trainers alike");
}

bool JobRanks::must_abort() const noexcept {
  return data_ranks_ > 0 && !DataLine::is_laid();
}

}  // namespace evenkeel
