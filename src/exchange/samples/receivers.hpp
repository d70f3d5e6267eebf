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

/// Who is sent which fields, and by which rank of its node it is received for others, too.
class Receivers {
 public:
  Receivers(const Mesh& mesh, const StepTransfer& step)
      : grid_(mesh.grid()), step_(step), of_place_(node_receivers(grid_, mesh.nodes())) {
    const auto is_for_one_stage = [](const CarriedField& field) { return field.stage.has_value(); };
    if (std::ranges::any_of(step.fields, is_for_one_stage)) of_stage_ = stage_receivers(grid_, mesh.nodes());
  }

  /// What owners send to `receiver` for the rank, and it may be itself: in the order in which it travels.
  [[nodiscard]] std::vector<FieldTransfer> fields_for(int rank, int receiver) const {
    std::vector<FieldTransfer> fields = fields_sent_to(step_, grid_.point_of(WorldRank{rank}), grid_.sizes());
    std::erase_if(fields, [&](const FieldTransfer& field) {
      const bool is_for_one_stage = step_.fields[field.source].stage.has_value();
      return (is_for_one_stage ? of_stage_ : of_place_)[static_cast<std::size_t>(rank)] != receiver;
    });
    return fields;
  }
  [[nodiscard]] bool receives(int rank) const {
    return receives_place(rank) || (!of_stage_.empty() && of_stage_[static_cast<std::size_t>(rank)] == rank);
  }
  /// Whether owners send the rank what its place needs, derived fields among it.
  [[nodiscard]] bool receives_place(int rank) const {
    return of_place_[static_cast<std::size_t>(rank)] == rank;
  }

 private:
  const Grid& grid_;
  const StepTransfer& step_;
  std::vector<int> of_place_;
  std::vector<int> of_stage_;  // none where no field is for one stage alone
};

/// The model-parallel ranks of this node.
struct ModelParallelPeers {
  ModelParallelPeers(const Mesh& mesh, const Receivers& all_receivers)
      : ranks(mesh.model_parallel_on_node()), receivers(all_receivers) {
    const std::span<const int> nodes = mesh.nodes();
    for (int rank = 0; rank < mesh.grid().num_ranks(); ++rank) {
      const GridPoint place = mesh.grid().point_of(WorldRank{rank});
      if (nodes[static_cast<std::size_t>(rank)] == nodes[mesh.rank().index()] && place.dp == mesh.here().dp &&
          place.cp == mesh.here().cp)
        in_world.push_back(rank);
    }
  }

  /// What owners send to peer `receiver` for peer `rank`.
  [[nodiscard]] std::vector<FieldTransfer> fields_for(int rank, int receiver) const {
    return receivers.fields_for(of_world(rank), of_world(receiver));
  }
  [[nodiscard]] bool receives_place(int rank) const { return receivers.receives_place(of_world(rank)); }
  /// Whether any of the others needs what `rank` receives.
  [[nodiscard]] bool receives_for_others(int rank) const {
    for (int other = 0; other < ranks.size(); ++other)
      if (other != rank && !fields_for(other, rank).empty()) return true;
    return false;
  }
  [[nodiscard]] int of_world(int rank) const { return in_world[static_cast<std::size_t>(rank)]; }

  const Communicator& ranks;
  const Receivers& receivers;
  std::vector<int> in_world;  // by rank of `ranks`
};

}  // namespace evenkeel
