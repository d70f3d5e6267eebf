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
/// Each token's weight in the loss of the whole mini-batch.
inline constexpr std::string_view loss_weights_field = "loss_weights";

/// True in pad rows, which routers of experts should ignore.
inline constexpr std::string_view padding_mask_field = "padding_mask";

/// Returns the name of a field about the token that is `ahead` tokens after the one that the field itself is
/// about: "labels@1" contains the token after the label.
[[nodiscard]] std::string prediction_field_name(std::string_view field, std::int64_t ahead);
/// Same as prediction_field_name(), but returns the field's own name if `ahead` is 0.
[[nodiscard]] std::string field_name_at_depth(std::string_view field, std::int64_t ahead);

/// With shared prefixes: the row of each response token that this CP rank predicts.
inline constexpr std::string_view prediction_rows_field = "prediction_rows";

/// How a micro-batch's samples share the sequences in its tensors. The row before a branch predicts a token
/// of every sample after it. Therefore, labels, loss mask, loss weights and fields with one row per response
/// token have one row per **prediction**: a response token whose predicting row this CP rank holds, sample
/// after sample.
struct SharedSequences {
  PackedTreeLayout tree;  ///< sample i of the tree is samples[i] of the micro-batch
  /// By segment: the first sample that ends there; -1 if the segment has children.
  std::vector<SampleId> segment_sample;
  std::vector<std::int64_t> segment_group;  ///< 0-based; equal for segments with the same root
  std::vector<std::int64_t> prediction_offsets{
      0};  ///< samples + 1 offsets: the predictions of each sample on this rank
  std::optional<DepthFirstSchedule> schedule = {};  ///< set with prefix.schedule: dfs

  /// Returns the number of predictions on this rank.
  [[nodiscard]] std::int64_t predictions() const noexcept { return prediction_offsets.back(); }
};

/// One block of column_memory() for all tensors of a micro-batch, so that a single copy moves them to a
/// device, where each tensor has the same offset as here. Blocks are reused in later steps once the last
/// column in them has been destroyed and all borrowers have released them.
///
/// The index lists where each part was laid out. Columns that the trainer adds, that grew, or that are
/// borrowed from elsewhere are not in the block; use offset_of() to find out. Bytes between parts have
/// arbitrary values.
///
/// A copy does not have a block, since copied columns get separate memory.
class MicroBatchArena {
 public:
  /// Alignment in bytes of each part and of the block's size. Sufficient for devices.
  static constexpr std::size_t alignment = 256;

  struct Part {
    std::string name;
    std::size_t bytes = 0;
    std::size_t offset = 0;  ///< offset from the first byte of the block
    bool taken = false;      ///< whether the part is in use
  };

  /// Makes an arena without a block.
  MicroBatchArena() = default;
  /// Makes uninitialized parts with these names and sizes, one after another. Throws the exceptions of
  /// column_memory().
  explicit MicroBatchArena(std::vector<Part> parts);
  MicroBatchArena(const MicroBatchArena& /*other*/) noexcept {}
  MicroBatchArena(MicroBatchArena&& other) noexcept = default;
  MicroBatchArena& operator=(const MicroBatchArena& other) noexcept;
  MicroBatchArena& operator=(MicroBatchArena&& other) noexcept = default;
  ~MicroBatchArena() = default;

