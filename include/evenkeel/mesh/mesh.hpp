#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

/// What a mesh has in addition to its grid.
struct MeshOptions {
  /// Ranks of the communicator without a place.
  int data_ranks = 0;
  /// Set: micro-batches have groups of their own, with these sizes and with communicators.
  std::optional<ContextSizes> groups = std::nullopt;
};

/// A process grid over a communicator, with one communicator for each line of the grid and those of this
/// rank's node. All are Evenkeel's own (duplicated or split), so that its messages never interfere with the
/// caller's, and all return errors instead of aborting.
///
/// Data ranks, if any, are the last ranks of the communicator. They have no place in the grid, and only the
/// communicator everyone().
///
/// Copies share the communicators. The last copy must be destroyed before MPI_Finalize.
class Mesh {
 public:
  /// Collective over `everyone`. Throws MeshError on every rank if the grid and the data ranks are not
  /// everyone.size() ranks, or if require_ranks_of_one_group() refuses `everyone`.
  Mesh(const Communicator& everyone, const Grid& grid, MeshOptions options = {});

  [[nodiscard]] const Grid& grid() const noexcept { return grid_; }
  /// Whether this rank is in the grid, as all except data ranks are.
  [[nodiscard]] bool has_place() const noexcept { return rank_ < grid_.num_ranks(); }
  /// This rank's place in the grid; -1 along every axis on a data rank.
  [[nodiscard]] const GridPoint& here() const noexcept { return here_; }
  /// Which rows this rank holds; -1 on a data rank.
  [[nodiscard]] DataPlace data_place() const noexcept;
  /// The number of this rank in everyone(), and in world().
  [[nodiscard]] WorldRank rank() const noexcept { return WorldRank{rank_}; }
  /// Ranks without a place.
  [[nodiscard]] int data_ranks() const noexcept { return data_ranks_; }

  /// The ranks of the grid, then those without a place.
  [[nodiscard]] const Communicator& everyone() const noexcept { return everyone_; }
  /// The ranks of the grid: everyone(), if there are no data ranks. Empty on a data rank, like those
  /// below.
  [[nodiscard]] const Communicator& world() const noexcept { return world_; }
  /// The ranks that differ from this one only along `axis`; the rank in it is the coordinate along the axis.
  [[nodiscard]] const Communicator& along(Axis axis) const noexcept {
    return lines_[static_cast<std::size_t>(axis)];
  }

  /// The ranks with this rank's tp and pp that run a micro-batch together; the rank in it is the member's
  /// number. With a fixed cp these are along(Axis::cp). With groups of powers of two there is one
  /// communicator for each, made with the mesh. With groups of any size, the first call for a group makes its
  /// communicator, collectively over only the group's ranks; they keep it. All ranks make their groups in the
  /// same order, that of a step's micro-batches, so that no call can deadlock; one thread at a time. MpiError
  /// if MPI cannot make it, MeshError if the ranks are not connected by MPI and it cannot be made.
  /// Preconditions: this place is in the group, and the group is in a plan.
  [[nodiscard]] const Communicator& context(const ContextGroup& group) const;

  /// The node of each rank of everyone(): the lowest rank on it.
  [[nodiscard]] std::span<const int> nodes() const noexcept { return nodes_; }
  /// The ranks of world() on this rank's node.
  [[nodiscard]] const Communicator& node() const noexcept { return node_; }
  /// The ranks on this rank's node that hold the same rows: its model-parallel ranks, with equal dp and cp.
  /// In the order of world ranks.
  [[nodiscard]] const Communicator& model_parallel_on_node() const noexcept {
    return model_parallel_on_node_;
  }

 private:
  struct AnyGroups;

  /// Collective over world().
  void connect_places();
  void connect_groups(ContextSizes sizes);

  Grid grid_;
  GridPoint here_{-1, -1, -1, -1};
  int rank_ = 0;
  int data_ranks_ = 0;
  Communicator everyone_;
  Communicator world_;
  std::array<Communicator, 4> lines_;
  std::vector<Communicator> contexts_;     // of 1, 2, 4, ... places
  std::shared_ptr<AnyGroups> any_groups_;  // of any size
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
