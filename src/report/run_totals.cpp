#include "report/run_totals.hpp"

#include <algorithm>

namespace evenkeel {

void RunTotals::Ratio::add(double value) noexcept {
  ++count_;
  sum_ += value;
  worst_ = std::max(worst_, value);
}

void RunTotals::add(const StepFigures& f) {
  latest = f;
  ++steps;
  samples += f.samples;
  tokens += f.tokens;
  aligned_tokens += f.aligned_tokens;
  padded_tokens += f.padded_tokens;
  micro_batches += f.micro_batches;
  lower_bound += f.micro_batches_lower_bound;
  empty += f.empty_micro_batches;
  above_cap += f.micro_batches_above_cap;
  widest = std::max(widest, f.widest_micro_batch);
  volume += f.volume;
  for (const FieldFigures& more : f.fields) {
    const auto found = std::ranges::find(fields, more.name, &FieldFigures::name);
    FieldFigures& field = found != fields.end() ? *found : fields.emplace_back(FieldFigures{more.name});
    field.changed = field.changed || more.changed;
    field.received += more.received;
    field.copied += more.copied;
    field.most_received = std::max(field.most_received, more.most_received);
  }
  column_bytes = std::max(column_bytes, f.column_bytes);
  if (f.sharing) sharing = sharing.value_or(SharingSavings{}) += *f.sharing;
  if (f.shapes) shapes = shapes.value_or(ShapeFigures{}) += *f.shapes;
  tokens_repeated_by_cap += f.tokens_repeated_by_cap;
  unshared_rows += f.unshared_rows;
  dp_before.add(f.dp_max_over_mean_before);
  dp.add(f.balance.dp_max_over_mean);
  if (f.encoder) {
    encoder_before.add(f.encoder->before);
    encoder.add(f.encoder->balanced);
  }
  micro_batch.add(f.balance.micro_batch_max_over_mean);
  step.add(f.balance.step_max_over_mean);
  seconds += f.seconds;
  waited += f.waited;
}

}  // namespace evenkeel
