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

/// Identifies a collective call, so that ranks that make different calls notice before they wait for each
/// other.
struct CallKey {
  std::array<std::uint64_t, 3> words{};  ///< equal on ranks that make the same call
  std::string text;                      ///< description for errors, such as "collects step 3"

  friend bool operator==(const CallKey&, const CallKey&) = default;
};

/// Summary of a rank's fields: two words, which can be sent along with other data.
struct FieldDigest {
  std::int64_t has_data = 0;  ///< 0 or 1
  std::int64_t hash = 0;
};

/// This rank's fields, before the ranks agree on them.
class OwnFields {
 public:
  OwnFields() = default;
  /// `mine` is nullopt if the rank does not have data.
  explicit OwnFields(std::optional<std::vector<FieldSpec>> mine);

  [[nodiscard]] FieldDigest digest() const noexcept { return digest_; }
  /// Same as agree_on_fields(), given the digests of all ranks. Communicates only if digests differ or a rank
  /// does not have data. Collective.
  [[nodiscard]] std::vector<FieldSpec> agree(const Communicator& comm,
                                             std::span<const FieldDigest> digests) &&;

 private:
  std::vector<FieldSpec> fields_;  // sorted by name
  FieldDigest digest_;
};

/// First message of a rank in a collective call. Sent as raw bytes.
struct Announcement {
  std::int64_t count = 0;  ///< number of values that the rank will send, or -1 if it has an error
  FieldDigest fields;
  std::array<std::uint64_t, 3> call{};  ///< words of the call's key
};

/// Announcements of all ranks, by rank.
struct Announcements {
  explicit Announcements(int ranks)
      : of_ranks(static_cast<std::size_t>(ranks)), digests(static_cast<std::size_t>(ranks)) {}

  std::vector<Announcement> of_ranks;
  std::vector<FieldDigest> digests;
};

/// Collective over `comm`: returns every rank's announcement, after one all-gather. Fills in `mine.call` from
/// `call`. If any ranks pass errors, all ranks throw the error of the lowest such rank; otherwise, if ranks
/// make different calls, all throw InputError that lists the calls.
[[nodiscard]] Announcements announce(const Communicator& comm, Announcement mine, const CallKey& call,
                                     const std::optional<ErrorReport>& error);

/// A rank's input to an agreement on fields.
struct FieldAgreementInput {
  std::optional<std::vector<FieldSpec>> fields{};  ///< nullopt if the rank does not have data
  CallKey call{};                                  ///< must be equal on all ranks
};

/// Collective over `comm`: returns the fields of the ranks that have data, sorted by name; an empty list if
/// no rank has data. Ranks without data get the fields, too. Every rank throws the same InputError if two
/// ranks with data have different fields (naming a field, both ranks, and their versions of it) or if ranks
/// make different calls (naming the calls). If any rank passes an error, all ranks throw it. Costs one
/// all-gather of six words per rank if all ranks agree and have data.
[[nodiscard]] std::vector<FieldSpec> agree_on_fields(const Communicator& comm, FieldAgreementInput mine,
                                                     const std::optional<ErrorReport>& error = {});

/// Returns the fields of a batch's samples; nullopt for an empty batch, which means that the rank does not
/// have data. Local.
[[nodiscard]] std::optional<std::vector<FieldSpec>> fields_of(const RaggedBatch& batch);

}  // namespace evenkeel