  /// Returns the whole block; empty if there is none.
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return {block_.get(), block_ ? bytes_ : 0}; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {block_.get(), block_ ? bytes_ : 0};
  }
  /// Returns the parts in the order of offsets.
  [[nodiscard]] std::span<const Part> index() const noexcept { return parts_; }
  /// Returns the offset of these bytes in the block; nullopt unless all of them are in it.
  [[nodiscard]] std::optional<std::size_t> offset_of(std::span<const std::byte> bytes) const noexcept;
  /// Returns the place of the part with this name if it contains exactly these bytes, otherwise nullptr.
  [[nodiscard]] const std::byte* find_copy(std::string_view name,
                                           std::span<const std::byte> bytes) const noexcept;
  /// Returns a pointer that keeps the block alive.
  [[nodiscard]] std::shared_ptr<const std::byte> lend() const noexcept { return block_; }

  /// For code that lays out micro-batches: returns the place of a part that has not been taken yet; nullptr
  /// if there is none with this name and size.
  [[nodiscard]] std::shared_ptr<std::byte> take(std::string_view name, std::size_t bytes) noexcept;
  /// Takes a part and writes it.
  void write(std::string_view name, std::span<const std::byte> bytes) noexcept;

 private:
  std::shared_ptr<std::byte> block_;
  std::size_t bytes_ = 0;
  std::vector<Part> parts_;
};

/// The data that one consumer gets for one forward-backward pass: sequences packed, aligned and cut for its
/// CP rank. Owns its tensors. If a micro-batch does not have samples (since all DP ranks have the same number
/// of micro-batches), or its samples do not have rows, it contains one filler sequence, so tensors are never
/// empty: pad tokens with loss mask 0 and labels of label_pad. If it was padded to a shape, sequences of
/// padding without tokens follow.
struct PackedMicroBatch {
  PackedLayout layout;
  /// Length of every sequence over the whole CP group, if the tensors can be viewed as [sequences,
  /// padded_length / cp, ...]; 0 if each sequence is aligned separately.
  std::int64_t padded_length = 0;
  CpRank cp_rank{0};
  std::vector<SampleShape>
      samples;  ///< in packed order, one per sequence unless some are shared; filler and padding have id -1
  /// Token fields with layout.local_rows() rows, sample fields with one row per sample, counted fields with
  /// the samples' own numbers of rows (Column::samples: samples + 1 offsets; filler has no rows) and, with
  /// shared prefixes, response-token fields with one row per prediction.
  std::vector<Column> fields;
  std::optional<SharedSequences> shared;  ///< set with shared prefixes: the layout's sequences are segments
  /// Set with micro_batch.shapes: the shape to which the layout was padded.
  std::optional<PackedShape> shape = {};
  /// The block in which `fields` were created, along with other data that a device needs of the micro-batch,
  /// each under its own name: cu_seqlens, cu_seqlens_padded, and offsets_name() of fields of kind `rows`.
  MicroBatchArena arena = {};

  /// Returns whether there is no real sample, so that the micro-batch's weight in the loss is 0.
  [[nodiscard]] bool empty() const noexcept;
  /// Returns whether there is filler. In that case, no row belongs to a sample, since there is filler only if
  /// no sample has tokens.
  [[nodiscard]] bool has_filler() const noexcept;
  /// Returns the number of true tokens of real samples over the whole CP group, counting shared ones once.
  [[nodiscard]] std::int64_t num_tokens() const noexcept;
  /// Returns the number of rows of a field of this kind on this rank. Precondition: the kind is not counted.
  [[nodiscard]] std::int64_t rows_of(FieldKind kind) const noexcept;
  /// Returns the field with this name, or nullptr.
  [[nodiscard]] const Column* find(std::string_view name) const noexcept;
  [[nodiscard]] Column* find(std::string_view name) noexcept;
};

/// How the sequences of a micro-batch are laid out.
struct SequenceLayout {
  std::int64_t alignment = 1;
  /// The length to which every sequence is padded, a multiple of the alignment; 0 if each is aligned
  /// separately.
  std::int64_t padded_length = 0;
  CpGroup cp;
  /// The shape to which the micro-batch is padded; unset with a padded_length.
  std::optional<PackedShape> shape = {};
};

/// Returns a micro-batch of these samples with its layout and without fields. If the samples do not have
/// rows, adds one filler sequence of the padded length (or the alignment). Then adds padding up to the shape,
/// if there is one. Throws the errors of PackedLayout.
[[nodiscard]] PackedMicroBatch lay_out(std::vector<SampleShape> samples, const SequenceLayout& sequences,
                                       CpRank cp_rank);

