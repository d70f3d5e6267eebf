#include "evenkeel/c/plan.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/text_layout.hpp"
#include "c/arrays.hpp"
#include "c/config.hpp"
#include "c/layouts.hpp"
#include "c/named_arrays.hpp"
#include "c/texts.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "evenkeel/plan/shared_groups.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/dp_assignment.hpp"
#include "plan/assign/dp_rank_plans.hpp"
#include "plan/micro_batches/micro_batch_layout.hpp"

namespace evenkeel::c {

/// A plan, its inputs and its losses. Immutable.
class PlannedStep {
 public:
  PlannedStep(LengthTable of_table, PlanSettings with_settings, const LossSettings& loss,
              std::int64_t of_step, std::vector<SharedGroup> of_trees)
      : table(std::move(of_table)),
        settings(std::move(with_settings)),
        step(of_step),
        trees(std::move(of_trees)),
        planned(assign_and_plan(problem())),
        losses(step_losses(table, plan(), loss)) {}

  [[nodiscard]] StepProblem problem() const { return {table, settings, step, trees}; }
  [[nodiscard]] const StepPlan& plan() const noexcept { return planned.plan; }
  /// Returns the layout of a micro-batch on CP rank 0, without fields.
  [[nodiscard]] PackedMicroBatch lay_out_micro_batch(const MicroBatchPlan& micro_batch) const {
    return lay_out(problem(), planned.assignment, micro_batch, CpRank{0});
  }

