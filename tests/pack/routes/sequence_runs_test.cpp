#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/row_routes.hpp"
#include "pack/prefix/arbitrary_tree.hpp"
#include "pack/routes/cut_group.hpp"
#include "pack/zigzag2.hpp"

namespace evenkeel {
namespace {

using test::zigzag2;
using testing::ElementsAre;

constexpr CpGroup whole{1, CpLayout::zigzag};

/// A tree in a layout that can be split in all ways. If its sequences share nothing, it represents an
/// arbitrary micro-batch.
struct CutTree {
  PackedTreeLayout layout;
  int tp = 1;
};
CutTree arbitrary_cut_tree() {
  const CpGroup cp{*rc::gen::inRange(1, 9), *rc::gen::element(CpLayout::zigzag, CpLayout::contiguous)};
  const int tp = *rc::gen::inRange(1, 4);
  return {PackedTreeLayout(tree_of(arbitrary_samples()), 2 * std::int64_t{cp.size} * tp, cp), tp};
}
RowCut arbitrary_cut() {
  return *rc::gen::element(RowCut::zigzag, RowCut::contiguous, RowCut::flat);
}

/// For each segment of a tree, the indices of the tree rows before it in its samples.
std::vector<Tokens> rows_before_segments(const PrefixTree& tree) {
  std::vector<Tokens> before;
  for (std::int64_t s = 0; s < tree.size(); ++s) {
    Tokens& rows = before.emplace_back();
    const std::vector<std::int64_t> path = tree.path_to(s);
    for (const std::int64_t p : std::span(path).first(path.size() - 1))
      for (std::int64_t row = tree.segment(p).rows.begin; row < tree.segment(p).rows.end; ++row)
        rows.push_back(row);
  }
  return before;
}

/// Represents any layer whose state after a row depends on all rows before it and on their order.
std::uint64_t next_state(std::uint64_t state, std::int64_t row) {
  return (state * 6364136223846793005ULL + 1442695040888963407ULL) ^ static_cast<std::uint64_t>(row + 1);
}

/// Returns the state after each row of a tree that is not split.
std::vector<std::uint64_t> states_of(const PrefixTree& tree) {
  std::vector<std::uint64_t> states(static_cast<std::size_t>(tree.num_rows()));
  const std::vector<Tokens> before = rows_before_segments(tree);
  for (std::int64_t s = 0; s < tree.size(); ++s) {
    std::uint64_t state = 0;
    for (const std::int64_t row : before[static_cast<std::size_t>(s)]) state = next_state(state, row);
    for (std::int64_t row = tree.segment(s).rows.begin; row < tree.segment(s).rows.end; ++row)
      states[static_cast<std::size_t>(row)] = state = next_state(state, row);
  }
  return states;
}

TEST(SequenceRuns, begin_at_zero_or_with_the_state_of_a_run_on_another_rank) {
  const PackedLayout layout(Lengths{4, 7, 3}, 4, zigzag2);
  const std::vector<SequenceRun> first = sequence_runs(layout, RowCut::flat, {CpRank{0}});
  EXPECT_THAT(first, ElementsAre(SequenceRun{0, {0, 4}, 0, 4}, SequenceRun{1, {4, 8}, 0, 4}));
  const std::vector<SequenceRun> second = sequence_runs(layout, RowCut::flat, {CpRank{1}});
  EXPECT_THAT(second, ElementsAre(SequenceRun{1, {0, 4}, 4, 3, 0, 1, 7, 1}, SequenceRun{2, {4, 8}, 0, 3}));
}

TEST(SequenceRuns, without_tokens_need_no_state) {
  const PackedLayout layout(Lengths{2}, 4, zigzag2);
  EXPECT_THAT(sequence_runs(layout, RowCut::contiguous, {CpRank{1}}),
              ElementsAre(SequenceRun{0, {0, 2}, 2, 0}));
}

// `1 2 | 3 | 4 | 5 6 | 7`: segments 2 and 3 both continue segment 1; segments 1 and 4 continue segment 0.
TEST(SequenceRuns, of_siblings_begin_with_the_state_of_one_segment) {
  const PackedTreeLayout layout(tree_of(branching_samples()), 2, whole);
  const std::vector<SequenceRun> runs = sequence_runs(layout, RowCut::flat, {CpRank{0}});
  std::vector<std::int64_t> before;
  for (const SequenceRun& run : runs) before.push_back(run.sequence_before);
  EXPECT_THAT(before, ElementsAre(-1, 0, 1, 1, 0));
  EXPECT_EQ(runs[3].row_before, 2);
}

TEST(SequenceRuns, skip_empty_segments) {
  const std::vector<TreeNode> segments{{-1, 2}, {0, 0}, {1, 1}};
  const PackedTreeLayout layout(PrefixTree(segments, {2}), 2, whole);
  EXPECT_EQ(sequence_runs(layout, RowCut::flat, {CpRank{0}}).back(),
            (SequenceRun{2, {2, 4}, 0, 1, 0, 0, 1, 0}));
}

RC_GTEST_PROP(SequenceRuns, cover_all_rows_of_a_member_in_order, ()) {
  const CutTree cut = arbitrary_cut_tree();
  for (const RowMember member : test::members_of(cut.layout.segments(), cut.tp)) {
    std::int64_t covered = 0;
    for (const SequenceRun& run : sequence_runs(cut.layout, arbitrary_cut(), member)) {
      RC_ASSERT(run.rows.begin == covered && !run.rows.empty());
      covered = run.rows.end;
    }
    RC_ASSERT(covered == cut.layout.segments().local_rows() / cut.tp);
  }
}

RC_GTEST_PROP(SequenceRuns, give_a_recurrent_layer_the_states_of_the_uncut_one, ()) {
  const CutTree cut = arbitrary_cut_tree();
  const RowCut how = arbitrary_cut();
  const PrefixTree& tree = cut.layout.tree();
  struct Placed {
    SequenceRun run;
    std::pair<std::int64_t, std::int64_t> place;  // member, and number there
  };
  std::vector<Placed> runs;
  for (const RowMember member : test::members_of(cut.layout.segments(), cut.tp))
    for (const SequenceRun& run : sequence_runs(cut.layout, how, member))
      runs.push_back({run, {member.number(), std::ssize(runs)}});
  for (std::size_t r = runs.size(); r-- > 0;) {
    const auto of_member = [&](const Placed& p) { return p.place.first == runs[r].place.first; };
    runs[r].place.second -= std::ranges::find_if(runs, of_member) - runs.begin();
  }
  std::ranges::sort(runs, {}, [](const Placed& p) { return std::pair(p.run.sequence, p.run.first); });

  const std::vector<std::uint64_t> uncut = states_of(tree);
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> after;
  std::int64_t tokens = 0;
  for (const auto& [run, place] : runs) {
    std::uint64_t state = run.member_before < 0 ? 0 : after.at({run.member_before, run.run_before});
    for (std::int64_t i = 0; i < run.tokens; ++i, ++tokens) {
      const std::int64_t row = tree.segment(run.sequence).rows.begin + run.first + i;
      state = next_state(state, row);
      RC_ASSERT(state == uncut[static_cast<std::size_t>(row)]);
    }
    after[place] = state;
  }
  RC_ASSERT(tokens == tree.num_rows());
}

// Members may run one after another, each with its runs in order.
RC_GTEST_PROP(SequenceRuns, of_a_flat_cut_never_wait_for_a_later_one, ()) {
  const CutTree cut = arbitrary_cut_tree();
  for (const RowMember member : test::members_of(cut.layout.segments(), cut.tp)) {
    const std::vector<SequenceRun> runs = sequence_runs(cut.layout, RowCut::flat, member);
    for (std::int64_t r = 0; r < std::ssize(runs); ++r) {
      const SequenceRun& run = runs[static_cast<std::size_t>(r)];
      const bool earlier_run = run.member_before == member.number() && run.run_before < r;
      RC_ASSERT(run.member_before < member.number() || earlier_run);
    }
  }
}

RC_GTEST_PROP(SequenceRuns, name_the_row_before_in_every_cut, ()) {
  const CutTree cut = arbitrary_cut_tree();
  const RowCut how = arbitrary_cut();
  const PackedLayout& segments = cut.layout.segments();
  const test::MemberValues rows = test::rows_by_definition(segments, how, cut.tp);
  const std::vector<Tokens> before = rows_before_segments(cut.layout.tree());
  for (const RowMember member : test::members_of(segments, cut.tp)) {
    for (const SequenceRun& run : sequence_runs(cut.layout, how, member)) {
      if (run.tokens == 0) continue;
      const Tokens& above = before[static_cast<std::size_t>(run.sequence)];
      RC_ASSERT((run.member_before == -1) == (run.first == 0 && above.empty()));
      if (run.member_before == -1) continue;
      // As a row of the tree and as a row of the packed micro-batch.
      const TreeSegment& from = cut.layout.tree().segment(run.sequence_before);
      const std::int64_t row = run.first > 0 ? from.rows.begin + run.first - 1 : above.back();
      const std::int64_t packed =
          segments.cu_seqlens_padded()[static_cast<std::size_t>(run.sequence_before)] + row - from.rows.begin;
      RC_ASSERT(rows[static_cast<std::size_t>(run.member_before)].at(
                    static_cast<std::size_t>(run.row_before)) == packed);
    }
  }
}

TEST(HaloRoute, has_the_rows_before_a_run_oldest_first) {
  const PackedLayout layout(Lengths{4, 8, 4}, 4, zigzag2);
  const RowRoute<> first = halo_route(layout, RowCut::flat, {CpRank{0}}, 4);
  EXPECT_THAT(first.send_rows, ElementsAre(5, 6, 7));
  EXPECT_THAT(first.send_counts, ElementsAre(0, 3));
  EXPECT_THAT(first.receive_rows, ElementsAre());
  const RowRoute<> second = halo_route(layout, RowCut::flat, {CpRank{1}}, 4);
  EXPECT_THAT(second.receive_rows, ElementsAre(0, 1, 2));
  EXPECT_THAT(second.receive_counts, ElementsAre(3, 0));
  EXPECT_THAT(second.send_rows, ElementsAre());
}

TEST(HaloRoute, of_width_1_moves_nothing_and_of_less_is_an_error) {
  const PackedLayout layout(Lengths{8}, 4, zigzag2);
  EXPECT_THAT(halo_route(layout, RowCut::flat, {CpRank{1}}, 1).receive_rows, ElementsAre());
  EXPECT_THROW((void)halo_route(layout, RowCut::flat, {CpRank{1}}, 0), InputError);
}

TEST(HaloRoute, rejects_more_rows_than_its_integers_can_number) {
  const PackedLayout layout(Lengths{4, 4}, 4, whole);  // two runs
  constexpr std::int64_t widest = std::numeric_limits<std::int32_t>::max() / 2 + 1;
  EXPECT_NO_THROW((void)halo_route<std::int32_t>(layout, RowCut::flat, {CpRank{0}}, widest));
  EXPECT_THROW((void)halo_route<std::int32_t>(layout, RowCut::flat, {CpRank{0}}, widest + 1), InputError);
}

RC_GTEST_PROP(HaloRoute, has_the_rows_that_a_convolution_sees_before_each_run, ()) {
  const CutTree cut = arbitrary_cut_tree();
  const RowCut how = arbitrary_cut();
  const auto width = *rc::gen::inRange<std::int64_t>(1, 7);
  const PackedLayout& segments = cut.layout.segments();
  const PrefixTree& tree = cut.layout.tree();
  // Rows are identified by their index in the tree, from 1; pad rows are -1.
  test::RowValues of_rows(static_cast<std::size_t>(segments.num_rows()), -1);
  for (std::int64_t s = 0; s < tree.size(); ++s)
    for (std::int64_t i = 0; i < tree.segment(s).rows.size(); ++i)
      of_rows[static_cast<std::size_t>(segments.cu_seqlens_padded()[static_cast<std::size_t>(s)] + i)] =
          tree.segment(s).rows.begin + i + 1;
  test::MemberValues values = test::rows_by_definition(segments, how, cut.tp);
  for (test::RowValues& member : values)
    for (std::int64_t& value : member) value = of_rows[static_cast<std::size_t>(value)];

  const std::vector<Tokens> before = rows_before_segments(tree);
  std::vector<RowRoute<>> routes;
  std::vector<std::int64_t> places;
  test::MemberValues expected;
  for (const RowMember member : test::members_of(segments, cut.tp)) {
    routes.push_back(halo_route(cut.layout, how, member, width));
    test::RowValues& halo = expected.emplace_back();
    for (const SequenceRun& run : sequence_runs(cut.layout, how, member)) {
      Tokens seen = before[static_cast<std::size_t>(run.sequence)];
      for (std::int64_t i = 0; i < run.first; ++i) seen.push_back(tree.segment(run.sequence).rows.begin + i);
      for (std::int64_t k = width - 1; k > 0; --k) {
        const auto at = std::ssize(seen) - k;
        halo.push_back(run.tokens > 0 && at >= 0 ? seen[static_cast<std::size_t>(at)] + 1 : 0);
      }
    }
    places.push_back(std::ssize(halo));
  }
  RC_ASSERT(test::exchanged(values, routes, places) == expected);
}

}  // namespace
}  // namespace evenkeel
