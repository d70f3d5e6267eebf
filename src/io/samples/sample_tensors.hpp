#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/field.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "io/samples/tensor_file.hpp"

namespace evenkeel {

/// What fields have one row for, by name: what a file says of its tensors under tensor_names::field_kinds, as
/// a JSON object of name_of() words, such as {"data_source": "text"}.
using FieldKinds = std::map<std::string, FieldKind, std::less<>>;

[[nodiscard]] std::string text_of(const FieldKinds& kinds);

/// The kinds that a text tells. What is not as text_of() writes it tells nothing.
[[nodiscard]] FieldKinds parsed_kinds(const std::string& text);

/// What tensors of a file of samples are called. docs/formats.md has the rules.
namespace tensor_names {
inline constexpr std::string_view tokens = "tokens";  ///< or input_ids
inline constexpr std::string_view attention_mask = "attention_mask";
inline constexpr std::string_view offsets = "offsets";
inline constexpr std::string_view cu_seqlens = "cu_seqlens";
inline constexpr std::string_view prompt_lengths = "prompt_lengths";
inline constexpr std::string_view prompt_offsets = "prompt_offsets";
inline constexpr std::string_view position_ids = "position_ids";
inline constexpr std::string_view prompts = "prompts";
inline constexpr std::string_view responses = "responses";
inline constexpr std::string_view response_mask = "response_mask";
inline constexpr std::string_view uid = "uid";
inline constexpr std::string_view uid_offsets = "uid_offsets";  ///< where uid is texts
/// What fields have one row for, by name, as JSON: metadata of safetensors, an array of bytes elsewhere.
inline constexpr std::string_view field_kinds = "evenkeel_fields";
/// Names that no field may have, since they mean something else.
inline constexpr std::array reserved{
    tokens,  attention_mask, offsets, cu_seqlens,  prompt_lengths, prompt_offsets,
    prompts, responses,      uid,     uid_offsets, field_kinds,    std::string_view("cu_seqlens_padded")};
}  // namespace tensor_names

/// A sample's lengths, in tokens.
struct TensorSample {
  std::int64_t prompt = 0;
  std::int64_t response = 0;
};

/// Where a ragged sample's rows begin in its file. Padded ones need no such thing.
struct TensorPlace {
  std::int64_t token = 0;
  std::int64_t response = 0;
};

/// Samples in the tensors of one file: ragged, as values and offsets, or padded, with a mask. Opening reads
/// headers, of small tensors what decides, and the offsets of counted fields, which it keeps; the samples'
/// elements are read when they are asked for. Local.
class SampleTensors {
 public:
  /// Throws InputError that names the file, the tensor and what to do where the rules do not tell which
  /// samples these are, or what a tensor is.
  explicit SampleTensors(std::unique_ptr<const TensorFile> file);

  [[nodiscard]] const TensorFile& file() const noexcept { return *file_; }
  [[nodiscard]] std::int64_t num_samples() const noexcept { return num_samples_; }
  [[nodiscard]] bool is_padded() const noexcept { return mask_.has_value(); }
  /// Sorted by name, without input_ids.
  [[nodiscard]] const std::vector<FieldSpec>& fields() const noexcept { return specs_; }
  /// Whether any sample has a row of one of fields(), by its place there.
  [[nodiscard]] bool has_rows(std::size_t field) const noexcept;
  /// How many rows a sample has of a counted one of fields(), by its place there.
  [[nodiscard]] std::int64_t counted_rows(std::size_t field, std::int64_t sample) const {
    return fields_[field].samples[sample].size();
  }
  /// Tensors that make no field and tell nothing else, and why.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& left_out() const noexcept {
    return left_out_;
  }
  /// Fields of one row a token only because no prompt tells them from those of one a response token.
  [[nodiscard]] const std::vector<std::string>& undecided() const noexcept { return undecided_; }

  /// Lengths of adjacent samples. Reads masks or offsets of these, and checks them: throws InputError that
  /// names the tensor and the element. O(their rows).
  [[nodiscard]] std::vector<TensorSample> lengths(RowRange samples) const;

  /// What the tensor `uid` says; nothing without one. Throws InputError for a text that is not UTF-8.
  [[nodiscard]] Uid uid_of(std::int64_t sample) const;