  const LengthTable table;
  const PlanSettings settings;
  const std::int64_t step;
  const std::vector<SharedGroup> trees;
  const AssignedPlan planned;
  const std::vector<std::vector<MicroBatchLoss>> losses;  ///< by DP rank, then by micro-batch
};

namespace {

using Numbers = std::vector<std::int64_t>;

/// Returns a table of the samples, in the order of the arrays. Throws InputError for negative lengths, and
/// for numbers of loss tokens that are neither -1 nor from 0 to the sample's length.
LengthTable table_of(const evenkeel_lengths* lengths) {
  require(lengths, "lengths");
  const std::int64_t count = lengths->count;
  const LengthTable table =
      LengthTable::from_lengths(array_of(lengths->prompts, count, "lengths->prompts"),
                                array_of(lengths->responses, count, "lengths->responses"));
  std::vector<LengthEntry> entries(table.entries().begin(), table.entries().end());
  for (std::size_t i = 0; i < entries.size() && lengths->groups != nullptr; ++i)
    entries[i].shape.group = static_cast<std::uint64_t>(lengths->groups[i]);
  for (std::size_t i = 0; i < entries.size() && lengths->loss_tokens != nullptr; ++i) {
    const std::int64_t tokens = lengths->loss_tokens[i];
    if (tokens < -1 || tokens > entries[i].shape.length())
      throw InputError("loss_tokens[" + std::to_string(i) + "]",
                       "is " + std::to_string(tokens) + "; it must be from -1 to the sample's length, " +
                           std::to_string(entries[i].shape.length()),
                       "Pass -1 if all response tokens carry loss");
    entries[i].loss_tokens = tokens;
  }
  return LengthTable(std::move(entries));
}

std::vector<SharedGroup> trees_of(const evenkeel_lengths& lengths, const LengthTable& table,
                                  std::int64_t ahead) {
  if (lengths.token_offsets == nullptr && table.size() > 0)
    throw InputError("tokens",
                     "are missing: with prefix.share: tree, lengths alone do not show what samples share",
                     "Pass each sample's tokens");
  if (table.size() == 0) return prefix_trees(table, {}, ahead);
  const std::int64_t* const offsets = lengths.token_offsets;
  const std::span<const std::int64_t> all =
      array_of(lengths.tokens, offsets[table.size()], "lengths->tokens");
  std::vector<std::span<const std::int64_t>> views;
  for (std::int64_t i = 0; i < table.size(); ++i) {
    const std::int64_t length = table.entries()[static_cast<std::size_t>(i)].shape.length();
    if (offsets[i] < 0 || offsets[i + 1] < offsets[i] || offsets[i + 1] > std::ssize(all))
      throw InputError("token_offsets[" + std::to_string(i) + "]",
                       "is " + std::to_string(offsets[i]) + ", and the next offset is " +
                           std::to_string(offsets[i + 1]) + "; offsets must be from 0 to the last one, " +
                           std::to_string(std::ssize(all)) + ", and must not decrease");
    if (offsets[i + 1] - offsets[i] != length)
      throw InputError("tokens[" + std::to_string(i) + "]",
                       "has " + format_plain_count(offsets[i + 1] - offsets[i], "token") +
                           "; the sample's length is " + std::to_string(length));
    views.push_back(all.subspan(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(length)));
  }
  return prefix_trees(table, views, ahead);
}

Grid grid_of(const Config& config, std::int32_t ranks) {
  if (ranks != -1) return config.grid(ranks);
  const MeshSettings& mesh = config.mesh;
  if (!mesh.dp)
    throw ConfigError("mesh.dp", "is auto, but the number of ranks is not given",
                      "Set mesh.dp, or pass ranks");
  return {{mesh.tp, mesh.cp, *mesh.dp, mesh.pp}, mesh.order};
}

std::unique_ptr<PlannedStep> plan_lengths(const evenkeel_lengths* lengths, const Config& config,
                                          const std::string& profile, std::int64_t step, std::int32_t ranks) {
  LengthTable table = table_of(lengths);
  PlanSettings settings = config.plan_settings(grid_of(config, ranks).sizes(), profile);
  settings.validate();
  std::vector<SharedGroup> trees;
  if (settings.sharing == PrefixSharing::trees) trees = trees_of(*lengths, table, settings.predict_ahead);
  return std::make_unique<PlannedStep>(std::move(table), std::move(settings), config.profile(profile).loss,
                                       step, std::move(trees));
}

/// Converts the caller's own micro-batches to a plan with one mini-batch. Throws InputError unless every
/// sample occurs exactly once and all DP ranks have the same number of micro-batches.
StepPlan plan_of(const Partition& micro_batches, const Partition& ranks, const LengthTable& table) {
  StepPlan plan;
  std::vector<bool> seen(static_cast<std::size_t>(table.size()), false);
  for (std::int64_t r = 0; r < ranks.size(); ++r) {
    DpRankPlan& rank = plan.ranks.emplace_back();
    if (ranks[r].size() != ranks[0].size())
      throw InputError("micro_batches",
                       "DP rank " + std::to_string(r) + " has " +
                           format_plain_count(std::ssize(ranks[r]), "micro-batch", "micro-batches") +
                           ", but DP rank 0 has " + std::to_string(ranks[0].size()),
                       "Add empty micro-batches");
    for (const std::int64_t m : ranks[r]) {
      MicroBatchPlan& micro_batch = rank.micro_batches.emplace_back();
      micro_batch.context.first = DataPlace{static_cast<int>(r)};
      for (const std::int64_t sample : micro_batches[m]) {
        if (sample < 0 || sample >= table.size())
          throw InputError("micro_batches",
                           "contain sample " + std::to_string(sample) + ", but the number of samples is " +
                               std::to_string(table.size()),
                           "Number samples from 0");
        if (seen[static_cast<std::size_t>(sample)])
          throw InputError("micro_batches", "sample " + std::to_string(sample) + " appears twice",
                           "Put every sample into exactly one micro-batch");
        seen[static_cast<std::size_t>(sample)] = true;
        micro_batch.entries.emplace_back(sample);
      }
    }
  }
  const auto missing = std::ranges::find(seen, false);
  if (missing != seen.end())
    throw InputError("micro_batches",
                     "sample " + std::to_string(missing - seen.begin()) + " is not in any micro-batch",
                     "Put every sample into exactly one micro-batch");
  plan.counts = {ranks.size() == 0 ? 0 : std::ssize(ranks[0])};
  return plan;
}

/// Returns of(micro-batch) for all micro-batches, ordered by DP rank.
template <typename Of>
Numbers numbers_of_micro_batches(const StepPlan& plan, Of of) {
  Numbers numbers;
  for (const DpRankPlan& rank : plan.ranks)
    for (const MicroBatchPlan& m : rank.micro_batches) numbers.push_back(of(m));
  return numbers;
}

void add_losses(evenkeel_arrays& arrays, const std::vector<std::vector<MicroBatchLoss>>& losses) {
  std::vector<double> weights;
  std::vector<double> scales;
  std::vector<double> means;
  for (const std::vector<MicroBatchLoss>& of_rank : losses) {
    for (const MicroBatchLoss& loss : of_rank) {
      weights.insert(weights.end(), loss.token_weights.begin(), loss.token_weights.end());
      scales.push_back(loss.scale);
      means.push_back(loss.mean_weight);
    }
  }
  arrays.add("token_weights", std::move(weights));
  arrays.add("scale", std::move(scales));
  arrays.add("mean_weight", std::move(means));
}

std::vector<double> quality_of(const PlannedStep& step) {
  const std::vector<std::int64_t>& speeds = step.settings.balance.speeds;
  const StepBalance balance = step_balance(step.plan(), speeds);
  const StepWaiting waiting = step_waiting(balance);
  return {max_over_mean(unbalanced_dp_costs(step.table, step.settings), speeds),
          balance.dp_max_over_mean,
          balance.micro_batch_max_over_mean,
          balance.step_max_over_mean,
          waiting.once,
          waiting.every_micro_batch};
}

evenkeel_arrays arrays_of(const PlannedStep& step) {
  const StepPlan& plan = step.plan();
  evenkeel_arrays arrays;
  Numbers samples;
  Numbers prompts;
  Numbers sample_offsets{0};
  Numbers rank_offsets{0};
  Numbers bounds;
  for (const DpRankPlan& rank : plan.ranks) {
    for (const MicroBatchPlan& m : rank.micro_batches) {
      for (const EntryId entry : m.entries) {
        samples.push_back(entry.value());
        prompts.push_back(step.table[entry].shape.prompt);
      }
      sample_offsets.push_back(std::ssize(samples));
    }
    rank_offsets.push_back(rank_offsets.back() + std::ssize(rank.micro_batches));
    bounds.push_back(rank.lower_bound);
  }
  arrays.add("samples", std::move(samples));
  arrays.add("prompts", std::move(prompts));
  arrays.add("sample_offsets", std::move(sample_offsets));
  arrays.add("rank_offsets", std::move(rank_offsets));
  arrays.add("lower_bound", std::move(bounds));
  arrays.add("counts", plan.counts);
  const auto add = [&](const char* name, auto of) { arrays.add(name, numbers_of_micro_batches(plan, of)); };
  add("tokens", [](const MicroBatchPlan& m) { return m.tokens; });
  add("aligned_tokens", [](const MicroBatchPlan& m) { return m.aligned_tokens; });
  add("cost", [](const MicroBatchPlan& m) { return m.cost; });
  add("padded_length", [](const MicroBatchPlan& m) { return m.padded_length; });
  add("mini_batch", [](const MicroBatchPlan& m) { return std::int64_t{m.mini_batch.value()}; });
  add("context_first", [](const MicroBatchPlan& m) { return std::int64_t{m.context.first.value()}; });
  add("context_size", [](const MicroBatchPlan& m) { return std::int64_t{m.context.size}; });
  add_losses(arrays, step.losses);
  arrays.add("num_samples", step.table.size());
  arrays.add("num_tokens", step.table.num_tokens());
  arrays.add("num_micro_batches", plan.num_micro_batches());
  arrays.add("alignment", step.settings.alignment());
  arrays.add("cp_size", std::int64_t{step.settings.cp.size});
  arrays.add("cp_layout", std::int64_t{step.settings.cp.layout == CpLayout::zigzag ? EVENKEEL_ZIGZAG
                                                                                   : EVENKEEL_CONTIGUOUS});
  arrays.add("step", step.step);
  arrays.add("hash", static_cast<std::int64_t>(plan_hash(plan)));
  arrays.add("quality", quality_of(step));
  return arrays;
}

/// Returns the micro-batch with this number, counted over all DP ranks in order. Throws WrongArgument if
/// there is none.
const MicroBatchPlan& micro_batch_at(const StepPlan& plan, std::int64_t index) {
  std::int64_t count = 0;
  for (const DpRankPlan& rank : plan.ranks) count += std::ssize(rank.micro_batches);
  require_index(index, count, "micro_batch", "micro-batches");
  for (const DpRankPlan& rank : plan.ranks) {
    if (index < std::ssize(rank.micro_batches)) return rank.micro_batches[static_cast<std::size_t>(index)];
    index -= std::ssize(rank.micro_batches);
  }
  throw WrongArgument("micro_batch", "does not exist");
}

}  // namespace
}  // namespace evenkeel::c

