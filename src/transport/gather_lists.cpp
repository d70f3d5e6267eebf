#include "transport/gather_lists.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/narrow.hpp"

namespace evenkeel {
namespace {

/// The hint if the lists of all ranks together have more values than MPI can count.
constexpr std::string_view hint_for_long_lists = "Use fewer or shorter samples";

struct Piece {
  std::int64_t left = 0;  ///< number of bytes still to broadcast, including those in this piece
  std::array<char, 4088> bytes;
};

}  // namespace

GatherLayout::GatherLayout(std::span<const std::int64_t> counts, std::string_view what) {
  std::int64_t next = 0;
  for (const std::int64_t count : counts) {
    offsets.push_back(narrow<int>(next, what, hint_for_long_lists));
    sizes.push_back(narrow<int>(count, what, hint_for_long_lists));
    next += count;
  }
  total = static_cast<std::size_t>(narrow<int>(next, what, hint_for_long_lists));
}

std::vector<std::int64_t> gather_counts(const Communicator& comm, std::int64_t mine,
                                        const std::optional<ErrorReport>& error) {
  constexpr std::int64_t failed = -1;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(comm.size()));
  comm.all_gather<std::int64_t>(error ? failed : mine, counts);
  const auto first = std::ranges::find(counts, failed);
  if (first != counts.end()) fail_with_report_of(comm, static_cast<int>(first - counts.begin()), error);
  return counts;
}

void broadcast_bytes(const Communicator& comm, std::string& bytes, int root, GuardedWork& work) {
  const bool sends = comm.rank() == root;
  if (!sends) bytes.clear();
  Piece piece;
  std::size_t done = 0;
  do {
    if (sends) {
      piece.left = work.is_skipping_parts() ? 0 : static_cast<std::int64_t>(bytes.size() - done);
      bytes.copy(piece.bytes.data(), piece.bytes.size(), std::min(done, bytes.size()));
    }
    comm.broadcast(piece, root);
    const auto came = static_cast<std::size_t>(std::min(piece.left, std::ssize(piece.bytes)));
    if (!sends) work([&] { bytes.append(piece.bytes.data(), came); });
    done += came;
  } while (piece.left > std::ssize(piece.bytes));
}

}  // namespace evenkeel