  /// Fills out[0] with a sample's tokens and out[1 ...] with its rows of fields(), in order, of the sizes
  /// that its lengths ask for. Throws InputError that names the place of a token below 0, or where the mask
  /// is not what it was.
  void read(std::int64_t sample, const TensorSample& lengths, const TensorPlace& place,
            std::span<const std::span<std::byte>> out) const;

  /// Takes note of where read() of this sample will read.
  void expect(std::int64_t sample, const TensorSample& lengths, const TensorPlace& place,
              ReadAhead& ahead) const;

 private:
  struct Field {
    std::size_t tensor = 0;
    FieldKind kind = FieldKind::token;
    std::size_t row_bytes = 0;  // of one row of the sample
    std::int64_t columns = 0;   // of a padded tensor, those of the last tokens
    SampleRows samples{};       // where it is counted
    std::int64_t axes = 0;      // of a padded tensor [samples, axes, columns]; 0: columns come first
  };

  [[nodiscard]] bool has_axes_first(const StoredTensor& tensor) const;
  void read_axes(const Field& field, std::int64_t sample, std::span<const std::int64_t> columns,
                 std::span<std::byte> out) const;
  [[noreturn]] void fail(const std::string& message, const std::string& hint = {}) const;
  [[noreturn]] void fail(std::size_t tensor, const std::string& message, const std::string& hint = {}) const;
  [[nodiscard]] const StoredTensor& at(std::size_t tensor) const { return file_->tensors()[tensor]; }
  [[nodiscard]] std::optional<std::size_t> one_of(std::string_view first, std::string_view second) const;
  void require_integers(std::size_t tensor, std::size_t dimensions) const;
  void find_ragged();
  void find_padded();
  void find_uids();
  void find_prompts();
  void find_response_width();
  void find_fields();
  void add_field(std::size_t tensor);
  [[nodiscard]] bool tells_something_else(std::size_t tensor) const;
  [[nodiscard]] std::optional<std::size_t> offsets_of_field(std::size_t tensor) const;
  [[nodiscard]] bool is_offsets_of_field(std::size_t tensor) const;
  void add_counted_field(std::size_t tensor, std::size_t offsets);
  [[nodiscard]] SampleRows rows_of_offsets(std::size_t offsets, std::size_t tensor) const;
  [[nodiscard]] std::vector<FieldKind> kinds_that_fit(const StoredTensor& tensor) const;
  [[nodiscard]] std::vector<TensorSample> ragged_lengths(RowRange samples) const;
  [[nodiscard]] std::vector<TensorSample> padded_lengths(RowRange samples) const;
  [[nodiscard]] std::vector<std::int64_t> prompts_of(RowRange samples) const;
  [[nodiscard]] std::vector<std::int64_t> columns_of(std::int64_t sample) const;
  [[nodiscard]] std::vector<std::int64_t> attention_of(RowRange samples) const;
  [[nodiscard]] bool has_numbers(std::size_t tensor) const;
  [[nodiscard]] RowRange rows_of(FieldKind kind, std::int64_t sample, const TensorSample& lengths,
                                 const TensorPlace& place) const;
  void read_ragged(std::size_t tensor, FieldKind kind, std::int64_t sample, const TensorSample& lengths,
                   const TensorPlace& place, std::span<std::byte> out) const;
  void require_tokens(std::span<const std::byte> tokens, std::int64_t sample) const;

  std::unique_ptr<const TensorFile> file_;
  std::int64_t num_samples_ = 0;
  std::size_t tokens_ = 0;
  std::optional<std::size_t> offsets_;  // of ragged samples
  std::optional<std::size_t> mask_;     // of padded ones
  std::optional<std::size_t> prompt_lengths_;
  std::optional<std::size_t> prompt_offsets_;
  std::optional<std::size_t> uid_;
  std::optional<std::size_t> uid_offsets_;      // where uids are texts
  SampleRows uid_bytes_;                        // of each sample's, then
  std::int64_t width_ = 0;                      // of padded samples
  std::optional<std::int64_t> response_width_;  // of padded ones: their last columns
  std::optional<std::size_t>
      response_begins_;             // the mask of padded ones whose first set token begins a response
  std::int64_t response_rows_ = 0;  // of ragged ones, in all
  FieldKinds told_;                 // by the file itself
  std::vector<Field> fields_;       // as specs_
  std::vector<FieldSpec> specs_;
  std::vector<std::pair<std::string, std::string>> left_out_;
  std::vector<std::string> undecided_;
};

}  // namespace evenkeel
