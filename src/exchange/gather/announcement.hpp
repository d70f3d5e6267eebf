#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "exchange/gather/call_key.hpp"
#include "exchange/gather/field_digest.hpp"

namespace evenkeel {

/// What a rank tells the others before anything else of a collective call. Travels as it lies in memory.
struct Announcement {
  std::int64_t count = 0;  ///< of what it will send, or -1 where it brings an error instead
  std::int64_t room = 0;   ///< of what all ranks will send: what it has memory for already
  FieldDigest fields;
  std::array<std::uint64_t, 3> call{};  ///< of the call's key
};

/// What all ranks announced, by rank.
struct Announcements {
  explicit Announcements(int ranks)
      : of_ranks(static_cast<std::size_t>(ranks)), digests(static_cast<std::size_t>(ranks)) {}

  std::vector<Announcement> of_ranks;
  std::vector<FieldDigest> digests;
};

/// Collective over `comm`, one all-gather: every rank's announcement, `mine` with `call` filled in. Where
/// ranks bring errors, all throw the lowest such rank's; else, where ranks mean different calls, an
/// InputError that tells what each means. The answer is kept with `comm`, and stands until the next call.
const Announcements& announce(const Communicator& comm, Announcement mine, const CallKey& call,
                              const std::optional<ErrorReport>& error);

}  // namespace evenkeel
