#pragma once

#include <vector>

#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel::test {

/// Returns 1, 2, 4, ... 2^40: the largest cost is above the sum of the others.
inline std::vector<Cost> powers_of_two() {
  std::vector<Cost> costs;
  for (int power = 0; power <= 40; ++power) costs.push_back(Cost{1} << power);
  return costs;
}

inline std::vector<Cost> joined(std::vector<Cost> left, const std::vector<Cost>& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

}  // namespace evenkeel::test
