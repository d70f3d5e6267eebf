#pragma once

#include <array>
#include <span>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

/// A process grid over a communicator, with one communicator per line of the grid and those of this rank's
/// node. All are Evenkeel's own (duplicated or split), so its messages never interfere with the caller's, and
/// all return errors instead of aborting.
///
/// Copies share the communicators. The last copy must be destroyed before MPI_Finalize.
class Mesh {
 public:
  /// Collective over `world`. If `has_groups`, groups have different sizes and need communicators. Throws
  /// MeshError on every rank if the grid does not have world.size() ranks. Throws MeshError and MpiError like
  /// require_ranks_of_one_group().
  Mesh(const Communicator& world, const Grid& grid, bool has_groups = false);

  [[nodiscard]] const Grid& grid() const noexcept { return grid_; }
  /// Returns this rank's coordinates in the grid.
  [[nodiscard]] const GridPoint& here() const noexcept { return here_; }
  /// Returns the place that determines which rows this rank holds.
  [[nodiscard]] DataPlace data_place() const noexcept { return data_place_of(here_, grid_.sizes()); }
  /// Returns the number of this rank in world().
  [[nodiscard]] WorldRank rank() const noexcept { return WorldRank{rank_}; }

  /// Returns all ranks of the grid.
  [[nodiscard]] const Communicator& world() const noexcept { return world_; }
  /// Returns this rank and the ranks that differ from it only along `axis`; a rank's number in the
  /// communicator is its coordinate along the axis.
  [[nodiscard]] const Communicator& along(Axis axis) const noexcept {
    return lines_[static_cast<std::size_t>(axis)];
  }

  /// Returns the ranks with this rank's tp and pp that run a micro-batch together; a rank's number in the
  /// communicator is its number in the group. With a fixed cp, this is along(Axis::cp). Otherwise, each group
  /// has its own communicator, made with the mesh. Preconditions: this place is in the group, and the group
  /// is one of context_groups() or, with a fixed cp, has cp places.
  [[nodiscard]] const Communicator& context(const ContextGroup& group) const;

  /// Returns the node of each rank of world(), identified by the lowest rank on it.
  [[nodiscard]] std::span<const int> nodes() const noexcept { return nodes_; }
  /// Returns the ranks of world() on this rank's node.
  [[nodiscard]] const Communicator& node() const noexcept { return node_; }
  /// Returns the ranks on this rank's node that hold the same rows: its model-parallel ranks, which have the
  /// same dp and cp. In the order of world ranks.
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
  std::vector<Communicator> contexts_;  // communicators of 1, 2, 4, ... places
  std::vector<int> nodes_;
  Communicator node_;
  Communicator model_parallel_on_node_;
};

/// Throws MeshError for a communicator that cannot have a mesh: MPI_COMM_NULL or an intercommunicator. Local,
/// since all ranks of an intercommunicator see that it is one. Throws MpiError if MPI is not running.
void require_ranks_of_one_group(const Communicator& comm);

/// Returns a duplicate of `comm` that returns errors and is freed with its last copy. Collective. Throws
/// MeshError and MpiError like require_ranks_of_one_group().
[[nodiscard]] Communicator duplicate(const Communicator& comm);

}  // namespace evenkeel
