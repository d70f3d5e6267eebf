#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

// A collective call may begin with one announcement per rank. From the announcements, all ranks learn whether
// any rank has failed or is making a different call.

/// Identifies a collective call. Ranks compare their keys first, since ranks that make different calls would
/// otherwise wait for each other forever.
struct CallKey {
  std::array<std::uint64_t, 3> words{};  ///< equal on ranks that make the same call
  std::string text;                      ///< description for errors, such as "collects step 3"

  friend bool operator==(const CallKey&, const CallKey&) = default;
};

/// Summary of a rank's fields: two words, which can be sent along with other data.
struct FieldDigest {
  std::int64_t has_data = 0;  ///< 1 if the rank has data, otherwise 0
  std::int64_t hash = 0;      ///< hash of the fields' names, element types, kinds and shapes
};

/// First message of a rank in a collective call. Sent as raw bytes.
struct Announcement {
  std::int64_t count = 0;  ///< number of values that the rank will send, or -1 if it has an error
  FieldDigest fields;
  std::array<std::uint64_t, 3> call{};  ///< CallKey::words of the call that the rank makes
};

/// Announcements of all ranks, by rank.
struct Announcements {
  explicit Announcements(int ranks)
      : by_rank(static_cast<std::size_t>(ranks)), digests(static_cast<std::size_t>(ranks)) {}

  std::vector<Announcement> by_rank;
  std::vector<FieldDigest> digests;
};

/// Collective over `comm`: returns every rank's announcement, after one all-gather. Fills in `mine.call` from
/// `call`. If any ranks pass errors, all ranks throw the error of the lowest such rank; otherwise, if ranks
/// make different calls, all ranks throw an InputError that lists the calls.
[[nodiscard]] Announcements announce(const Communicator& comm, Announcement mine, const CallKey& call,
                                     const std::optional<ErrorReport>& error);

}  // namespace evenkeel
