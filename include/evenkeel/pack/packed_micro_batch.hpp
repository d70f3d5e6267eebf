#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/batch/field.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/pack/packed_layout.hpp"
#include "evenkeel/pack/prefix/packed.hpp"

namespace evenkeel {

/// Names of the fields that are derived from tokens and lengths unless the source supplies them.
inline constexpr std::string_view labels_field = "labels";
inline constexpr std::string_view position_ids_field = "position_ids";
inline constexpr std::string_view loss_mask_field = "loss_mask";
/// Each token's weight in the un-split loss.
inline constexpr std::string_view loss_weights_field = "loss_weights";

/// True in pad rows, which routers of experts are to leave out.
inline constexpr std::string_view padding_mask_field = "padding_mask";

/// The name of a field for what is `ahead` tokens further on than the field itself says: "labels@1" has the
/// token after the label.
[[nodiscard]] std::string name_ahead(std::string_view field, std::int64_t ahead);
/// The same, and the field's own name for 0 ahead.
[[nodiscard]] std::string name_at(std::string_view field, std::int64_t ahead);

/// With shared prefixes: the row of each response token that this CP rank predicts.
inline constexpr std::string_view prediction_rows_field = "prediction_rows";

/// How a micro-batch's samples share the sequences in its tensors. The row before a branch predicts a token
/// of every sample after it, so labels, loss mask, loss weights and fields with one row a response token
/// have one row a **prediction**: a response token whose predicting row this CP rank holds, sample after
/// sample.
struct SharedSequences {
  PackedTreeLayout tree;                            ///< its sample i is samples[i] of the micro-batch
  std::vector<SampleId> segment_sample;             ///< the sample that ends there; -1: none does
  std::vector<std::int64_t> segment_group;          ///< 0-based: segments with one root
  std::vector<std::int64_t> prediction_offsets{0};  ///< samples + 1: the predictions of sample i on this rank
  std::optional<DepthFirstSchedule> schedule = {};  ///< with prefix.schedule: dfs

  /// Predictions on this rank.
  [[nodiscard]] std::int64_t predictions() const noexcept { return prediction_offsets.back(); }
};

/// One block of column_memory() for all tensors of a micro-batch, so that one copy brings them to a device: a
/// tensor's place there is its offset here. Blocks are used again from step to step, once the last column
/// that stands in one, and whoever it was lent to, has let go.
///
/// The index says where each part was laid out. What a trainer adds, columns that grew, and columns that are
/// borrowed from elsewhere stand apart; offset_of() tells. Bytes between parts are of any value.
///
/// A copy has no block, since columns that are copied have memory of their own.
class MicroBatchArena {
 public:
  /// Of each part, and of the block's size: as devices like it.
  static constexpr std::size_t alignment = 256;

  struct Part {
    std::string name;
    std::size_t bytes = 0;
    std::size_t offset = 0;  ///< from the first byte of the block
    bool taken = false;      ///< whether there is something in it
  };

  /// No block.
  MicroBatchArena() = default;
  /// Parts of these names and bytes one after the other, uninitialized. Throws what column_memory() throws.
  explicit MicroBatchArena(std::vector<Part> parts);
  MicroBatchArena(const MicroBatchArena& /*other*/) noexcept {}
  MicroBatchArena(MicroBatchArena&& other) noexcept = default;
  MicroBatchArena& operator=(const MicroBatchArena& other) noexcept;
  MicroBatchArena& operator=(MicroBatchArena&& other) noexcept = default;
  ~MicroBatchArena() = default;

  /// The whole block; empty where there is none.
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return {block_.get(), block_ ? bytes_ : 0}; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {block_.get(), block_ ? bytes_ : 0};
  }
  /// In the order of offsets.
  [[nodiscard]] std::span<const Part> index() const noexcept { return parts_; }
  /// Where in the block these bytes begin; nothing unless they lie in it.
  [[nodiscard]] std::optional<std::size_t> offset_of(std::span<const std::byte> bytes) const noexcept;
  /// The place of the part of that name where it has exactly these bytes, else nullptr.
  [[nodiscard]] const std::byte* find_copy(std::string_view name,
                                           std::span<const std::byte> bytes) const noexcept;
  /// Keeps the block as long as the pointer stands.
  [[nodiscard]] std::shared_ptr<const std::byte> lend() const noexcept { return block_; }

