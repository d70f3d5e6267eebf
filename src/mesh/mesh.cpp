#include "evenkeel/mesh/mesh.hpp"

#include <mpi.h>

#include <bit>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/mpi_call.hpp"
#include "mesh/nodes.hpp"

namespace evenkeel {
namespace {

constexpr int nobody = -1;  // color of ranks that are not part of any group

// Returns a number that identifies the line through `point` along `axis`: the rank of the line's first point.
// All ranks of a line get the same number, and different lines get different numbers.
int first_rank_on_line(const Grid& grid, GridPoint point, Axis axis) {
  point[axis] = 0;
  return grid.rank_of(point).value();
}

// Returns the lowest rank on this rank's node that has the same DP and CP coordinates, and therefore needs
// the same rows of the batch.
int first_model_parallel_rank_on_node(const Grid& grid, std::span<const int> nodes, WorldRank mine) {
  const GridPoint here = grid.point_of(mine);
  for (int rank = nodes[mine.index()]; rank < mine.value(); ++rank) {
    const GridPoint there = grid.point_of(WorldRank{rank});
    if (nodes[static_cast<std::size_t>(rank)] == nodes[mine.index()] && there.dp == here.dp &&
        there.cp == here.cp)
      return rank;
  }
  return mine.value();
}

void require_running_mpi() {
  int initialized = 0;
  int finalized = 0;
  check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
  check_mpi(MPI_Finalized(&finalized), "MPI_Finalized");
  if (initialized != 0 && finalized == 0) return;
  throw MpiError("communicator", finalized != 0 ? "MPI has been finalized" : "MPI has not been initialized",
                 "Create objects that use MPI after MPI_Init, and destroy them before MPI_Finalize");
}

}  // namespace

void require_ranks_of_one_group(const Communicator& comm) {
  if (comm.non_mpi_ranks() != nullptr) return;
  require_running_mpi();
  if (!comm) {
    throw MeshError("communicator", "is MPI_COMM_NULL: this process is not among its ranks",
                    "Do not call this on ranks that are not part of the job");
  }
  int is_between_groups = 0;
  check_mpi(MPI_Comm_test_inter(comm, &is_between_groups), "MPI_Comm_test_inter");
  if (is_between_groups != 0) {
    throw MeshError("communicator", "is an intercommunicator, with two groups of ranks",
                    "Merge them first (MPI_Intercomm_merge), or use one communicator for each group");
  }
}

Communicator duplicate(const Communicator& comm) {
  require_ranks_of_one_group(comm);
  return comm.duplicate();
}

Mesh::Mesh(const Communicator& world, const Grid& grid, bool has_groups) : grid_(grid) {
  world_ = duplicate(world);
  rank_ = world_.rank();
  // Every rank has the same grid and the same world size, so either all ranks throw or no rank does.
  fail_together(world_, try_on_replicated_data([&] {
                  grid_.require_world(world_.size());
                  here_ = grid_.point_of(rank());
                }));
  nodes_ = nodes_of_ranks(world_);
  GuardedWork work;
  work.run_always([&] {
    connect_places();
    if (has_groups) connect_groups();
  });
  work.agree(world_);
}

const Communicator& Mesh::context(const ContextGroup& group) const {
  EVENKEEL_PRECONDITION(cheap, group.contains(data_place()), group.first.value(), group.size);
  if (contexts_.empty()) {
    EVENKEEL_PRECONDITION(cheap, group.size == grid_.sizes().cp, group.size, grid_.sizes().cp);
    return along(Axis::cp);
  }
  const auto level = static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(group.size)));
  EVENKEEL_PRECONDITION(cheap, std::has_single_bit(static_cast<unsigned>(group.size)), group.size);
  EVENKEEL_PRECONDITION(cheap, group.first.value() % group.size == 0, group.first.value(), group.size);
  EVENKEEL_PRECONDITION(cheap, level < contexts_.size(), level, contexts_.size());
  return contexts_[level];
}

// Creates the communicator of each possible group of 1, 2, 4, ... places. Splits are collective over the
// world, so every rank takes part in each split. If the last places do not fill a group, their ranks get a
// null communicator.
void Mesh::connect_groups() {
  const GridPoint& sizes = grid_.sizes();
  const int places = sizes.dp * sizes.cp;
  const int place = data_place().value();
  const int line = here_.pp * sizes.tp + here_.tp;
  for (int size = 1; size <= places; size *= 2) {
    const int group = place / size;
    const bool is_whole = (group + 1) * size <= places;
    contexts_.push_back(world_.split(is_whole ? line * places + group : nobody, place));
  }
}

void Mesh::connect_places() {
  for (const Axis axis : grid_.order().axes())
    lines_[static_cast<std::size_t>(axis)] =
        world_.split(first_rank_on_line(grid_, here_, axis), here_[axis]);
  node_ = world_.split_by_node();
  // Split the world instead of the node's communicator, so that a failure on one node is a failure on all
  // ranks.
  model_parallel_on_node_ = world_.split(first_model_parallel_rank_on_node(grid_, nodes_, rank()), rank_);
}

}  // namespace evenkeel
