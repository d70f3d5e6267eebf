#include "plan/transfer/transfer_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "evenkeel/pack/packed_layout.hpp"
#include "plan/assign/dp_assignment.hpp"
#include "plan/transfer/field_transfers.hpp"
#include "support/assigned_samples.hpp"
#include "support/made_up_table.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing_support::made_up_table;
using testing_support::samples_to_dp_ranks;

SequenceCut any_cut() {
  SequenceCut cut;
  cut.cp = {*rc::gen::inRange(1, 6), *rc::gen::element(CpLayout::zigzag, CpLayout::contiguous)};
  cut.length = *rc::gen::inRange<std::int64_t>(0, 70);
  cut.rows = {0, cut.length};
  cut.prompt = *rc::gen::inRange<std::int64_t>(0, cut.length + 1);
  cut.aligned_length = align_up(cut.length, cut.cp.chunks() * *rc::gen::inRange<std::int64_t>(1, 4));
  return cut;
}

std::vector<RowCopy> moves_of(const RowCopies& moves) {
  return {moves.begin(), moves.end()};
}

TEST(RowsToMove, zigzag_gives_a_rank_its_two_chunks_without_padding) {
  // 10 tokens aligned to 12, split into 4 chunks of 3: rank 0 has [0,3) and [9,12), of which [9,10) are true
  // tokens.
  const SequenceCut cut{4, 10, {0, 10}, 12, {2, CpLayout::zigzag}, CpRank{0}};
  EXPECT_THAT(moves_of(rows_to_copy(FieldKind::token, cut)),
              ElementsAre(RowCopy{{0, 3}, 0}, RowCopy{{9, 10}, 3}));
  EXPECT_THAT(moves_of(halo_to_copy(cut)), ElementsAre(RowCopy{{3, 4}, 0}));
  // Response tokens 4..9 are at the rows that predict them, 3..8: none is at rows 0..2, and row 9 predicts
  // nothing.
  EXPECT_THAT(moves_of(rows_to_copy(FieldKind::response_token, cut)), ElementsAre());
}

TEST(RowsToMove, response_tokens_are_shifted_one_row_like_labels) {
  const SequenceCut cut{4, 10, {0, 10}, 12, {2, CpLayout::zigzag}, CpRank{1}};
  EXPECT_THAT(moves_of(rows_to_copy(FieldKind::token, cut)), ElementsAre(RowCopy{{3, 9}, 0}));
  EXPECT_THAT(moves_of(rows_to_copy(FieldKind::response_token, cut)), ElementsAre(RowCopy{{0, 6}, 0}));
  EXPECT_THAT(moves_of(halo_to_copy(cut)), ElementsAre(RowCopy{{9, 10}, 0}));
}

TEST(RowsToMove, the_first_token_of_a_sequence_is_not_predicted) {
  const SequenceCut cut{0, 3, {0, 3}, 3, {1, CpLayout::zigzag}, CpRank{0}};
  EXPECT_THAT(moves_of(rows_to_copy(FieldKind::response_token, cut)), ElementsAre(RowCopy{{1, 3}, 0}));
}

TEST(RowsToMove, an_empty_sequence_has_only_its_sample_row) {
  const SequenceCut cut{0, 0, {0, 0}, 0, {2, CpLayout::zigzag}, CpRank{1}};
  EXPECT_EQ(rows_to_copy(FieldKind::token, cut).size(), 0U);
  EXPECT_EQ(halo_to_copy(cut).size(), 0U);
  EXPECT_THAT(moves_of(rows_to_copy(FieldKind::sample, cut)), ElementsAre(RowCopy{{0, 1}, 0}));
}

RC_GTEST_PROP(RowsToMove, all_cp_ranks_together_get_every_row_exactly_once, ()) {
  SequenceCut cut = any_cut();
  std::vector<int> tokens(static_cast<std::size_t>(cut.length), 0);
  std::vector<int> responses(static_cast<std::size_t>(cut.length - cut.prompt), 0);
  for (int r = 0; r < cut.cp.size; ++r) {
    cut.rank = CpRank{r};
    for (const RowCopy& m : rows_to_copy(FieldKind::token, cut)) {
      for (std::int64_t row = m.source.begin; row < m.source.end; ++row)
        ++tokens[static_cast<std::size_t>(row)];
    }
    for (const RowCopy& m : rows_to_copy(FieldKind::response_token, cut)) {
      for (std::int64_t row = m.source.begin; row < m.source.end; ++row)
        ++responses[static_cast<std::size_t>(row)];
    }
  }
  RC_ASSERT(tokens == std::vector<int>(tokens.size(), 1));
  std::vector<int> expected(responses.size(), 1);
  if (cut.prompt == 0 && !expected.empty()) expected[0] = 0;
  RC_ASSERT(responses == expected);
}

RC_GTEST_PROP(RowsToMove, token_rows_agree_with_the_packed_layouts_runs, ()) {
  SequenceCut cut = any_cut();
  const std::int64_t alignment = std::max<std::int64_t>(cut.aligned_length, cut.cp.chunks());
  const std::vector<std::int64_t> lengths{cut.length};
  const PackedLayout layout(lengths, alignment, cut.cp);
  for (int r = 0; r < cut.cp.size; ++r) {
    cut.rank = CpRank{r};
    std::vector<RowCopy> expected;
    for (const PackedRun& run : packed_runs(layout, cut.rank)) expected.push_back({run.sequence, run.local});
    RC_ASSERT(moves_of(rows_to_copy(FieldKind::token, cut)) == expected);
  }
}