  /// For who lays out: the place of a part that nobody has taken yet; nullptr where there is none of this
  /// name with so many bytes.
  [[nodiscard]] std::shared_ptr<std::byte> take(std::string_view name, std::size_t bytes) noexcept;
  /// Takes a part and writes it.
  void write(std::string_view name, std::span<const std::byte> bytes) noexcept;

 private:
  std::shared_ptr<std::byte> block_;
  std::size_t bytes_ = 0;
  std::vector<Part> parts_;
};

/// What one consumer gets for one forward-backward pass: sequences packed, aligned and cut for its CP rank.
/// Owns its tensors. A micro-batch without samples (so that all DP ranks have the same number), or whose
/// samples have no tokens, has one filler sequence, so that no tensor is ever empty: pad tokens, loss mask 0,
/// labels of label_pad. If it was padded to a shape, sequences of padding without tokens follow.
struct PackedMicroBatch {
  PackedLayout layout;
  /// Length of every sequence over the whole CP group: the tensors can be viewed as [sequences, padded_length
  /// / cp, ...]. 0 if each sequence is aligned on its own.
  std::int64_t padded_length = 0;
  CpRank cp_rank{0};
  std::vector<SampleShape>
      samples;  ///< in packed order, one a sequence unless some are shared; filler and padding have id -1
  /// Token fields with layout.local_rows() rows, sample fields with one row a sample, counted fields with the
  /// samples' own numbers of rows (Column::samples: samples + 1 offsets; filler has none) and, with shared
  /// prefixes, response-token fields with one row a prediction.
  std::vector<Column> fields;
  std::optional<SharedSequences> shared;  ///< with shared prefixes: the layout's sequences are segments
  std::optional<PackedShape> shape = {};  ///< with micro_batch.shapes: what the layout was padded to
  /// The block in which `fields` stand as they were made, with what else a device needs of the micro-batch:
  /// each under its own name, cu_seqlens and cu_seqlens_padded, and offsets_name() of fields of kind `rows`.
  MicroBatchArena arena = {};

  /// It has no real sample: its weight in the loss is 0.
  [[nodiscard]] bool empty() const noexcept;
  /// It has filler: then no row is a sample's, since there is filler only if no sample has tokens.
  [[nodiscard]] bool has_filler() const noexcept;
  /// True tokens of real samples over the whole CP group, counting shared ones once.
  [[nodiscard]] std::int64_t num_tokens() const noexcept;
  /// Rows of a field of this kind on this rank. Precondition: the kind is not counted.
  [[nodiscard]] std::int64_t rows_of(FieldKind kind) const noexcept;
  /// The field of that name, or nullptr.
  [[nodiscard]] const Column* find(std::string_view name) const noexcept;
  [[nodiscard]] Column* find(std::string_view name) noexcept;
};

/// How the sequences of a micro-batch are laid out.
struct SequenceLayout {
  std::int64_t alignment = 1;
  /// Every sequence is padded to this length, a multiple of the alignment; 0: each is aligned on its own.
  std::int64_t padded_length = 0;
  CpGroup cp;
  std::optional<PackedShape> shape = {};  ///< the micro-batch is padded to it; unset with a padded_length
};

/// A micro-batch of these samples with its layout and without fields. If the samples have no rows, one filler
/// sequence of the padded length (or the alignment) is added; then padding up to the shape, if there is one.
/// Throws as PackedLayout does.
[[nodiscard]] PackedMicroBatch lay_out(std::vector<SampleShape> samples, const SequenceLayout& sequences,
                                       CpRank cp_rank);

/// The same for samples that share the segments of a tree, whose sample i is samples[i]. A tree without rows
/// gets a filler root. complete_fields adds the rows of predictions. Throws as PackedTreeLayout does.
[[nodiscard]] PackedMicroBatch lay_out_shared(std::vector<SampleShape> samples, const PrefixTree& tree,
                                              const SequenceLayout& sequences, CpRank cp_rank);

