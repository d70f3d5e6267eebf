#pragma once

#include <span>
#include <vector>

#include "evenkeel/batch/field.hpp"
#include "plan/transfer/carried_fields.hpp"

namespace evenkeel {

/// A consumer's place in the pipeline.
struct PipelineStage {
  int rank = 0;
  int size = 1;

  [[nodiscard]] constexpr bool first() const noexcept { return rank == 0; }
  [[nodiscard]] constexpr bool last() const noexcept { return rank == size - 1; }
};

/// The fields, as positions in `fields`, that a pipeline stage is sent: what is for it alone or for all and,
/// of the rest, the first needs tokens, the last every field (labels and loss mask follow from the
/// tokens), all need positions where the source supplies them. A middle stage usually gets nothing:
/// cu_seqlens and positions follow from the plan.
[[nodiscard]] std::vector<std::size_t> fields_for_stage(std::span<const CarriedField> fields,
                                                        PipelineStage stage);

/// A field on its way from owners to consumers.
struct FieldTransfer {
  FieldSpec spec;                         ///< of the consumer's column
  std::size_t source = 0;                 ///< the carried field
  FieldKind moved_as = FieldKind::token;  ///< token: with segments; the others: with samples
  /// For what moves with response tokens out of a token field: the sample's row prompt + shift + i is of
  /// response token i.
  std::int64_t shift = 0;
  /// Whether labels are derived from it, so that tokens of other CP ranks come with it.
  bool with_halo = false;
};

/// The fields that a pipeline stage is sent, in the order in which they travel. With shared prefixes, what a
/// row says of the token after it (labels, loss mask) moves with response tokens where samples
/// bring it. Without those of which equal values lie once, which have a way of their own.
[[nodiscard]] std::vector<FieldTransfer> field_transfers(std::span<const CarriedField> fields,
                                                         PipelineStage stage, bool shared);

}  // namespace evenkeel
