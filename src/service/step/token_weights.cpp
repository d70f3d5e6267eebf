#include "service/step/token_weights.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "batch/mask.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

// The rows of a sample's loss mask.
RowRange weighed_rows(const PackedMicroBatch& micro_batch, const Column& mask, std::size_t sample) {
  if (is_counted(mask.spec().kind)) return mask.samples()[static_cast<std::int64_t>(sample)];
  if (!micro_batch.shared) return micro_batch.layout.local_range(static_cast<std::int64_t>(sample));
  return {micro_batch.shared->prediction_offsets[sample], micro_batch.shared->prediction_offsets[sample + 1]};
}

// Samples have rows one after the other; fillers, which have no loss, those behind them.
void set_weights(PackedMicroBatch& micro_batch, const Column& mask, std::string name,
                 std::span<const double> token_weights) {
  FieldSpec spec{std::move(name), DType::float32, mask.spec().kind, {}};
  Column weights = is_counted(spec.kind) ? Column::unwritten(std::move(spec), mask.samples())
                                         : Column::unwritten(std::move(spec), mask.rows());
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
  std::erase_if(micro_batch.fields, [&](const Column& c) { return c.spec().name == weights.spec().name; });
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
