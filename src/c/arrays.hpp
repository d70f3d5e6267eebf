#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "c/failures.hpp"
#include "evenkeel/balance/partition.hpp"

namespace evenkeel::c {

/// Returns the values of a C array. Throws WrongArgument for an invalid `count`, and for NULL if the array is
/// not empty. `name` is the name of the argument.
template <typename T>
[[nodiscard]] std::span<T> array_of(T* first, std::int64_t count, const char* name) {
  require_list(first, count, name);
  return {first, static_cast<std::size_t>(count)};
}

/// Writes the items and offsets of a partition to arrays that the caller has allocated.
inline void write_partition(const Partition& partition, std::int64_t* items, std::int64_t* offsets) {
  std::ranges::copy(partition.items(), items);
  offsets[0] = 0;
  for (std::int64_t g = 0; g < partition.size(); ++g) offsets[g + 1] = offsets[g] + std::ssize(partition[g]);
}

/// Returns the partition that `items` and `offsets` describe. Throws WrongArgument for NULL or a negative
/// `count` or `k`, and InputError for invalid offsets.
[[nodiscard]] inline Partition partition_of(const std::int64_t* items, std::int64_t count,
                                            const std::int64_t* offsets, std::int64_t k) {
  const std::span<const std::int64_t> all = array_of(items, count, "items");
  if (k < 0) throw WrongArgument("argument k", "is " + std::to_string(k) + "; it must be at least 0");
  require_list(offsets, k, "offsets");
  require(offsets, "offsets");
  return {{all.begin(), all.end()}, {offsets, offsets + k + 1}};
}

}  // namespace evenkeel::c
