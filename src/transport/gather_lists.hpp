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

/// Arguments of gathering calls for a communicator's ranks: memory that is there before it is needed, so that
/// no rank lacks it when all meet.
class RankLists {
 public:
  explicit RankLists(int ranks)
      : words_(static_cast<std::size_t>(ranks)), sizes_(words_.size()), offsets_(words_.size()) {}

  /// Collective over `comm` the first time; kept with the communicator.
  [[nodiscard]] static RankLists& of(const Communicator& comm);

  /// One word a rank, for any use.
  [[nodiscard]] std::span<std::int64_t> words() noexcept { return words_; }

  /// Takes words() for what each rank brings, and works out where it goes. Throws LimitError, the same on
  /// every rank, when MPI cannot count it; `what` names it. Returns the sum.
  std::int64_t take_words_as_sizes(std::string_view what);
  [[nodiscard]] std::span<const int> sizes() const noexcept { return sizes_; }
  [[nodiscard]] std::span<const int> offsets() const noexcept { return offsets_; }

 private:
  std::vector<std::int64_t> words_;
  std::vector<int> sizes_;
  std::vector<int> offsets_;
};

/// Lists of all ranks.
template <typename T>
struct GatheredLists {
  std::vector<T> values;     ///< one rank's after the other's
  std::vector<int> offsets;  ///< of each rank's, and the end

  [[nodiscard]] std::span<const T> of(std::size_t rank) const {
    const auto begin = static_cast<std::size_t>(offsets[rank]);
    return std::span(values).subspan(begin, static_cast<std::size_t>(offsets[rank + 1]) - begin);
  }
};

/// Collective over `comm`: each rank's count into words() of the result, where -1 stands for an error. Throws
/// the error of the first rank that brings one, on every rank.
RankLists& gather_counts(const Communicator& comm, std::int64_t mine,
                         const std::optional<ErrorReport>& error);

/// Collective over `comm`: the values of all ranks, byte for byte, with the sizes of `lists`.
template <typename T>
void gather_values(const Communicator& comm, const RankLists& lists, std::span<const T> mine,
                   std::span<T> all) {
  static_assert(std::is_trivially_copyable_v<T>);
  comm.all_gather_lists(std::as_bytes(mine).data(), {lists.sizes(), lists.offsets(), sizeof(T)},
                        std::as_writable_bytes(all).data());
}

/// Collective over `comm`: the lists of all ranks on every rank, byte for byte. When a rank brings an error
/// instead, or lacks memory for the lists, all ranks throw it. `what` names the values for LimitError. Three
/// collective calls.
template <typename T>
[[nodiscard]] GatheredLists<T> all_gather_lists(const Communicator& comm, std::span<const T> mine,
                                                const std::optional<ErrorReport>& error,
                                                std::string_view what) {
  static_assert(std::is_trivially_copyable_v<T>);
  RankLists& lists = gather_counts(comm, static_cast<std::int64_t>(mine.size()), error);
  const std::int64_t total = lists.take_words_as_sizes(what);
  GatheredLists<T> gathered;
  together(comm, [&] {
    gathered.values.resize(static_cast<std::size_t>(total));
    gathered.offsets.reserve(lists.offsets().size() + 1);
    gathered.offsets.assign(lists.offsets().begin(), lists.offsets().end());
    gathered.offsets.push_back(static_cast<int>(total));
  });
  gather_values(comm, lists, mine, std::span(gathered.values));
  return gathered;
}

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
