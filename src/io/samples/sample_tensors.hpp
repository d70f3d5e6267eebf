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
#include "io/safetensors/tensor_file.hpp"

namespace evenkeel {

/// Kinds of fields by name. A file declares them under tensor_names::field_kinds, as a JSON object whose
/// values are names of kinds (see name_of()), such as {"data_source": "text"}.
using FieldKinds = std::map<std::string, FieldKind, std::less<>>;

[[nodiscard]] std::string text_of(const FieldKinds& kinds);

/// Parses a result of text_of(); an empty text has no kinds. Throws InputError, which names the file `path`,
/// if the text is not a JSON object or a value is not the name of a kind.
[[nodiscard]] FieldKinds parse_kinds(const std::string& text, const std::string& path);

/// Names of tensors in a file of samples; docs/formats.md describes their content.
namespace tensor_names {
inline constexpr std::string_view tokens = "tokens";  ///< input_ids is also accepted
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
inline constexpr std::string_view uid_offsets = "uid_offsets";  ///< present if uids are strings
/// Key in the metadata of a safetensors file. The value is JSON with the kinds of fields by name.
inline constexpr std::string_view field_kinds = "evenkeel_fields";
/// Names that fields must not have, because the names have other meanings in such files.
inline constexpr std::array reserved{
    tokens,  attention_mask, offsets, cu_seqlens,  prompt_lengths, prompt_offsets,
    prompts, responses,      uid,     uid_offsets, field_kinds,    std::string_view("cu_seqlens_padded")};
}  // namespace tensor_names

/// Lengths of a sample, in tokens.
struct TensorSample {
  std::int64_t prompt = 0;
  std::int64_t response = 0;
};

/// Position of a ragged sample in its file: its first row in tensors with one row per token, and its first
/// row in tensors with one row per response token. Not used for padded samples.
struct TensorPlace {
  std::int64_t token = 0;
  std::int64_t response = 0;
};

/// Samples in the tensors of one file: either ragged, with values and offsets, or padded, with a mask. The
/// constructor examines the header, reads the prompt lengths of ragged samples, and keeps the offsets of uids
/// and counted fields in memory. Elements of samples are read on demand. All functions are local.
class SampleTensors {
 public:
  /// Throws InputError naming the file and the tensor if the samples or the meaning of a tensor cannot be
  /// determined, and IoError if reading fails.
  explicit SampleTensors(std::unique_ptr<const TensorFile> file);

  [[nodiscard]] const TensorFile& file() const noexcept { return *file_; }
  [[nodiscard]] std::int64_t num_samples() const noexcept { return num_samples_; }
  [[nodiscard]] bool is_padded() const noexcept { return mask_.has_value(); }
  /// Returns the specs of the fields, sorted by name, without input_ids.
  [[nodiscard]] const std::vector<FieldSpec>& fields() const noexcept { return specs_; }
  /// Returns whether a field's tensor has rows; those of a padded tensor may all be padding. `field` is an
  /// index in fields().
  [[nodiscard]] bool has_rows(std::size_t field) const noexcept;
  /// Returns a sample's number of rows in a counted field. `field` is an index in fields().
  [[nodiscard]] std::int64_t num_counted_rows(std::size_t field, std::int64_t sample) const {
    return fields_[field].samples[sample].size();
  }
  /// Returns the names of the tensors that are ignored, each with the reason.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& ignored_content() const noexcept {
    return ignored_content_;
  }
  /// Returns the names of the fields whose kind is undecided, because tokens and response tokens have the
  /// same number of rows in this file. They are treated as fields with one row per token.
  [[nodiscard]] const std::vector<std::string>& undecided_fields() const noexcept {
    return undecided_fields_;
  }

  /// Returns the lengths of adjacent samples. Reads and checks their masks or offsets; throws InputError
  /// naming the tensor and the element or sample. O(samples) if ragged, O(elements of their masks) if padded.
  [[nodiscard]] std::vector<TensorSample> lengths(RowRange samples) const;

  /// Returns the sample's value in the tensor `uid`, or std::monostate if the file does not have this tensor.
  /// Throws InputError for a string that is not UTF-8.
  [[nodiscard]] Uid uid_of(std::int64_t sample) const;

  /// Reads a sample's tokens into out[0] and its rows of fields() into out[1 ...], in order. Precondition:
  /// the sizes of these buffers match `lengths`. Throws InputError naming the position of a negative token,
  /// or if the mask has changed.
  void read(std::int64_t sample, const TensorSample& lengths, const TensorPlace& place,
            std::span<const std::span<std::byte>> out) const;

