// Items of which several owners have pieces, such as samples that share prefixes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/placement/placement.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using Groups = std::vector<std::vector<Item>>;

/// Items and how much of each one the ranks have; rank r belongs to DP rank r.
struct JobInPieces {
  std::vector<Cost> costs;
  std::vector<WorldRank> owners;
  std::vector<std::int64_t> bytes;
  std::vector<std::int64_t> first_pieces{0};
  std::vector<int> dp_of_rank;
  std::vector<int> node_of_rank = {};

  explicit JobInPieces(int dp) {
    for (int r = 0; r < dp; ++r) dp_of_rank.push_back(r);
  }
  void add(Cost cost, const std::vector<std::pair<int, std::int64_t>>& pieces) {
    costs.push_back(cost);
    for (const auto& [owner, size] : pieces) {
      owners.emplace_back(owner);
      bytes.push_back(size);
    }
    first_pieces.push_back(std::ssize(owners));
  }
  [[nodiscard]] PlacementInput input() const {
    PlacementInput input{owners, bytes, dp_of_rank, node_of_rank};
    input.first_pieces = first_pieces;
    return input;
  }
};

TEST(PlacementOfPieces, counts_each_piece_at_its_owner) {
  JobInPieces job(2);
  job.add(5, {{0, 3}, {1, 2}});  // alone it would stay on rank 0
  job.add(5, {{0, 5}});
  EXPECT_THAT(best_placement(Partition{Groups{{0}, {1}}}, job.input()).part_of_rank, ElementsAre(1, 0));
}

TEST(PlacementOfPieces, needs_an_owner_and_bytes_for_every_piece) {
  JobInPieces job(1);
  job.add(5, {{0, 3}, {0, 2}});
  job.first_pieces.back() = 1;
  EXPECT_THROW((void)best_placement(Partition{Groups{{0}}}, job.input()), InputError);
}

/// Returns two groups of two samples each; rank 0 has the whole second group.
LengthTable two_groups() {
  return LengthTable({{{SampleId{0}, 1, 4, 2}, WorldRank{1}, 0},
                      {{SampleId{1}, 1, 4, 2}, WorldRank{1}, 1},
                      {{SampleId{2}, 2, 4, 2}, WorldRank{0}, 0},
                      {{SampleId{3}, 2, 4, 2}, WorldRank{0}, 1}});
}

TEST(PlacedSharedStep, assigns_groups_to_the_ranks_that_hold_them) {
  PlanSettings settings;
  settings.dp = 2;
  settings.sharing = PrefixSharing::prompts;
  settings.dp_of_rank = {0, 1};
  EXPECT_THAT(assign_step({two_groups(), settings}).shares.items().to_vectors(),
              ElementsAre(ElementsAre(2, 3), ElementsAre(0, 1)));
  settings.dp_of_rank = {1, 0};
  EXPECT_THAT(assign_step({two_groups(), settings}).shares.items().to_vectors(),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

}  // namespace
}  // namespace evenkeel
