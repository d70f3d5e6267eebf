#include <algorithm>

#include "evenkeel/pack/prefix/packed.hpp"

namespace evenkeel {

BranchStates branch_states(const PrefixTree& tree) {
  const auto size = static_cast<std::size_t>(tree.size());
  BranchStates states{std::vector<std::int64_t>(size, -1), std::vector<std::int64_t>(size, 0),
                      std::vector<std::int64_t>(size, -1)};
  for (std::int64_t s = 0; s < tree.size(); ++s) {
    const std::int64_t parent = tree.segment(s).parent;
    if (parent < 0) continue;
    const bool is_passed_over = tree.segment(parent).rows.empty();
    const std::int64_t from = is_passed_over ? states.from[static_cast<std::size_t>(parent)] : parent;
    states.from[static_cast<std::size_t>(s)] = from;
    if (from < 0 || tree.segment(s).rows.empty()) continue;
    ++states.uses[static_cast<std::size_t>(from)];
    states.last_use[static_cast<std::size_t>(from)] = s;
  }
  std::vector<std::int64_t> freed_after(size, 0);
  std::int64_t kept = 0;
  for (std::size_t s = 0; s < size; ++s) {
    if (states.uses[s] > 0) {
      ++kept;
      ++freed_after[static_cast<std::size_t>(states.last_use[s])];
    }
    states.most_kept = std::max(states.most_kept, kept);
    kept -= freed_after[s];
  }
  return states;
}

}  // namespace evenkeel