  /// Adds the byte ranges that read() will read for this sample to `ahead`.
  void add_to_read_ahead(std::int64_t sample, const TensorSample& lengths, const TensorPlace& place,
                         ReadAhead& ahead) const;

 private:
  struct Field {
    std::size_t tensor = 0;
    FieldKind kind = FieldKind::token;
    std::size_t row_bytes = 0;  // size in bytes of one of the field's rows
    // Number of columns of a padded tensor. They correspond to the last columns of the token tensor.
    std::int64_t columns = 0;
    SampleRows samples{};   // rows of each sample, if the field is counted
    std::int64_t axes = 0;  // number of axes of a padded tensor [samples, axes, columns]; 0 for other shapes
  };

  [[nodiscard]] bool has_axes_first(const StoredTensor& tensor) const;
  void read_axes(const Field& field, std::int64_t sample, std::span<const std::int64_t> columns,
                 std::span<std::byte> out) const;
  [[noreturn]] void fail(const std::string& message, const std::string& hint = {}) const;
  [[noreturn]] void fail(std::size_t tensor, const std::string& message, const std::string& hint = {}) const;
  [[nodiscard]] const StoredTensor& at(std::size_t tensor) const { return file_->tensors()[tensor]; }
  [[nodiscard]] std::optional<std::size_t> find_either(std::string_view first, std::string_view second) const;
  void require_integer_tensor(std::size_t tensor, std::size_t dimensions) const;
  void find_ragged_samples();
  void find_padded_samples();
  void find_uids();
  void find_prompts();
  void find_response_width();
  void find_fields();
  void add_field(std::size_t tensor);
  [[nodiscard]] bool defines_samples(std::size_t tensor) const;
  [[nodiscard]] std::optional<std::size_t> offsets_of_field(std::size_t tensor) const;
  [[nodiscard]] bool is_offsets_of_field(std::size_t tensor) const;
  void add_counted_field(std::size_t tensor, std::size_t offsets);
  [[nodiscard]] SampleRows sample_rows_from_offsets(std::size_t offsets, std::size_t tensor) const;
  [[nodiscard]] std::vector<FieldKind> possible_kinds(const StoredTensor& tensor) const;
  [[nodiscard]] std::vector<TensorSample> ragged_lengths(RowRange samples) const;
  [[nodiscard]] std::vector<TensorSample> padded_lengths(RowRange samples) const;
  [[nodiscard]] std::vector<std::int64_t> prompt_lengths_of(RowRange samples) const;
  [[nodiscard]] std::vector<std::int64_t> token_columns_of(std::int64_t sample) const;
  [[nodiscard]] std::vector<std::int64_t> attention_mask_of(RowRange samples) const;
  [[nodiscard]] bool has_numbers(std::size_t tensor) const;
  [[nodiscard]] RowRange rows_of(FieldKind kind, std::int64_t sample, const TensorSample& lengths,
                                 const TensorPlace& place) const;
  void read_rows_of_sample(std::size_t tensor, FieldKind kind, std::int64_t sample,
                           const TensorSample& lengths, const TensorPlace& place,
                           std::span<std::byte> out) const;
  void require_valid_tokens(std::span<const std::byte> tokens, std::int64_t sample) const;

  std::unique_ptr<const TensorFile> file_;
  std::int64_t num_samples_ = 0;
  // Members of type std::size_t, from here on, are indexes of tensors in file_->tensors().
  std::size_t tokens_ = 0;
  std::optional<std::size_t> offsets_;  // tensor with the offsets of ragged samples
  std::optional<std::size_t> mask_;     // tensor with the attention mask of padded samples
  std::optional<std::size_t> prompt_lengths_;
  std::optional<std::size_t> prompt_offsets_;
  std::optional<std::size_t> uid_;
  std::optional<std::size_t> uid_offsets_;  // tensor with the offsets of uids, if they are strings
  SampleRows uid_bytes_;                    // byte range of each sample's uid, if uids are strings
  std::int64_t width_ = 0;                  // number of columns of the token tensor of padded samples
  // Number of columns of the responses of padded samples, which are the last columns; nullopt if unknown.
  std::optional<std::int64_t> response_width_;
  // Mask whose first set column in each sample is the beginning of the response; nullopt if it is not needed.
  std::optional<std::size_t> response_begins_;
  std::int64_t response_rows_ = 0;  // total number of response tokens of ragged samples
  FieldKinds declared_kinds_;       // kinds of fields that the file declares, by name
  std::vector<Field> fields_;       // one per field, in the order of specs_
  std::vector<FieldSpec> specs_;
  std::vector<std::pair<std::string, std::string>> ignored_content_;
  std::vector<std::string> undecided_fields_;
};

}  // namespace evenkeel
