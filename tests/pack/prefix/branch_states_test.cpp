#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "evenkeel/pack/prefix/packed.hpp"
#include "pack/prefix/arbitrary_groups.hpp"
#include "pack/prefix/arbitrary_tree.hpp"

namespace evenkeel {
namespace {
namespace states_at_branches {

using testing::ElementsAre;

// 1 2 | 3 | 4 | 5 6 | 7
TEST(BranchStates, identify_the_continuing_state_and_when_it_can_be_freed) {
  const BranchStates states = branch_states(tree_of(branching_samples()));
  EXPECT_THAT(states.from, ElementsAre(-1, 0, 1, 1, 0));
  EXPECT_THAT(states.uses, ElementsAre(2, 2, 0, 0, 0));
  EXPECT_THAT(states.last_use, ElementsAre(4, 3, -1, -1, -1));
  EXPECT_EQ(states.peak_kept, 2);
}

TEST(BranchStates, go_through_a_segment_without_tokens) {
  const std::vector<TreeNode> segments{{-1, 3}, {0, 0}, {1, 2}, {1, 4}};
  const BranchStates states = branch_states(PrefixTree(segments, {2, 3}));
  EXPECT_THAT(states.from, ElementsAre(-1, 0, 0, 0));
  EXPECT_THAT(states.uses, ElementsAre(2, 0, 0, 0));
  EXPECT_THAT(states.last_use, ElementsAre(3, -1, -1, -1));
}

/// Visits all segments in order with no more states than announced.
void compute_depth_first(const PrefixTree& tree, const BranchStates& states) {
  std::set<std::int64_t> kept;
  std::vector<std::int64_t> uses(states.from.size(), 0);
  std::size_t most = 0;
  for (std::int64_t s = 0; s < tree.size(); ++s) {
    std::int64_t before = tree.segment(s).parent;  // by definition: the last token before it in its samples
    while (before >= 0 && tree.segment(before).rows.empty()) before = tree.segment(before).parent;
    RC_ASSERT(states.from[static_cast<std::size_t>(s)] == before);
    if (!tree.segment(s).rows.empty() && before >= 0) {
      RC_ASSERT(kept.contains(before));
      ++uses[static_cast<std::size_t>(before)];
    }
    if (states.uses[static_cast<std::size_t>(s)] > 0) kept.insert(s);
    most = std::max(most, kept.size());
    std::erase_if(kept, [&](std::int64_t of) { return states.last_use[static_cast<std::size_t>(of)] == s; });
  }
  RC_ASSERT(kept.empty());
  RC_ASSERT(uses == states.uses);
  RC_ASSERT(static_cast<std::int64_t>(most) == states.peak_kept);
}

RC_GTEST_PROP(BranchStates, are_there_whenever_a_segment_needs_one_and_no_longer, ()) {
  const PrefixTree tree = tree_of(arbitrary_samples());
  compute_depth_first(tree, branch_states(tree));
  const PrefixTree groups = PrefixTree::from_groups(arbitrary_groups());  // whose prefixes may be empty
  compute_depth_first(groups, branch_states(groups));
}

}  // namespace states_at_branches
}  // namespace
}  // namespace evenkeel
