#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "exchange/samples/sample_exchange.hpp"
#include "exchange/samples/sample_layout.hpp"
#include "plan/transfer/carried_fields.hpp"
#include "plan/transfer/field_transfers.hpp"
#include "plan/transfer/node_receivers.hpp"

namespace evenkeel {

/// Determines which fields each rank gets, and which rank of the same node receives these fields on its
/// behalf.
class Receivers {
 public:
  Receivers(const Mesh& mesh, const StepTransfer& step)
      : grid_(mesh.grid()), step_(step), place_receivers_(node_receivers(grid_, mesh.nodes())) {
    const auto is_for_one_stage = [](const CarriedField& field) { return field.stage.has_value(); };
    if (std::ranges::any_of(step.fields, is_for_one_stage))
      stage_receivers_ = stage_receivers(grid_, mesh.nodes());
  }

  /// Returns the fields that owners send to `receiver` on behalf of `rank`, in transfer order. `rank` and
  /// `receiver` may be equal.
  [[nodiscard]] std::vector<FieldTransfer> fields_for(int rank, int receiver) const {
    std::vector<FieldTransfer> fields = fields_sent_to(step_, grid_.point_of(WorldRank{rank}), grid_.sizes());
    std::erase_if(fields, [&](const FieldTransfer& field) {
      const bool is_for_one_stage = step_.fields[field.source].stage.has_value();
      return (is_for_one_stage ? stage_receivers_ : place_receivers_)[static_cast<std::size_t>(rank)] !=
             receiver;
    });
    return fields;
  }
  /// Returns whether owners send any field to the rank, for the rank itself or for others.
  [[nodiscard]] bool is_receiver(int rank) const {
    return receives_place_fields(rank) ||
           (!stage_receivers_.empty() && stage_receivers_[static_cast<std::size_t>(rank)] == rank);
  }
  /// Returns whether owners send the fields of the rank's place (dp, cp) directly to the rank. Otherwise, it
  /// gets them through another rank of its node. If ranks of the place share tensors, only the rank that
  /// receives the fields derives further fields, and lends them to the others.
  [[nodiscard]] bool receives_place_fields(int rank) const {
    return place_receivers_[static_cast<std::size_t>(rank)] == rank;
  }

 private:
  const Grid& grid_;
  const StepTransfer& step_;
  // For each world rank, the rank on its node that receives on its behalf.
  std::vector<int> place_receivers_;  // for the fields that are not for one pipeline stage alone
  std::vector<int>
      stage_receivers_;  // for the fields of one stage (CarriedField::stage); empty if there are none
};

/// The model-parallel ranks of this rank's place that are on this rank's node, including this rank.
struct ModelParallelPeers {
  ModelParallelPeers(const Mesh& mesh, const Receivers& all_receivers)
      : ranks(mesh.model_parallel_on_node()), receivers(all_receivers) {
    const std::span<const int> nodes = mesh.nodes();
    for (int rank = 0; rank < mesh.grid().num_ranks(); ++rank) {
      const GridPoint place = mesh.grid().point_of(WorldRank{rank});
      if (nodes[static_cast<std::size_t>(rank)] == nodes[mesh.rank().index()] && place.dp == mesh.here().dp &&
          place.cp == mesh.here().cp)
        world_ranks.push_back(rank);
    }
  }

  /// Returns the fields that owners send to peer `receiver` on behalf of peer `rank`.
  [[nodiscard]] std::vector<FieldTransfer> fields_for(int rank, int receiver) const {
    return receivers.fields_for(world_rank_of(rank), world_rank_of(receiver));
  }
  [[nodiscard]] bool receives_place_fields(int rank) const {
    return receivers.receives_place_fields(world_rank_of(rank));
  }
  /// Returns whether any other peer needs fields that `rank` receives.
  [[nodiscard]] bool receives_for_others(int rank) const {
    for (int other = 0; other < ranks.size(); ++other)
      if (other != rank && !fields_for(other, rank).empty()) return true;
    return false;
  }
  [[nodiscard]] int world_rank_of(int rank) const { return world_ranks[static_cast<std::size_t>(rank)]; }

  const Communicator& ranks;
  const Receivers& receivers;
  std::vector<int> world_ranks;  // world rank of each rank of `ranks`
};

}  // namespace evenkeel
