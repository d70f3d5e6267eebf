#pragma once

#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/binary_oarchive.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel {

/// Number of values of each rank, and the offset of its first value among the values of all ranks.
struct GatherLayout {
  /// Throws LimitError if the number of values does not fit in an int. `what` names the values in the error.
  GatherLayout(std::span<const std::int64_t> counts, std::string_view what);

  std::vector<int> sizes;
  std::vector<int> offsets;
  std::size_t total = 0;
};

/// The lists of all ranks, concatenated.
template <typename T>
struct GatheredLists {
  std::vector<T> values;     ///< all values, in the order of ranks
  std::vector<int> offsets;  ///< offset of each rank's first value, followed by the total number of values

  [[nodiscard]] std::span<const T> list_of(std::size_t rank) const {
    const auto begin = static_cast<std::size_t>(offsets[rank]);
    return std::span(values).subspan(begin, static_cast<std::size_t>(offsets[rank + 1]) - begin);
  }
};

/// Collective over `comm`: returns the numbers `mine` of all ranks, ordered by rank. If any ranks pass
/// errors, all ranks throw the error of the lowest such rank.
[[nodiscard]] std::vector<std::int64_t> gather_counts(const Communicator& comm, std::int64_t mine,
                                                      const std::optional<ErrorReport>& error);

/// Collective over `comm`: gathers the values of all ranks as raw bytes. `lists` must be equal on all ranks.
template <typename T>
void gather_values(const Communicator& comm, const GatherLayout& lists, std::span<const T> mine,
                   std::span<T> all) {
  static_assert(std::is_trivially_copyable_v<T>);
  comm.all_gather_lists(std::as_bytes(mine).data(), {lists.sizes, lists.offsets, sizeof(T)},
                        std::as_writable_bytes(all).data());
}

/// Collective over `comm`: gathers the lists of all ranks on every rank, as raw bytes. If a rank passes an
/// error or runs out of memory for the lists, all ranks throw its error. `what` names the values in a
/// LimitError. Makes three collective calls.
template <typename T>
[[nodiscard]] GatheredLists<T> all_gather_lists(const Communicator& comm, std::span<const T> mine,
                                                const std::optional<ErrorReport>& error,
                                                std::string_view what) {
  static_assert(std::is_trivially_copyable_v<T>);
  GatherLayout lists(gather_counts(comm, static_cast<std::int64_t>(mine.size()), error), what);
  GatheredLists<T> gathered;
  run_together(comm, [&] { gathered.values.resize(lists.total); });
  gather_values(comm, lists, mine, std::span(gathered.values));
  gathered.offsets = std::move(lists.offsets);
  gathered.offsets.push_back(static_cast<int>(lists.total));
  return gathered;
}

/// Serializes a value. The bytes can only be read by ranks of the same job, which run the same program.
template <typename T>
[[nodiscard]] std::string to_archive(const T& value) {
  std::ostringstream stream;
  boost::archive::binary_oarchive(stream, boost::archive::no_header) << value;
  return std::move(stream).str();
}

/// Deserializes the result of to_archive().
template <typename T>
void from_archive(std::string bytes, T& value) {
  std::istringstream stream(std::move(bytes));
  boost::archive::binary_iarchive(stream, boost::archive::no_header) >> value;
}

// The functions below allocate memory inside `work`, so a rank that runs out of memory still takes part in
// the communication.

/// Collective over `comm`: broadcasts the bytes of rank `root` in pieces of fixed size. A rank that cannot
/// store them still receives all pieces, and keeps its error in `work`. The ranks must agree on their errors
/// afterwards. If the root's work has failed, it sends an empty string. Makes one MPI_Bcast per 4 KiB.
void broadcast_bytes(const Communicator& comm, std::string& bytes, int root, GuardedWork& work);

/// Collective over `comm`: returns the values of all ranks, on every rank. If a rank's work has failed, all
/// ranks throw its error. A rank keeps later errors in its `work`. The ranks must agree on them afterwards.
/// `what` names the bytes in a LimitError. Makes three collective calls.
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
      const std::span<const char> of_rank = gathered.list_of(rank);
      from_archive(std::string(of_rank.begin(), of_rank.end()), values[rank]);
    }
  });
  return values;
}

/// Collective over `comm`: broadcasts the value of rank `root`. A rank keeps its errors in its `work`. The
/// ranks must agree on them before any rank uses the value. Makes the same number of calls as
/// broadcast_bytes().
template <typename T>
void broadcast_value(const Communicator& comm, T& value, int root, GuardedWork& work) {
  std::string bytes;
  const bool sends = comm.rank() == root;
  if (sends) work([&] { bytes = to_archive(value); });
  broadcast_bytes(comm, bytes, root, work);
  // If the root's work has failed, the string is empty, and the root reports its error.
  if (!sends && !bytes.empty()) work([&] { from_archive(std::move(bytes), value); });
}

}  // namespace evenkeel