/// Same as lay_out(), but for samples that share the segments of a tree, whose sample i is samples[i].
/// Ignores the padded length and the shape. A tree without rows gets a filler root. complete_fields() adds
/// the rows of predictions. Throws the errors of PackedTreeLayout.
[[nodiscard]] PackedMicroBatch lay_out_shared(std::vector<SampleShape> samples, const PrefixTree& tree,
                                              const SequenceLayout& sequences, CpRank cp_rank);

struct DerivedFieldSettings {
  std::int64_t pad_token = 0;
  std::int64_t label_pad = -100;
  /// Number of additional depths for modules that predict further tokens. For depths k = 1 to this number,
  /// "labels@k" and "loss_mask@k" are about the k-th token after the label, and "input_ids@k" contains the
  /// k-th token after the row's own. With shared prefixes, each sample has its own number of labels per depth
  /// (FieldKind::rows), along with "prediction_rows@k"; the tree must be made by PrefixTree::from_tokens with
  /// the same number of tokens ahead.
  std::int64_t predict_ahead = 0;
  bool padding_mask = false;  ///< whether to derive a padding mask

  /// Returns the number of tokens after a run of rows that may be needed with the run.
  [[nodiscard]] constexpr std::int64_t reach() const noexcept { return 1 + predict_ahead; }

  friend constexpr bool operator==(const DerivedFieldSettings&, const DerivedFieldSettings&) = default;
};
/// Adds the fields that the source does not supply: position ids, a padding mask if it is set in `options`
/// and, with shared prefixes, the rows of predictions; and, if the tokens are present, labels, loss mask and
/// the fields of further depths (predict_ahead). Also sets the pad rows of the tokens. Other existing fields
/// do not change, and fields that samples `brought` are not derived, even on ranks to which they were not
/// sent. `halo` contains the reach() tokens that follow each run and, with shared prefixes, the first reach()
/// tokens of each segment (see derive_tokens_ahead() and, in predictions.hpp, derive_labels()).
void complete_fields(PackedMicroBatch& micro_batch, std::span<const FieldSpec> brought,
                     std::span<const std::int64_t> halo, const DerivedFieldSettings& options);

/// One sequence of a micro-batch, for losses and metrics that are computed per sequence (ROLL's
/// `_unpack_sequences`). A view: it must not outlive the micro-batch. With shared prefixes, a sequence is a
/// segment, and sample() and is_filler() must not be called.
class SequenceView {
 public:
  SequenceView(const PackedMicroBatch& micro_batch, std::int64_t index) noexcept
      : micro_batch_(&micro_batch), index_(index) {}

  /// Returns the sequence's position in the micro-batch.
  [[nodiscard]] std::int64_t index() const noexcept { return index_; }
  [[nodiscard]] const SampleShape& sample() const noexcept {
    return micro_batch_->samples[static_cast<std::size_t>(index_)];
  }
  /// Returns whether the sequence is filler.
  [[nodiscard]] bool is_filler() const noexcept { return sample().id == filler_sample; }
  /// Returns the sequence's rows in this CP rank's tensors, including alignment and padding:
  /// cu_seqlens_padded / cp.
  [[nodiscard]] RowRange rows() const noexcept { return micro_batch_->layout.local_range(index_); }

  /// Returns the sequence's part of local values, with `row_elements` elements per row, row after row. Every
  /// field of a sequence has the same rows, so no adjustment is needed. Precondition: `local` has all local
  /// rows of the micro-batch.
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

/// Returns the sequences of a micro-batch in packed order, including filler, as a random-access range of
/// SequenceView.
[[nodiscard]] inline auto sequences_of(const PackedMicroBatch& micro_batch) {
  return std::views::iota(std::int64_t{0}, micro_batch.layout.size()) |
         std::views::transform([&micro_batch](std::int64_t i) { return SequenceView(micro_batch, i); });
}

}  // namespace evenkeel
