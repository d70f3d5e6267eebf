#pragma once

#include <array>
#include <span>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

/// A process grid over a communicator, with one communicator for each line of the grid and those of this
/// rank's node. All are Evenkeel's own (duplicated or split), so that its messages never interfere with the
/// caller's, and all return errors instead of aborting.
///
/// Copies share the communicators. The last copy must be destroyed before MPI_Finalize.
class Mesh {
 public:
  /// Collective over `world`. `has_groups`: micro-batches have groups of their own sizes, which need
  /// communicators. Throws MeshError on every rank if the grid does not have world.size() ranks, or if
  /// require_ranks_of_one_group() refuses `world`.
  Mesh(const Communicator& world, const Grid& grid, bool has_groups = false);

  [[nodiscard]] const Grid& grid() const noexcept { return grid_; }
  /// This rank's place in the grid.
  [[nodiscard]] const GridPoint& here() const noexcept { return here_; }
  /// Which rows this rank holds.
  [[nodiscard]] DataPlace data_place() const noexcept { return data_place_of(here_, grid_.sizes()); }
  /// The number of this rank in world().
  [[nodiscard]] WorldRank rank() const noexcept { return WorldRank{rank_}; }

  /// All ranks of the grid.
  [[nodiscard]] const Communicator& world() const noexcept { return world_; }
  /// The ranks that differ from this one only along `axis`; the rank in it is the coordinate along the axis.
  [[nodiscard]] const Communicator& along(Axis axis) const noexcept {
    return lines_[static_cast<std::size_t>(axis)];
  }

  /// The ranks with this rank's tp and pp that run a micro-batch together; the rank in it is the member's
  /// number. With a fixed cp these are along(Axis::cp). Otherwise each group has a communicator of its
  /// own, made with the mesh. Preconditions: this place is in the group, and the group is in a plan.
  [[nodiscard]] const Communicator& context(const ContextGroup& group) const;

  /// The node of each rank of world(): the lowest rank on it.
  [[nodiscard]] std::span<const int> nodes() const noexcept { return nodes_; }
  /// The ranks of world() on this rank's node.
  [[nodiscard]] const Communicator& node() const noexcept { return node_; }
  /// The ranks on this rank's node that hold the same rows: its model-parallel ranks, with equal dp and cp.
  /// In the order of world ranks.
  [[nodiscard]] const Communicator& model_parallel_on_node() const noexcept {
    return model_parallel_on_node_;
  }

 private:
  /// Collective over world().
  void connect_places();
  void connect_groups();

  Grid grid_;
  GridPoint here_;
  int rank_ = 0;
  Communicator world_;
  std::array<Communicator, 4> lines_;
  std::vector<Communicator> contexts_;  // of 1, 2, 4, ... places
  std::vector<int> nodes_;
  Communicator node_;
  Communicator model_parallel_on_node_;
};

/// Throws MeshError for a communicator that cannot have a mesh: MPI_COMM_NULL or an intercommunicator. Local;
/// all ranks of an intercommunicator see that it is one. MpiError if MPI is not running.
void require_ranks_of_one_group(const Communicator& comm);

/// A duplicate of `comm` that returns errors and is freed with its last copy. Collective. Throws as
/// require_ranks_of_one_group() does.
[[nodiscard]] Communicator duplicate(const Communicator& comm);

}  // namespace evenkeel
