#pragma once

#include <boost/mpi/communicator.hpp>
#include <optional>
#include <vector>

#include "evenkeel/service/data_service.hpp"
#include "mesh/fail_together.hpp"
#include "page/step_picture.hpp"

namespace evenkeel {

/// What each rank that trains did for a step. Nothing on ranks other than 0.
struct GatheredRanks {
  std::vector<RankPicture> ranks;
  std::optional<LinkPicture> links;
};

[[nodiscard]] inline PhaseTimes times_of(const PhaseSeconds& s) noexcept {
  return {s.read, s.gather, s.plan, s.agree, s.exchange, s.pack};
}

/// Collective over mesh.world(): a few numbers a rank, and as many as a LinkPicture has lines. Throws on
/// every rank what `work` has failed with, or LimitError when rank 0 lacks memory.
[[nodiscard]] GatheredRanks gather_ranks(const Mesh& mesh, const Step& step, GuardedWork& work);

}  // namespace evenkeel
