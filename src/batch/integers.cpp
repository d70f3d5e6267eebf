#include "batch/integers.hpp"

#include <span>

namespace evenkeel {

IntegerRange range_of_values(const Column& column) {
  if (column.bytes().empty()) return {};
  return with_integer_type(column.spec().dtype, [&]<typename T>(T) {
    const std::span<const T> values = column.values<T>();
    T least = values.front();
    T most = values.front();
    for (const T value : values) {
      least = std::min(least, value);
      most = std::max(most, value);
    }
    return IntegerRange{static_cast<std::int64_t>(least), static_cast<std::int64_t>(most)};
  });
}

}  // namespace evenkeel
