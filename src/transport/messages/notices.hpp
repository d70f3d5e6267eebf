#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"
#include "mesh/open_requests.hpp"
#include "transport/shared/shared_offer.hpp"

namespace evenkeel {

/// What the ranks of a node tell each other in one exchange: where the bytes are that each has for the
/// others. Its memory is taken when it is made; nothing is thrown afterwards but for what connects ranks.
class Notices {
 public:
  /// Local. `to[r]` says whether rank r is told anything, `from[r]` whether it tells. Throws LimitError.
  Notices(std::vector<bool> to, std::vector<bool> from);

  /// Collective over the ranks that tell each other. `mine[r]` is for rank r, and must stand until end(), or
  /// the end of this object.
  void begin(const Communicator& comm, std::span<const OfferNotice> mine);
  /// A rank whose notice has come, each once; nothing when all have.
  [[nodiscard]] std::optional<int> next();
  [[nodiscard]] const OfferNotice& told_by(int rank) const { return told_[static_cast<std::size_t>(rank)]; }
  void end();

 private:
  void begin_messages(const Communicator& comm, std::span<const OfferNotice> mine);
  void exchange_all(const ForeignRanks& ranks, std::span<const OfferNotice> mine);

  std::vector<bool> to_;
  std::vector<bool> from_;
  std::vector<OfferNotice> told_;  // by rank
  // Of MPI.
  OpenRequests sending_{OpenRequests::Kind::others};
  OpenRequests receiving_{OpenRequests::Kind::receives};
  // Of others, which are told all at once.
  std::vector<OfferNotice> outgoing_;
  std::vector<OfferNotice> incoming_;
  std::vector<std::int64_t> outgoing_bytes_;
  std::vector<std::int64_t> incoming_bytes_;
  std::optional<std::size_t> next_;
};

}  // namespace evenkeel
