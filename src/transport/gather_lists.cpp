#include "transport/gather_lists.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "base/narrow.hpp"
#include "transport/comm_attribute.hpp"

namespace evenkeel {
namespace {

struct Piece {
  std::int64_t left = 0;  ///< bytes from here on
  std::array<char, 4088> bytes;
};

}  // namespace

RankLists& RankLists::of(const Communicator& comm) {
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

RankLists& gather_counts(const Communicator& comm, std::int64_t mine,
                         const std::optional<ErrorReport>& error) {
  constexpr std::int64_t failed = -1;
  RankLists& lists = RankLists::of(comm);
  const std::int64_t word = error ? failed : mine;
  comm.all_gather(word, lists.words());
  const auto first = std::ranges::find(lists.words(), failed);
  if (first != lists.words().end())
    fail_with_report_of(comm, static_cast<int>(first - lists.words().begin()), error);
  return lists;
}

void broadcast_bytes(const Communicator& comm, std::string& bytes, int root, GuardedWork& work) {
  const bool sends = comm.rank() == root;
  if (!sends) bytes.clear();
  Piece piece;
  std::size_t done = 0;
  do {
    if (sends) {
      piece.left = work.failed() ? 0 : static_cast<std::int64_t>(bytes.size() - done);
      bytes.copy(piece.bytes.data(), piece.bytes.size(), std::min(done, bytes.size()));
    }
    comm.broadcast(piece, root);
    const auto came = static_cast<std::size_t>(std::min(piece.left, std::ssize(piece.bytes)));
    if (!sends) work([&] { bytes.append(piece.bytes.data(), came); });
    done += came;
  } while (piece.left > std::ssize(piece.bytes));
}

}  // namespace evenkeel
