#pragma once

#include <boost/mpi/communicator.hpp>
#include <optional>
#include <vector>

#include "evenkeel/service/data_service.hpp"
#include "mesh/fail_together.hpp"
#include "page/step_picture.hpp"

namespace evenkeel {

/// Figures of each rank in one step; empty on ranks other than 0.
struct RankFigures {
  std::vector<RankPicture> ranks;
  std::optional<LinkPicture> links;
};

[[nodiscard]] inline PhaseTimes times_of(const PhaseSeconds& s) noexcept {
  return {s.read, s.gather, s.plan, s.agree, s.exchange, s.pack};
}

/// Collective over mesh.world(): gathers a few numbers per rank, plus one number for each line of a
/// LinkPicture.
[[nodiscard]] RankFigures gather_rank_figures(const Mesh& mesh, const Step& step);

}  // namespace evenkeel
