#pragma once

#include <boost/mpi/communicator.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "evenkeel/exchange/block_list.hpp"
#include "exchange/shared_offer.hpp"

namespace evenkeel {

/// The part of one exchange that stays inside nodes. Owners tell each neighbour where in their shared heap
/// its bytes lie; the neighbour copies them straight to where they belong. Bytes that lie elsewhere (small
/// columns, columns from before the heap was in use) are copied to the heap first.
///
/// Nothing here throws on one rank alone but for failed MPI calls: what goes wrong is kept in error(). Owners
/// may change or free their bytes after all ranks have compared their errors (fail_together).
class SharedTransfer {
 public:
  /// Makes this rank's bytes ready for its neighbours. Local.
  SharedTransfer(NodeMemory& memory, const std::vector<BlockList>& sends);

  /// Collective over the ranks of the node: tells neighbours what is there for them, and fetches what they
  /// have. `meanwhile` is called once, before waiting for them.
  void run(const boost::mpi::communicator& comm, const std::vector<BlockList>& receives,
           const std::function<void()>& meanwhile);

  [[nodiscard]] const std::optional<ErrorReport>& error() const noexcept { return error_; }

 private:
  void fetch(int rank, const Announcement& told, const BlockList& into, std::int64_t total_bytes);

  NodeMemory& memory_;
  std::vector<Announcement> announcements_;  // by rank
  std::vector<bool> announced_;              // by rank: whether it has anything for this neighbour
  SharedOffer offer_;
  std::optional<ErrorReport> error_;
};

}  // namespace evenkeel