struct DerivedFieldSettings {
  std::int64_t pad_token = 0;
  std::int64_t label_pad = -100;
  /// For modules that predict further tokens, of depths k = 1 to this: "labels@k" and "loss_mask@k" are of
  /// the token k after the label, and "input_ids@k" has the token k after the row's own. With shared prefixes
  /// each sample has its own number of labels of a depth (FieldKind::rows), and "prediction_rows@k" beside
  /// them; the tree is of PrefixTree::of_tokens with as many ahead.
  std::int64_t predict_ahead = 0;
  bool padding_mask = false;  ///< whether there is one

  /// Tokens after a run of rows that may be needed with them.
  [[nodiscard]] constexpr std::int64_t reach() const noexcept { return 1 + predict_ahead; }

  friend constexpr bool operator==(const DerivedFieldSettings&, const DerivedFieldSettings&) = default;
};
/// Sets what no source supplies: always pad rows of the tokens, position ids and, with shared prefixes, the
/// rows of predictions; labels, loss mask and what is ahead of both if the tokens are there. Existing fields
/// do not change, and fields that samples `brought` are not derived, even where they were not sent. `halo`
/// has reach() tokens for each run, those after it and, with shared prefixes, for each segment, its first
/// (see derive_tokens_ahead, and derive_labels of predictions).
void complete_fields(PackedMicroBatch& micro_batch, std::span<const FieldSpec> brought,
                     std::span<const std::int64_t> halo, const DerivedFieldSettings& options);

/// One sequence of a micro-batch, for losses and metrics that are computed by sequence (ROLL's
/// `_unpack_sequences`). A view: it must not outlive the micro-batch.
class SequenceView {
 public:
  SequenceView(const PackedMicroBatch& micro_batch, std::int64_t index) noexcept
      : micro_batch_(&micro_batch), index_(index) {}

  /// Its place in the micro-batch.
  [[nodiscard]] std::int64_t index() const noexcept { return index_; }
  [[nodiscard]] const SampleShape& sample() const noexcept {
    return micro_batch_->samples[static_cast<std::size_t>(index_)];
  }
  /// Whether it is filler.
  [[nodiscard]] bool filler() const noexcept { return sample().id == filler_sample; }
  /// Its rows in this CP rank's tensors, including alignment and padding: cu_seqlens_padded / cp.
  [[nodiscard]] RowRange rows() const noexcept { return micro_batch_->layout.local_range(index_); }

  /// Its part of local values: `row_elements` elements a row, row after row. Every field of a sequence has
  /// the same rows, so none has to be adjusted first. Precondition: `local` has all local rows of the
  /// micro-batch.
  template <typename T>
  [[nodiscard]] std::span<T> of(std::span<T> local, std::int64_t row_elements = 1) const noexcept {
    EVENKEEL_PRECONDITION(cheap, std::ssize(local) >= micro_batch_->layout.local_rows() * row_elements,
                          std::ssize(local), micro_batch_->layout.local_rows(), row_elements);
    const RowRange range = rows();
    return local.subspan(static_cast<std::size_t>(range.begin * row_elements),
                         static_cast<std::size_t>(range.size() * row_elements));
  }

 private:
  const PackedMicroBatch* micro_batch_;
  std::int64_t index_;
};

/// The sequences of a micro-batch in packed order, filler included: a random-access range of SequenceView.
[[nodiscard]] inline auto sequences_of(const PackedMicroBatch& micro_batch) {
  return std::views::iota(std::int64_t{0}, micro_batch.layout.size()) |
         std::views::transform([&micro_batch](std::int64_t i) { return SequenceView(micro_batch, i); });
}

/// Per-token values of one sample adjusted to `length` entries: cut off, or followed by `pad` (ROLL's
/// `adjust_sequence_length`), for data that did not go through the exchange. A random-access range; nothing
/// is copied. Precondition: length >= 0; `values` outlives it.
template <typename T>
[[nodiscard]] auto adjusted_to(std::span<const T> values, std::int64_t length, T pad) {
  EVENKEEL_PRECONDITION(cheap, length >= 0, length);
  return std::views::iota(std::int64_t{0}, length) | std::views::transform([values, pad](std::int64_t i) {
           return i < std::ssize(values) ? values[static_cast<std::size_t>(i)] : pad;
         });
}

}  // namespace evenkeel
