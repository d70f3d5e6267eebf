#include <mpi.h>

#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <memory>

#include "base/activity.hpp"
#include "base/narrow.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/mpi_call.hpp"

namespace evenkeel {
namespace {

int narrow_message_bytes(std::size_t bytes) {
  return narrow<int>(bytes, "bytes of a message", hint_for_large_steps);
}

/// MPI datatype of `bytes` contiguous bytes.
class ValueType {
 public:
  explicit ValueType(std::size_t bytes) {
    check_mpi(MPI_Type_contiguous(narrow<int>(bytes, "bytes of a value"), MPI_BYTE, &type_),
              "MPI_Type_contiguous");
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  ValueType(const ValueType&) = delete;
  ValueType& operator=(const ValueType&) = delete;
  ~ValueType() { MPI_Type_free(&type_); }

  [[nodiscard]] MPI_Datatype get() const noexcept { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// Empty communicator, to be filled in by an MPI call.
class NewCommunicator : public boost::mpi::communicator {
 public:
  NewCommunicator() { comm_ptr = boost::shared_ptr<MPI_Comm>(new MPI_Comm(MPI_COMM_NULL), free); }

  /// Returns the address at which MPI must store the communicator. The communicator is freed with the last
  /// copy of this object.
  [[nodiscard]] MPI_Comm* handle_address() const noexcept { return comm_ptr.get(); }

 private:
  static void free(MPI_Comm* comm) noexcept {
    const std::unique_ptr<MPI_Comm> handle(comm);
    int finalized = 0;
    if (*handle == MPI_COMM_NULL || MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return;
    MPI_Comm_free(handle.get());
  }
};

/// Collective: runs `call`, which calls the MPI function `name`, and returns the communicator that it
/// creates.
template <typename Call>
Communicator make_communicator(const char* name, Call&& call) {
  const NewCommunicator made;
  const Waiting waiting(name);
  check_mpi(call(made.handle_address()), name);
  if (*made.handle_address() != MPI_COMM_NULL)
    check_mpi(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return Communicator(made);
}

}  // namespace

void MpiRanks::broadcast(std::span<std::byte> bytes, int root) const {
  const Waiting waiting("MPI_Bcast");
  check_mpi(MPI_Bcast(bytes.data(), narrow_message_bytes(bytes.size()), MPI_BYTE, root, comm_), "MPI_Bcast");
}

void MpiRanks::all_gather(std::span<const std::byte> mine, std::span<std::byte> all) const {
  const Waiting waiting("MPI_Allgather");
  const int bytes = narrow_message_bytes(mine.size());
  check_mpi(MPI_Allgather(mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, comm_), "MPI_Allgather");
}

void MpiRanks::all_gather_lists(const std::byte* mine, const ListSizes& lists, std::byte* all) const {
  // Count values instead of bytes, since lists may have more than 2^31 bytes.
  const ValueType value(lists.bytes_each);
  const int own = lists.sizes[static_cast<std::size_t>(rank())];
  const Waiting waiting("MPI_Allgatherv");
  check_mpi(MPI_Allgatherv(mine, own, value.get(), all, lists.sizes.data(), lists.offsets.data(), value.get(),
                           comm_),
            "MPI_Allgatherv");
}

void MpiRanks::all_reduce(std::span<std::int64_t> values, ReduceOp op) const {
  const Waiting waiting("MPI_Allreduce");
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, values.data(), narrow<int>(values.size(), "values of a reduction"),
                          MPI_INT64_T, op == ReduceOp::min ? MPI_MIN : MPI_MAX, comm_),
            "MPI_Allreduce");
}

Communicator MpiRanks::duplicate() const {
  return make_communicator("MPI_Comm_dup", [&](MPI_Comm* place) { return MPI_Comm_dup(comm_, place); });
}

Communicator MpiRanks::split(int color, int key) const {
  return make_communicator("MPI_Comm_split", [&](MPI_Comm* place) {
    return MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color, key, place);
  });
}

Communicator MpiRanks::split_by_node() const {
  return make_communicator("MPI_Comm_split_type", [&](MPI_Comm* place) {
    return MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, place);
  });
}

bool MpiRanks::allows_threads() const {
  const bool mine = boost::mpi::environment::thread_level() == boost::mpi::threading::multiple;
  return Communicator(comm_).all_reduce(mine ? 1 : 0, ReduceOp::min) != 0;
}

}  // namespace evenkeel
