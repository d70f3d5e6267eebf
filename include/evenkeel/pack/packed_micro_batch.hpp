#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "evenkeel/batch/field.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/pack/packed_layout.hpp"

namespace evenkeel {

/// Names of the fields that are derived from tokens and lengths unless the source supplies them.
inline constexpr std::string_view labels_field = "labels";
inline constexpr std::string_view position_ids_field = "position_ids";
inline constexpr std::string_view loss_mask_field = "loss_mask";
/// Each token's weight in the un-split loss, beside the loss mask.
inline constexpr std::string_view loss_weights_field = "loss_weights";

/// What one consumer is handed for one forward-backward: sequences packed, aligned and cut for its CP rank.
/// Owns its tensors. A micro-batch without samples (so that all DP ranks have the same number), and one whose
/// samples have no tokens, holds one filler sequence, so that no tensor is ever empty: pad tokens, loss mask
/// 0, labels at label_pad.
struct PackedMicroBatch {
  PackedLayout layout;
  /// Length of every sequence over the whole CP group: the tensors can be viewed as [sequences, padded_length
  /// / cp, ...]. 0 where each sequence is aligned on its own.
  std::int64_t padded_length = 0;
  CpRank cp_rank{0};
  std::vector<SampleShape> samples;  ///< one a sequence, in packed order; filler has id -1
  std::vector<Column>
      fields;  ///< token fields of layout.local_rows() rows, sample fields of one row a sequence

  /// No real sample in it: it weighs nothing.
  [[nodiscard]] bool empty() const noexcept;
  /// True tokens of real samples over the whole CP group.
  [[nodiscard]] std::int64_t num_tokens() const noexcept;
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
};

/// A micro-batch of these samples with its layout and without fields; filler of one sequence of the padded
/// length (or the alignment) is added when the samples have no rows. Throws as PackedLayout does.
[[nodiscard]] PackedMicroBatch lay_out(std::vector<SampleShape> samples, const SequenceLayout& sequences,
                                       CpRank cp_rank);

/// Sets what no source supplies: pad rows of the tokens, position ids always; labels and loss mask where the
/// tokens are. Fields that are there already stay as they are. `halo` has the token after each run (see
/// derive_labels).
struct DerivedFieldOptions {
  std::int64_t pad_token = 0;
  std::int64_t label_pad = -100;
};
void complete_fields(PackedMicroBatch& micro_batch, std::span<const std::int64_t> halo,
                     const DerivedFieldOptions& options);

}  // namespace evenkeel
