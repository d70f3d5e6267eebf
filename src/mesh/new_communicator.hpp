#pragma once

#include <mpi.h>

#include <boost/mpi/communicator.hpp>

namespace evenkeel {

/// A communicator in two parts: first its memory, which a rank may lack, then the call to MPI that makes it,
/// in which all ranks take part and nothing else can fail.
class NewCommunicator : public boost::mpi::communicator {
 public:
  NewCommunicator() { comm_ptr = boost::shared_ptr<MPI_Comm>(new MPI_Comm(MPI_COMM_NULL), Free{}); }

  /// Where MPI puts the communicator; it is freed with the last copy of this.
  [[nodiscard]] MPI_Comm* place() noexcept { return comm_ptr.get(); }

  /// Call it once it is made: errors are returned from here on, and checked.
  void return_errors() const;

 private:
  struct Free {
    void operator()(MPI_Comm* comm) const noexcept;
  };
};

}  // namespace evenkeel
