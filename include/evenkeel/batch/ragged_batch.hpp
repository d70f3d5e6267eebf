#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/field.hpp"

namespace evenkeel {

/// The identifier of a sample's group: not set, an integer (unsigned if it is 2^63 or more), or a text.
using Uid = std::variant<std::monostate, std::int64_t, std::uint64_t, std::string>;

/// Returns the group (SampleShape::group) of samples with this uid. Integers in 0 .. 2^63 - 1 are used
/// unchanged; other integers and texts become a hash below 2^63, which is the same on every platform. Hashes
/// collide only by chance.
[[nodiscard]] std::uint64_t group_of_uid(std::string_view text) noexcept;
[[nodiscard]] std::uint64_t group_of_uid(std::int64_t number) noexcept;
[[nodiscard]] std::uint64_t group_of_uid(std::uint64_t number) noexcept;

/// The first group number for samples without a uid; it is above all groups of uids.
inline constexpr std::uint64_t first_own_group = std::uint64_t{1} << 63;

/// Returns the group of a sample without a uid, given its number (SampleShape::id). No other sample has this
/// group.
[[nodiscard]] constexpr std::uint64_t own_group(std::int64_t sample) noexcept {
  return first_own_group + static_cast<std::uint64_t>(sample);
}
[[nodiscard]] constexpr bool is_single_sample_group(std::uint64_t group) noexcept {
  return group >= first_own_group;
}

/// Returns the group of a sample with this number and uid.
[[nodiscard]] std::uint64_t group_of(const Uid& uid, std::int64_t sample) noexcept;

/// Returns the uid of a group that is known only by its number: the number, or std::monostate if the group
/// consists of a sample without a uid.
[[nodiscard]] Uid uid_of_group(std::uint64_t group);

/// One sample's number, its group, and its lengths in tokens.
struct SampleShape {
  /// The sample's number: its 0-based position over all sources of the job, its arrival number in a buffer,
  /// or a number chosen by the trainer.
  SampleId id{0};
  /// Equal for all samples with the same uid. By default, the sample is a group by itself.
  std::uint64_t group = own_group(id.value());
  std::int64_t prompt = 0;    ///< number of prompt tokens
  std::int64_t response = 0;  ///< number of response tokens

  [[nodiscard]] constexpr std::int64_t length() const noexcept { return prompt + response; }
  friend constexpr bool operator==(const SampleShape&, const SampleShape&) = default;
};

/// b ragged samples in columns: one row range per sample, and any number of named fields. Holds a rank's
/// samples before the exchange, or collected results after it. Owns its data or keeps it alive (see Column);
/// cheap to move.
///
/// Invariants: lengths are not negative; offsets start at 0 and never decrease; every field has exactly the
/// rows of its kind or, if it is counted, its own number of rows for each of the b samples; no two fields
/// have the same name.
///
/// Example: samples of prompt+response 2+1 and 0+2 tokens have token_offsets {0, 3, 5} and
/// response_offsets {0, 1, 3}.
class RaggedBatch {
 public:
  RaggedBatch() : RaggedBatch(std::vector<SampleShape>{}) {}
  /// Makes a batch without fields. Throws InputError for a negative length, or 2^63 tokens or more. O(b).
  explicit RaggedBatch(std::vector<SampleShape> samples);

  /// Returns b.
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(samples_.size()); }
  [[nodiscard]] std::span<const SampleShape> samples() const noexcept { return samples_; }
  /// Returns b+1 prefix sums of the samples' lengths, in tokens.
  [[nodiscard]] std::span<const std::int64_t> token_offsets() const noexcept { return token_offsets_; }
  /// Returns b+1 prefix sums of the response lengths, in tokens.
  [[nodiscard]] std::span<const std::int64_t> response_offsets() const noexcept { return response_offsets_; }
  [[nodiscard]] std::int64_t num_tokens() const noexcept { return token_offsets_.back(); }

  /// Returns the number of rows that a field of this kind has over the whole batch. Precondition of this and
  /// the next function: the kind is not counted.
  [[nodiscard]] std::int64_t rows_of(FieldKind kind) const noexcept;
  /// Returns the rows of sample `index` (its position in the batch) in a field of this kind.
  [[nodiscard]] RowRange rows_of(FieldKind kind, std::int64_t index) const noexcept;
  /// Returns the rows of sample `index` in a field of any kind, which is in the batch or could be added to
  /// it.
  [[nodiscard]] RowRange rows_of(const Column& field, std::int64_t index) const noexcept {
    const FieldKind kind = field.spec().kind;
    return is_counted(kind) ? field.samples()[index] : rows_of(kind, index);
  }
  /// Throws InputError naming the field unless it has rows for exactly these samples.
  void require_rows_of_samples(const Column& field) const;

  /// Adds a field filled with zeros, for the caller to fill in. Throws InputError if the name is taken, and
  /// for a counted field unless there are no samples. The reference remains valid until the next field is
  /// added.
  Column& add_field(FieldSpec spec);
  /// Adds a filled field. Throws InputError if the name is taken, or if the field does not have rows for
  /// exactly these samples.
  Column& add_field(Column column);

  [[nodiscard]] std::span<const Column> fields() const noexcept { return fields_; }
  [[nodiscard]] std::span<Column> fields() noexcept { return fields_; }
  /// Returns the field with this name, or nullptr.
  [[nodiscard]] const Column* find(std::string_view name) const noexcept;
  [[nodiscard]] Column* find(std::string_view name) noexcept;
  /// Returns the field with this name. Throws InputError that lists the existing names.
  [[nodiscard]] const Column& at(std::string_view name) const;

  /// If samples that declare prefix trees were cut into pieces: returns, for each piece that does not begin
  /// at its sample's first token, a hash of what identifies the preceding tokens, and 0 for other samples.
  /// Pieces with different hashes do not share tokens. Empty if there are no such pieces.
  [[nodiscard]] std::span<const std::uint64_t> contexts() const noexcept { return contexts_; }
  /// Sets contexts(). Precondition: there is one context per sample, or the list is empty.
  void set_contexts(std::vector<std::uint64_t> contexts) noexcept { contexts_ = std::move(contexts); }

  /// Returns the function that adds names to errors about samples of the step that contains this batch,
  /// including other ranks' samples; null if samples have only numbers. A copy or a part of the batch need
  /// not have it.
  [[nodiscard]] const NamesInErrors& names_in_errors() const noexcept { return names_in_errors_; }
  void set_names_in_errors(NamesInErrors names) noexcept { names_in_errors_ = std::move(names); }

 private:
  std::vector<SampleShape> samples_;
  std::vector<std::int64_t> token_offsets_;
  std::vector<std::int64_t> response_offsets_;
  std::vector<Column> fields_;
  std::vector<std::uint64_t> contexts_;
  NamesInErrors names_in_errors_;
};

/// The name of the field that every batch of samples must have before the exchange: tokens as int64.
inline constexpr std::string_view input_ids_field = "input_ids";

}  // namespace evenkeel
