#include "report/run_totals.hpp"

#include <algorithm>

namespace evenkeel {

void RunTotals::add(const StepFigures& f) {
  latest = f;
  passes.add(f);
  for (const FieldFigures& more : f.fields) {
    const auto found = std::ranges::find(fields, more.name, &FieldFigures::name);
    FieldFigures& field = found != fields.end() ? *found : fields.emplace_back(FieldFigures{more.name});
    field.changed = field.changed || more.changed;
    field.received += more.received;
    field.copied += more.copied;
    field.most_received = std::max(field.most_received, more.most_received);
  }
  if (f.sharing) sharing = sharing.value_or(SharingSavings{}) += *f.sharing;
  if (f.shapes) shapes = shapes.value_or(ShapeFigures{}) += *f.shapes;
  if (f.strategy) strategy = strategy.value_or(StrategyFigures{f.strategy->meet}) += *f.strategy;
}

}  // namespace evenkeel
