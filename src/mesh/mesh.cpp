#include "evenkeel/mesh/mesh.hpp"

#include "evenkeel/mesh/mpi_call.hpp"
#include "evenkeel/mesh/nodes.hpp"

namespace evenkeel {
namespace {

void return_errors(const boost::mpi::communicator& comm) {
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

// The number of the line through `point` along `axis`, the same for all its ranks and different for other
// lines: the rank of the line's first point.
int line_number(const Grid& grid, GridPoint point, Axis axis) {
  point[axis] = 0;
  return grid.rank_of(point).value();
}

}  // namespace

boost::mpi::communicator duplicate(const boost::mpi::communicator& comm) {
  boost::mpi::communicator copy(comm, boost::mpi::comm_duplicate);
  return_errors(copy);
  return copy;
}

Mesh::Mesh(const boost::mpi::communicator& world, const Grid& grid) : grid_(grid) {
  // Every rank has the same grid and sees the same size, so all throw or none does.
  grid_.require_world(world.size());
  world_ = duplicate(world);
  here_ = grid_.point_of(rank());
  for (const Axis axis : grid_.order().axes()) {
    boost::mpi::communicator& line = lines_[static_cast<std::size_t>(axis)];
    line = world_.split(line_number(grid_, here_, axis), here_[axis]);
    return_errors(line);
  }
  nodes_ = nodes_of_ranks(world_);
  node_ = ranks_of_node(world_);
  model_parallel_on_node_ = node_.split(here_.dp * grid_.sizes().cp + here_.cp, world_.rank());
  return_errors(model_parallel_on_node_);
}

}  // namespace evenkeel
