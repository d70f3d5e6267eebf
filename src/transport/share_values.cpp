#include "transport/share_values.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace evenkeel {
namespace {

struct Piece {
  std::int64_t left = 0;  ///< bytes from here on
  std::array<char, 4088> bytes;
};

}  // namespace

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