struct evenkeel_plan {
  std::unique_ptr<evenkeel::c::PlannedStep> step;
  evenkeel_arrays arrays;
};

using namespace evenkeel;
using namespace evenkeel::c;

evenkeel_status evenkeel_plan_create(const evenkeel_lengths* lengths, const evenkeel_config* config,
                                     const char* profile, int64_t step, int32_t ranks, evenkeel_plan** plan) {
  return create_handle(plan, "plan", [&] {
    require(config, "config");
    auto made = plan_lengths(lengths, config->config, text_or_empty(profile), step, ranks);
    evenkeel_arrays arrays = arrays_of(*made);
    return new evenkeel_plan{std::move(made), std::move(arrays)};
  });
}

void evenkeel_plan_destroy(evenkeel_plan* plan) {
  delete plan;
}

const evenkeel_arrays* evenkeel_plan_arrays(const evenkeel_plan* plan) {
  return plan == nullptr ? nullptr : &plan->arrays;
}

int32_t evenkeel_plan_equal(const evenkeel_plan* one, const evenkeel_plan* other) {
  if (one == nullptr || other == nullptr) return one == other ? 1 : 0;
  return one->step->plan() == other->step->plan() ? 1 : 0;
}

evenkeel_status evenkeel_plan_layout(const evenkeel_plan* plan, int64_t micro_batch,
                                     evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    require(plan, "plan");
    const PackedMicroBatch packed =
        plan->step->lay_out_micro_batch(micro_batch_at(plan->step->plan(), micro_batch));
    const PackedLayout& layout = packed.layout;
    made.add("cu_seqlens", std::vector(layout.cu_seqlens().begin(), layout.cu_seqlens().end()));
    made.add("cu_seqlens_padded",
             std::vector(layout.cu_seqlens_padded().begin(), layout.cu_seqlens_padded().end()));
    made.add("max_seqlen", std::int64_t{layout.max_seqlen()});
    made.add("alignment", layout.alignment());
    made.add("cp_size", std::int64_t{layout.cp().size});
    if (packed.shared) add_tree_structure(made, packed.shared->tree.tree());
  });
}

evenkeel_status evenkeel_losses(const evenkeel_lengths* lengths, const evenkeel_config* config,
                                const char* profile, const int64_t* samples, const int64_t* sample_offsets,
                                int64_t num_micro_batches, const int64_t* rank_offsets, int64_t num_ranks,
                                evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    require(config, "config");
    const LengthTable table = table_of(lengths);
    const LossSettings settings = config->config.profile(text_or_empty(profile)).loss;
    require_list(sample_offsets, num_micro_batches, "sample_offsets");
    require(sample_offsets, "sample_offsets");
    require_list(samples, sample_offsets[num_micro_batches], "samples");
    require_list(rank_offsets, num_ranks, "rank_offsets");
    require(rank_offsets, "rank_offsets");
    const Partition micro_batches =
        partition_of(samples, sample_offsets[num_micro_batches], sample_offsets, num_micro_batches);
    Numbers every(static_cast<std::size_t>(num_micro_batches));
    std::iota(every.begin(), every.end(), 0);
    const Partition of_ranks = partition_of(every.data(), num_micro_batches, rank_offsets, num_ranks);
    add_losses(made, step_losses(table, plan_of(micro_batches, of_ranks, table), settings));
  });
}
