#include "transport/gather_lists.hpp"

#include <mpi.h>

#include <algorithm>
#include <memory>

#include "base/narrow.hpp"
#include "mesh/mpi_call.hpp"
#include "transport/block_list.hpp"
#include "transport/comm_attribute.hpp"

namespace evenkeel {

RankLists& RankLists::of(const boost::mpi::communicator& comm) {
  return comm_attribute<RankLists>(
      comm, [&] { return together(comm, [&] { return std::make_unique<RankLists>(comm.size()); }); });
}

std::int64_t RankLists::take_words_as_sizes(std::string_view what) {
  std::int64_t total = 0;
  for (std::size_t rank = 0; rank < words_.size(); ++rank) {
    offsets_[rank] = narrow<int>(total, what);
    sizes_[rank] = narrow<int>(words_[rank], what);
    total += words_[rank];
  }
  return narrow<int>(total, what);
}

RankLists& gather_counts(const boost::mpi::communicator& comm, std::int64_t mine,
                         const std::optional<ErrorReport>& error) {
  constexpr std::int64_t failed = -1;
  RankLists& lists = RankLists::of(comm);
  const std::int64_t word = error ? failed : mine;
  check_mpi(MPI_Allgather(&word, 1, MPI_INT64_T, lists.words().data(), 1, MPI_INT64_T, comm),
            "MPI_Allgather");
  const auto first = std::ranges::find(lists.words(), failed);
  if (first != lists.words().end())
    fail_with_report_of(comm, static_cast<int>(first - lists.words().begin()), error);
  return lists;
}

void gather_values(const boost::mpi::communicator& comm, const RankLists& lists, const void* mine, void* all,
                   std::size_t bytes_each) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_contiguous(narrow<int>(bytes_each, "bytes of a value"), MPI_BYTE, &type),
            "MPI_Type_contiguous");
  const MpiDatatype value(type);
  check_mpi(MPI_Type_commit(&type), "MPI_Type_commit");
  const auto rank = static_cast<std::size_t>(comm.rank());
  check_mpi(MPI_Allgatherv(mine, lists.sizes()[rank], type, all, lists.sizes().data(), lists.offsets().data(),
                           type, comm),
            "MPI_Allgatherv");
}

}  // namespace evenkeel
