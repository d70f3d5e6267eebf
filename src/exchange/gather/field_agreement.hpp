#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/field.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

/// What a rank means by a collective call, so that ranks that mean different things find out before they wait
/// for each other.
struct CallKey {
  std::array<std::uint64_t, 3> words{};  ///< equal on ranks that mean the same
  std::string text;                      ///< for people: "collects step 3"

  friend bool operator==(const CallKey&, const CallKey&) = default;
};

/// What a rank tells the others of its fields before anything else: two words, which can travel with others.
struct FieldDigest {
  std::int64_t has_data = 0;  ///< 0 or 1
  std::int64_t hash = 0;
};

/// A rank's fields on the way to those of all ranks.
class OwnFields {
 public:
  OwnFields() = default;
  /// Nothing when the rank has no data.
  explicit OwnFields(std::optional<std::vector<FieldSpec>> mine);

  [[nodiscard]] FieldDigest digest() const noexcept { return digest_; }
  /// agree_on_fields() once every rank has every rank's digest: as a rule nothing is sent then. Collective.
  [[nodiscard]] std::vector<FieldSpec> agree(const Communicator& comm,
                                             std::span<const FieldDigest> digests) &&;

 private:
  std::vector<FieldSpec> fields_;  // by name
  FieldDigest digest_;
};

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

/// What a rank brings to an agreement on fields.
struct FieldsBrought {
  std::optional<std::vector<FieldSpec>> fields{};  ///< nothing when the rank has no data
  CallKey call{};                                  ///< compared over ranks
};

/// Collective over `comm`: the fields that all ranks which have data bring, by name. Ranks without data learn
/// them; when two ranks with data disagree, every rank throws the same InputError that names a field, both
/// ranks and what each has; when ranks have different calls in mind, one that tells what each does. When any
/// rank brings an error instead, all ranks throw that. None when nobody has data. One all-gather of seven
/// words a rank when all agree and all have data.
[[nodiscard]] std::vector<FieldSpec> agree_on_fields(const Communicator& comm, FieldsBrought mine,
                                                     const std::optional<ErrorReport>& error = {});

/// The fields of samples: a rank has data when it has samples. Local.
[[nodiscard]] std::optional<std::vector<FieldSpec>> fields_of(const RaggedBatch& batch);

}  // namespace evenkeel
