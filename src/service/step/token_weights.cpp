#include "service/step/token_weights.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "batch/mask.hpp"
#include "evenkeel/base/assertions.hpp"
#include "pack/micro_batch/columns_to_come.hpp"

namespace evenkeel {
namespace {

// The rows of a sample's loss mask.
RowRange weighed_rows(const PackedMicroBatch& micro_batch, const Column& mask, std::size_t sample) {
  if (is_counted(mask.spec().kind)) return mask.samples()[static_cast<std::int64_t>(sample)];
  if (!micro_batch.shared) return micro_batch.layout.local_range(static_cast<std::int64_t>(sample));
  return {micro_batch.shared->prediction_offsets[sample], micro_batch.shared->prediction_offsets[sample + 1]};
}

// That of an earlier pass is written over, unless others may still read it.
Column column_for_weights(Column* before, const ColumnToCome& weights, MicroBatchArena& arena) {
  const bool is_as_it_was = before != nullptr && !before->is_borrowed() && before->spec() == weights.spec &&
                            before->rows() == weights.rows && before->samples() == weights.samples;
  return is_as_it_was ? std::move(*before) : weights.made_in(arena);
}

// Samples have rows one after the other; fillers, which have no loss, those behind them.
void set_weights(PackedMicroBatch& micro_batch, const Column& mask, std::string name,
                 std::span<const double> token_weights) {
  Column* const before = micro_batch.find(name);
  Column weights =
      column_for_weights(before, weights_of(ColumnToCome::like(mask), std::move(name)), micro_batch.arena);
  const std::span<float> values = weights.values<float>();
  std::int64_t written = 0;
  for (std::size_t i = 0; i < token_weights.size(); ++i) {
    const RowRange rows = weighed_rows(micro_batch, mask, i);
    EVENKEEL_INVARIANT(cheap, rows.begin == written, rows.begin, written);
    write_where_set(
        mask, rows, static_cast<float>(token_weights[i]),
        values.subspan(static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(rows.size())));
    written = rows.end;
  }
  std::ranges::fill(values.subspan(static_cast<std::size_t>(written)), 0.0F);
  if (before != nullptr)
    micro_batch.fields.erase(micro_batch.fields.begin() + (before - micro_batch.fields.data()));
  micro_batch.fields.push_back(std::move(weights));
}

}  // namespace

void set_token_weights(PackedMicroBatch& micro_batch, const MicroBatchLoss& loss) {
  if (const Column* mask = micro_batch.find(loss_mask_field))
    set_weights(micro_batch, *mask, std::string(loss_weights_field), loss.token_weights);
  for (std::size_t d = 0; d < loss.token_weights_ahead.size(); ++d) {
    const auto depth = static_cast<std::int64_t>(d) + 1;
    if (const Column* mask = micro_batch.find(name_ahead(loss_mask_field, depth)))
      set_weights(micro_batch, *mask, name_ahead(loss_weights_field, depth), loss.token_weights_ahead[d]);
  }
}

}  // namespace evenkeel
