#include "evenkeel/service/step_results.hpp"

#include <algorithm>

namespace evenkeel {

void StepResults::put(std::size_t m, FieldSpec spec, std::span<const std::byte> values) {
  const std::size_t row_bytes = std::max<std::size_t>(spec.row_bytes(), 1);
  Column column(std::move(spec), static_cast<std::int64_t>(values.size() / row_bytes));
  std::ranges::copy(values.first(column.bytes().size()), column.bytes().begin());
  micro_batches_[m].fields.push_back(std::move(column));
}

}  // namespace evenkeel
