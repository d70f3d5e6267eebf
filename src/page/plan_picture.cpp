#include "page/plan_picture.hpp"

#include <algorithm>

#include "evenkeel/pack/cp_layout.hpp"
#include "plan/assign/dp_assignment.hpp"

namespace evenkeel {

StepPicture picture_of(const StepProblem& problem, const StepPlan& plan, const RepeatedTokens& repeated) {
  const LengthTable& table = problem.table;
  const PlanSettings& settings = problem.settings;
  StepPicture picture;
  picture.samples = table.size();
  picture.tokens = table.num_tokens();
  count_loss(table, picture);
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    picture.lower_bound = std::max(picture.lower_bound, plan.ranks[r].lower_bound);
    DpRankPicture& of_rank = picture.dp_ranks.emplace_back();
    for (const MicroBatchPlan& m : plan.ranks[r].micro_batches)
      of_rank.micro_batches.push_back(picture_of(table, m, settings, DpRank{static_cast<int>(r)}));
    count_in(picture, of_rank.micro_batches, settings.micro_batch.max_tokens);
  }
  picture.padded_rows = padded_rows(table, settings.alignment());
  if (settings.sharing != PrefixSharing::none) {
    picture.repeated = repeated;
    for (const LengthEntry& entry : table.entries())
      picture.unshared_rows += align_up(entry.shape.length(), settings.alignment());
  }
  describe(picture, table, settings);
  picture.max_over_mean_before = max_over_mean(unbalanced_dp_costs(table, settings), settings.balance.speeds);
  picture.balance = step_balance(plan, settings.speeds_of_costs());
  return picture;
}

}  // namespace evenkeel
