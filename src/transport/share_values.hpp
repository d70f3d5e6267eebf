#pragma once

#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/binary_oarchive.hpp>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"
#include "mesh/fail_together.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {

/// The bytes of a value of any serializable type. Ranks of one job, which run the same program, can read
/// them.
template <typename T>
[[nodiscard]] std::string to_archive(const T& value) {
  std::ostringstream stream;
  boost::archive::binary_oarchive(stream, boost::archive::no_header) << value;
  return std::move(stream).str();
}

/// Reads a value from the bytes of to_archive().
template <typename T>
void from_archive(std::string bytes, T& value) {
  std::istringstream stream(std::move(bytes));
  boost::archive::binary_iarchive(stream, boost::archive::no_header) >> value;
}

// Allocations go through a rank's `work`, so that no rank leaves alone while others wait for it.

/// Collective over `comm`: sends the bytes of rank `root` to all others, in pieces of fixed size. A rank that
/// cannot store them still receives all pieces, and its error goes to `work`, which the caller must agree on.
/// A root whose work has failed sends nothing. One MPI_Bcast per 4 KiB.
void broadcast_bytes(const Communicator& comm, std::string& bytes, int root, GuardedWork& work);

/// Collective over `comm`: the values of all ranks, on every rank. When a rank's work has failed, all throw
/// its error. What goes wrong on a rank after that goes to its `work`, to be agreed on afterwards. `what`
/// names the bytes for LimitError. Three collective calls.
template <typename T>
[[nodiscard]] std::vector<T> all_gather_values(const Communicator& comm, const T& mine, GuardedWork& work,
                                               std::string_view what) {
  std::string bytes;
  work([&] { bytes = to_archive(mine); });
  const auto gathered = all_gather_lists<char>(comm, bytes, work.error(), what);
  std::vector<T> values;
  work([&] {
    values.resize(static_cast<std::size_t>(comm.size()));
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      const std::span<const char> of_rank = gathered.of(rank);
      from_archive(std::string(of_rank.begin(), of_rank.end()), values[rank]);
    }
  });
  return values;
}

/// Collective over `comm`: rank `root`'s value, which the others get. What goes wrong on a rank goes to its
/// `work`, to be agreed on afterwards; then nobody may use the value. As many calls as broadcast_bytes().
template <typename T>
void broadcast_value(const Communicator& comm, T& value, int root, GuardedWork& work) {
  std::string bytes;
  const bool sends = comm.rank() == root;
  if (sends) work([&] { bytes = to_archive(value); });
  broadcast_bytes(comm, bytes, root, work);
  // There is nothing to read where the root's work has failed, which will tell.
  if (!sends && !bytes.empty()) work([&] { from_archive(std::move(bytes), value); });
}

}  // namespace evenkeel
