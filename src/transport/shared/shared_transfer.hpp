#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"
#include "transport/block_list.hpp"
#include "transport/messages/notices.hpp"
#include "transport/shared/shared_offer.hpp"

namespace evenkeel {

/// The part of one exchange that stays inside nodes. Owners tell each neighbour where in their shared heap
/// its bytes lie, and through which views to look at them; the neighbour copies them straight to where they
/// belong. Bytes that lie elsewhere (small columns, columns from before the heap was in use) are copied to
/// the heap first.
///
/// What takes memory is done when it is made, and may throw there. Nothing is thrown afterwards but for
/// failed MPI calls: what goes wrong is kept in error(). Owners may change or free their bytes after all
/// ranks have compared their errors (fail_together).
class SharedTransfer {
 public:
  /// Local. Both lists must stand until it is over. Throws LimitError where neighbours could not read.
  SharedTransfer(NodeMemory& memory, const std::vector<BlockList>& sends,
                 const std::vector<BlockList>& receives);

  /// Collective over the ranks of the node: tells neighbours what is there for them, copies what this rank
  /// has for itself, and fetches what neighbours have.
  void run(const Communicator& comm);

  [[nodiscard]] const std::optional<ErrorReport>& error() const noexcept { return error_; }

 private:
  void fetch(int rank, const OfferNotice& told, const BlockList& into, std::int64_t total_bytes);

  NodeMemory& memory_;
  const std::vector<BlockList>& sends_;
  const std::vector<BlockList>& receives_;
  SharedOffer offer_;
  Notices notices_;
  std::optional<ErrorReport> error_;
};

}  // namespace evenkeel
