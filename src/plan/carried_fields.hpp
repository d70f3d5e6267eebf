#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "batch/integers.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/plan/field_settings.hpp"

namespace evenkeel {

/// A field, or those layers of it that one pipeline stage has, as it travels from owners to consumers.
struct CarriedField {
  FieldSpec spec;            ///< of the column that owners send from; no two of a step have one name
  std::string name;          ///< under which consumers have it
  DType brought;             ///< the elements that samples bring
  DType handed_out;          ///< the elements that consumers are handed
  std::size_t source = 0;    ///< of the fields that samples bring
  std::optional<int> stage;  ///< the one pipeline stage that is sent it; none: as its name and kind say
  bool to_all_stages = false;
  /// Of the source's rows, in this order; none: rows are whole.
  std::optional<std::vector<std::int64_t>> layers;

  friend bool operator==(const CarriedField&, const CarriedField&) = default;
};

/// What fields are on their way where settings say so.
struct FieldWays {
  std::map<std::string, FieldSettings, std::less<>> settings;  ///< by name; others travel as they are
  std::map<std::string, IntegerRange, std::less<>>
      ranges;  ///< by name, over all ranks: of what travels narrow
  int pp = 1;
  int vpp = 1;
};

/// The fields that travel in place of those that samples bring: a field without settings as it is, one with
/// layers once for each pipeline stage. Deterministic, pure: equal on all ranks. Throws InputError that names
/// the field where its shape or elements are not what its settings need. Preconditions: require_valid()
/// accepts the settings; what travels narrow has a range.
[[nodiscard]] std::vector<CarriedField> carried_fields(std::span<const FieldSpec> brought,
                                                       const FieldWays& ways = {});

/// The samples with the columns that travel, of those columns that are there: in one pass over each column
/// that does not travel as it is, whose memory is given back. O(bytes) of these, nothing where there are
/// none. Precondition: elements lie within the ranges that `carried` was made with.
[[nodiscard]] RaggedBatch carry(RaggedBatch samples, std::span<const CarriedField> carried);

/// What a consumer's columns are, one for each carried field: under the names and of the elements that are
/// handed out.
[[nodiscard]] std::vector<FieldSpec> handed_out_fields(std::span<const CarriedField> carried);

/// Whether a field, or any of them, does not travel as it is brought.
[[nodiscard]] bool changes_field(const CarriedField& field) noexcept;
[[nodiscard]] bool changes_fields(std::span<const CarriedField> carried) noexcept;

}  // namespace evenkeel
