#pragma once

#include <boost/mpi/communicator.hpp>
#include <vector>

#include "evenkeel/service/data_service.hpp"
#include "report/clock.hpp"
#include "report/trace_file.hpp"

namespace evenkeel {

/// When this rank's trainer asked for a pass and got it.
struct TrainerTimes {
  CommonClock::Time asked, handed;
  bool made_ahead = false;  ///< by a thread of its own
};

/// Collective over `world`: what each rank did for a pass that the trainer has used by now, on rank 0;
/// nothing on others. Throws LimitError on every rank when rank 0 lacks memory: some hundred bytes a rank.
[[nodiscard]] std::vector<RankTrace> gather_trace(const boost::mpi::communicator& world,
                                                  const CommonClock& clock, const TrainerTimes& trainer,
                                                  const Step& step);

}  // namespace evenkeel
