#include "balance/context/nested_sizes.hpp"

#include <algorithm>
#include <utility>

#include "balance/context/levels.hpp"

namespace evenkeel::context {

std::vector<std::vector<std::int64_t>> nested_sizes(const Problem& problem) {
  const std::int64_t most = problem.max_size;
  std::vector<std::vector<std::int64_t>> lists{powers_of_two_up_to(most)};
  if (problem.sizes == ContextSizes::powers_of_two) return lists;
  const std::int64_t node = problem.communication.ranks_per_node;
  const auto add = [&](std::vector<std::int64_t> sizes) {
    if (problem.ranks > node)
      std::erase_if(sizes, [&](std::int64_t size) { return size < node && node % size != 0; });
    if (most == problem.ranks && sizes.back() != most) sizes.push_back(most);
    if (std::ranges::find(lists, sizes) == lists.end()) lists.push_back(std::move(sizes));
  };
  add(lists.front());
  add(most == 1 ? lists.front() : std::vector<std::int64_t>{1, most});
  for (const std::int64_t factor : {3, 5, 7}) {
    for (std::int64_t power = 1; power * factor <= most; power *= 2) {
      std::vector<std::int64_t> sizes = powers_of_two_up_to(power);
      for (std::int64_t size = power * factor; size <= most; size *= 2) sizes.push_back(size);
      add(std::move(sizes));
    }
  }
  return lists;
}

}  // namespace evenkeel::context
