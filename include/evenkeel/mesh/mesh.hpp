#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

/// What a mesh has beside its grid.
struct MeshOptions {
  /// Ranks of the communicator without a place.
  int data_ranks = 0;
  /// Set: micro-batches have groups of their own, of these sizes, and these have communicators.
  std::optional<ContextSizes> groups = std::nullopt;
};

/// A process grid laid over a communicator, with one communicator a line of the grid and those of this rank's
/// node. All are Evenkeel's own (duplicated or split), so that its messages never meet the caller's, and all
/// return errors instead of aborting.
///
/// Data ranks, if there are any, are the last of the communicator. They have no place in the grid, and of the
/// communicators only everyone().
///
/// Copies share the communicators. The last copy must go before MPI_Finalize.
class Mesh {
 public:
  /// Collective over `everyone`. Throws MeshError on every rank when the grid and the data ranks are not
  /// everyone.size() ranks, or `everyone` is what require_ranks_of_one_group() refuses.
  Mesh(const Communicator& everyone, const Grid& grid, MeshOptions options = {});

  [[nodiscard]] const Grid& grid() const noexcept { return grid_; }
  /// Whether this rank is in the grid, as all but data ranks are.
  [[nodiscard]] bool has_place() const noexcept { return rank_ < grid_.num_ranks(); }
  /// This rank's place in the grid; on a data rank -1 along every axis, which is no place of any rank.
  [[nodiscard]] const GridPoint& here() const noexcept { return here_; }
  /// Whose rows this rank holds; on a data rank -1, which is no place of any rank.
  [[nodiscard]] DataPlace data_place() const noexcept;
  /// The number of this rank in everyone(), and in world().
  [[nodiscard]] WorldRank rank() const noexcept { return WorldRank{rank_}; }
  /// Ranks without a place.
  [[nodiscard]] int data_ranks() const noexcept { return data_ranks_; }

  /// The ranks of the grid, and those without a place after them.
  [[nodiscard]] const Communicator& everyone() const noexcept { return everyone_; }
  /// The ranks of the grid: everyone(), where there are no data ranks. Nobody on a data rank, and so are
  /// those below.
  [[nodiscard]] const Communicator& world() const noexcept { return world_; }
  /// The ranks that differ from this one along `axis` only; the rank in it is the coordinate along the axis.
  [[nodiscard]] const Communicator& along(Axis axis) const noexcept {
    return lines_[static_cast<std::size_t>(axis)];
  }

  /// The ranks of this one's tp and pp that run a micro-batch together; the rank in it is its member's
  /// number. With a fixed cp these are along(Axis::cp). With groups of powers of two there is one
  /// communicator for each, made with the mesh. With groups of any size the first call for a group makes its
  /// communicator, collectively over the group's ranks alone; they keep it. All come to their groups in
  /// one order, that of a step's micro-batches, so that no call can deadlock; one thread at a time. MpiError
  /// where MPI cannot make it, MeshError where something else than MPI connects the ranks and cannot.
  /// Preconditions: this place is one of the group, which is one of a plan's.
  [[nodiscard]] const Communicator& context(const ContextGroup& group) const;

  /// The node of each rank of everyone(): the lowest rank on it.
  [[nodiscard]] std::span<const int> nodes() const noexcept { return nodes_; }
  /// The ranks of world() on this one's node.
  [[nodiscard]] const Communicator& node() const noexcept { return node_; }
  /// The ranks of this one's node that hold the same rows: its model-parallel ranks, with equal dp and cp.
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

/// Throws MeshError for a communicator that cannot have a mesh: none at all (MPI_COMM_NULL), or one between
/// two groups. Local; all ranks of an intercommunicator see that it is one. MpiError when MPI is not running.
void require_ranks_of_one_group(const Communicator& comm);

/// A duplicate of `comm` that returns errors and is freed with its last copy. Collective. Throws as
/// require_ranks_of_one_group() does.
[[nodiscard]] Communicator duplicate(const Communicator& comm);

}  // namespace evenkeel
