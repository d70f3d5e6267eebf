#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/row_range.hpp"
#include "evenkeel/batch/field.hpp"
#include "evenkeel/batch/sample_rows.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "io/field_kinds.hpp"
#include "io/tensor_file.hpp"
#include "source/dump_folder.hpp"
#include "source/dumped_layers.hpp"

namespace evenkeel {

/// What is not yet ruled out after some micro-batches of a dump, as bits.
struct DumpEvidence {
  static constexpr std::uint32_t zigzag = 1;  ///< context-parallel ranks hold what the zigzag cut gives them
  static constexpr std::uint32_t contiguous = 2;  ///< or the contiguous one
  static constexpr std::uint32_t positions = 4;   ///< position_ids count from 0
  static constexpr std::uint32_t labels = 8;      ///< labels are the next tokens
  static constexpr std::uint32_t all = 15;
};

/// One of several kinds that a tensor may be of.
[[nodiscard]] constexpr std::uint32_t kind_bit(FieldKind kind) noexcept {
  return 1U << static_cast<unsigned>(kind);
}
inline constexpr std::uint32_t token_bit = kind_bit(FieldKind::token);
inline constexpr std::uint32_t sample_bit = kind_bit(FieldKind::sample);

/// A sample of a micro-batch of a dump.
struct DumpedSample {
  std::int64_t micro_batch = 0;  ///< in DumpFolder::micro_batches
  std::int64_t place = 0;        ///< in the micro-batch
  std::int64_t index = 0;        ///< sample_index
  std::int64_t begin = 0;        ///< in rows over all context-parallel ranks
  std::int64_t padded = 0;       ///< rows, with those for alignment
  std::int64_t tokens = 0;
  std::int64_t prompt = 0;
};

/// One micro-batch of a dump, open: the files of its context-parallel ranks. Local.
class DumpedMicroBatch {
 public:
  /// Throws InputError that names the file where it is no micro-batch of a dump, or one of shared prefixes,
  /// or tells of itself what is not so.
  DumpedMicroBatch(const std::filesystem::path& folder, const DumpFolder& dump, std::int64_t micro_batch);

  /// Tensors that are fields, by name: the kinds that fit, as bits (kind_bit), the element type, and the
  /// dimensions after the rows.
  struct Tensor {
    DType dtype = DType::int64;
    std::uint32_t kinds = 0;
    std::vector<std::int64_t> as_token;   // trailing dimensions
    std::vector<std::int64_t> as_sample;  // the same, and those of counted fields
  };
  [[nodiscard]] std::map<std::string, Tensor> tensors() const;

  /// The samples, without their prompts, which mask() tells. Fillers are left out.
  [[nodiscard]] std::vector<DumpedSample> samples() const;
  [[nodiscard]] std::uint32_t evidence(std::span<const DumpedSample> samples) const;
  /// Rows ahead of the first one of which the loss counts, and one more; all where none counts.
  [[nodiscard]] std::int64_t prompt_of(const DumpedSample& sample, CpLayout layout) const;

  /// A sample's rows of a token field, put together from those of all ranks. `out` has room for `tokens`
  /// rows.
  void read_tokens(std::string_view field, const DumpedSample& sample, CpLayout layout, std::size_t row_bytes,
                   std::span<std::byte> out) const;
  void read_sample(std::string_view field, const DumpedSample& sample, std::span<std::byte> out) const;
  /// Whose the rows of a counted field are, by places in the micro-batch. Throws InputError that names the
  /// file where its offsets do not fit its samples or its rows.
  [[nodiscard]] SampleRows counted_rows(std::string_view field) const;
  /// Rows of a counted field, of whatever sample. `out` has room for them.
  void read_counted(std::string_view field, RowRange rows, std::span<std::byte> out) const;
  /// Which layers this stage has of each field of layers: as many as the field's tensor.
  [[nodiscard]] const DumpedLayers& layers() const noexcept { return layers_; }
  /// The fields of which context-parallel ranks have some rows each.
  [[nodiscard]] std::vector<std::string> cut_fields() const;
  /// Whether token fields are [sequences, rows, ...].
  [[nodiscard]] bool is_padded() const noexcept { return is_padded_; }
  [[nodiscard]] const std::string& path() const noexcept { return parts_.front()->path(); }

 private:
  void learn_layers();
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name) const;
  [[nodiscard]] std::vector<std::int64_t> rows_of(std::string_view name, const DumpedSample& sample,
                                                  CpLayout layout) const;
  [[noreturn]] void fail(const std::string& message, const std::string& hint = {}) const;

  std::int64_t number_;
  std::vector<std::unique_ptr<const TensorFile>> parts_;  // of each context-parallel rank
  std::int64_t rows_ = 0;                                 // of one rank
  std::int64_t sequences_ = 0;
  bool is_padded_ = false;
  FieldKinds told_;  // of counted fields
  DumpedLayers layers_;
};

}  // namespace evenkeel