RC_GTEST_PROP(RowsToMove, the_halo_is_the_token_after_each_run_that_continues_on_another_rank, ()) {
  SequenceCut cut = any_cut();
  for (int r = 0; r < cut.cp.size; ++r) {
    cut.rank = CpRank{r};
    std::map<std::int64_t, std::int64_t> halo;
    for (const RowCopy& m : halo_to_copy(cut)) halo[m.target] = m.source.begin;
    std::int64_t run = 0;
    for (const RowCopy& m : rows_to_copy(FieldKind::token, cut)) {
      RC_ASSERT(halo.contains(run) == (m.source.end < cut.length));
      if (halo.contains(run)) RC_ASSERT(halo.at(run) == m.source.end);
      ++run;
    }
  }
}

RC_GTEST_PROP(RowsToMove, a_halo_has_the_existing_tokens_after_each_run, ()) {
  SequenceCut cut = any_cut();
  const auto reach = *rc::gen::inRange<std::int64_t>(1, 7);
  for (int r = 0; r < cut.cp.size; ++r) {
    cut.rank = CpRank{r};
    std::vector<RowCopy> expected;
    std::int64_t run = 0;
    for (const RowCopy& m : rows_to_copy(FieldKind::token, cut)) {
      const std::int64_t end = std::min(m.source.end + reach, cut.rows.end);
      if (end > m.source.end) expected.push_back({{m.source.end, end}, run * reach});
      ++run;
    }
    RC_ASSERT(moves_of(halo_to_copy(cut, reach)) == expected);
  }
}

// A prompt of 2 in 4 rows, where rank 0 has rows 0 and 3, and a response of 3.
TEST(RowsToMove, the_first_token_of_a_branch_is_sent_to_the_rank_that_predicts_it) {
  SequenceCut prompt{2, 5, {0, 2}, 4, {2, CpLayout::zigzag}, CpRank{1}};
  SequenceCut response{2, 5, {2, 5}, 4, {2, CpLayout::zigzag}, CpRank{1}};
  EXPECT_THAT(moves_of(branch_to_copy(prompt, response)), ElementsAre(RowCopy{{2, 3}, 0}));
  prompt.rank = response.rank = CpRank{0};
  EXPECT_THAT(moves_of(branch_to_copy(prompt, response)), ElementsAre());
  prompt = {4, 7, {0, 4}, 4, {2, CpLayout::zigzag}, CpRank{0}};
  response = {4, 7, {4, 7}, 4, {2, CpLayout::zigzag}, CpRank{0}};
  EXPECT_THAT(moves_of(branch_to_copy(prompt, response)), ElementsAre()) << "rank 0 has both";
  prompt.cp = response.cp = {2, CpLayout::contiguous};
  prompt.rank = response.rank = CpRank{1};
  EXPECT_THAT(moves_of(branch_to_copy(prompt, response)), ElementsAre(RowCopy{{4, 5}, 0}));
}

// Conservation over all ranks, in one process: what every owner sends to each DP rank is what that DP rank
// expects from it, in the same order, and every sample is sent to its DP rank once.
RC_GTEST_PROP(TransferPlan, senders_and_receivers_agree_for_all_ranks, ()) {
  const int world = *rc::gen::inRange(1, 10);
  PlanSettings settings;
  settings.dp = *rc::gen::inRange(1, world + 1);
  const LengthTable table = made_up_table(*rc::gen::inRange<std::int64_t>(0, 60), world);
  const IdGroups<EntryId> shares(samples_to_dp_ranks(table, settings));
  std::vector<ContextGroup> groups;
  for (int r = 0; r < settings.dp; ++r) groups.push_back(settings.context_of(DpRank{r}));
  std::vector<TransferPlan<EntryId>> plans;
  for (int rank = 0; rank < world; ++rank) {
    const DataPlace place{rank % settings.dp};
    plans.push_back(plan_transfers(table, shares, groups, {WorldRank{rank}, place, world}));
  }
  std::int64_t received = 0;
  for (int consumer = 0; consumer < settings.dp; ++consumer) {
    for (int owner = 0; owner < world; ++owner) {
      const auto& sent = plans[static_cast<std::size_t>(owner)].to_group[static_cast<std::size_t>(consumer)];
      RC_ASSERT(sent ==
                plans[static_cast<std::size_t>(consumer)].from_owner[static_cast<std::size_t>(owner)]);
      for (const EntryId entry : sent) RC_ASSERT(table[entry].owner == WorldRank{owner});
      received += static_cast<std::int64_t>(sent.size());
    }
  }
  RC_ASSERT(received == table.size());
}

TEST(FieldsForStage, each_stage_gets_what_it_needs) {
  const std::vector<CarriedField> fields =
      carried_fields(std::vector<FieldSpec>{{"advantages", DType::float32, FieldKind::response_token, {}},
                                            {"input_ids", DType::int64, FieldKind::token, {}},
                                            {"position_ids", DType::int32, FieldKind::token, {3}},
                                            {"reward", DType::float32, FieldKind::sample, {}}});
  EXPECT_THAT(fields_for_stage(fields, {0, 1}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(fields_for_stage(fields, {0, 3}), ElementsAre(1, 2));
  EXPECT_THAT(fields_for_stage(fields, {1, 3}), ElementsAre(2));
  EXPECT_THAT(fields_for_stage(fields, {2, 3}), ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace evenkeel
