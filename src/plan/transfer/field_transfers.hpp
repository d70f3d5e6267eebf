#pragma once

#include <span>
#include <vector>

#include "evenkeel/batch/field.hpp"
#include "plan/transfer/carried_fields.hpp"

namespace evenkeel {

/// Position of a consumer in the pipeline.
struct PipelineStage {
  int rank = 0;
  int size = 1;

  [[nodiscard]] constexpr bool is_first() const noexcept { return rank == 0; }
  [[nodiscard]] constexpr bool is_last() const noexcept { return rank == size - 1; }
};

/// Returns the fields that a pipeline stage gets, as positions in `fields`:
/// - the fields for this stage alone or for all stages;
/// - of the other fields, the first stage gets the tokens, the last stage gets all fields (including tokens,
///   from which labels and loss mask are derived), and every stage gets positions if the source supplies
///   them.
/// A middle stage usually gets no fields: cu_seqlens and positions follow from the plan.
[[nodiscard]] std::vector<std::size_t> fields_for_stage(std::span<const CarriedField> fields,
                                                        PipelineStage stage);

/// The transfer of one field from owners to consumers.
struct FieldTransfer {
  FieldSpec spec;          ///< spec of the consumer's column
  std::size_t source = 0;  ///< position in the list of CarriedFields
  /// `token` if rows move with segments; any other kind if they move with samples.
  FieldKind moved_as = FieldKind::token;
  /// Row offset for a token field that moves with response tokens: response token i takes the sample's row
  /// prompt + shift + i.
  std::int64_t shift = 0;
  /// Whether labels are derived from this field, which requires tokens that other CP ranks hold (the halo).
  bool needs_halo = false;
};

/// Returns the transfers of the fields that a pipeline stage gets, in transfer order. With shared prefixes,
/// fields whose rows describe the next token (labels, loss mask) move with response tokens if samples supply
/// them. Fields that store equal values once are not included, since exchange/samples/value_exchange moves
/// them.
[[nodiscard]] std::vector<FieldTransfer> field_transfers(std::span<const CarriedField> fields,
                                                         PipelineStage stage, bool shared);

}  // namespace evenkeel
