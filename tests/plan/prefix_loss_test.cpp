#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "evenkeel/pack/prefix/predictions.hpp"
#include "pack/arbitrary.hpp"
#include "pack/pack_rows.hpp"
#include "pack/prefix/arbitrary_groups.hpp"
#include "pack/prefix/arbitrary_tree.hpp"
#include "plan/loss_weights.hpp"

namespace evenkeel {
namespace {

using Doubles = std::vector<double>;

/// Replaces a model: the hidden state after a token depends on all tokens up to it.
Doubles hidden_states(const Tokens& tokens) {
  Doubles states;
  double state = 0.25;
  for (const std::int64_t token : tokens) {
    state = std::sin(1.7 * state + 0.9 * static_cast<double>(token) + 0.3);
    states.push_back(state);
  }
  return states;
}
double loss_of(double hidden, std::int64_t target) {
  return std::log1p(std::exp(hidden * static_cast<double>(target % 7) - 1));
}
double loss_slope(double hidden, std::int64_t target) {
  const auto factor = static_cast<double>(target % 7);
  return factor / (1 + std::exp(1 - hidden * factor));
}

struct LossAndGradient {
  double loss = 0;
  Doubles of_rows;  ///< the gradient with respect to the hidden state of each tree row
};

/// Samples with prompts, their tree, and the weight of each sample's loss tokens.
struct WeightedTree {
  TokenLists samples;
  std::vector<std::int64_t> prompts;
  PackedTreeLayout layout;
  Doubles weights;
};

/// Computes each sample separately, without sharing.
LossAndGradient repeated(const WeightedTree& weighted) {
  LossAndGradient result{0, Doubles(static_cast<std::size_t>(weighted.layout.tree().num_rows()), 0)};
  for (std::size_t i = 0; i < weighted.samples.size(); ++i) {
    const Tokens& tokens = weighted.samples[i];
    const Doubles hidden = hidden_states(tokens);
    const auto rows = weighted.layout.tree().rows_of(static_cast<std::int64_t>(i));
    const auto first = static_cast<std::size_t>(std::max<std::int64_t>(weighted.prompts[i], 1));
    for (std::size_t t = first; t < tokens.size(); ++t) {
      result.loss += weighted.weights[i] * loss_of(hidden[t - 1], tokens[t]);
      result.of_rows[static_cast<std::size_t>(rows[t - 1])] +=
          weighted.weights[i] * loss_slope(hidden[t - 1], tokens[t]);
    }
  }
  return result;
}

/// Computes the loss like a trainer: hidden states of the tree's rows, split over CP ranks, gathered with the
/// map.
LossAndGradient shared(const WeightedTree& weighted) {
  const PrefixTree& tree = weighted.layout.tree();
  const PackedLayout& segments = weighted.layout.segments();
  Doubles row_states(static_cast<std::size_t>(tree.num_rows()));
  for (std::size_t i = 0; i < weighted.samples.size(); ++i) {
    const Doubles hidden = hidden_states(weighted.samples[i]);
    const auto rows = tree.rows_of(static_cast<std::int64_t>(i));
    for (std::size_t t = 0; t < rows.size(); ++t) row_states[static_cast<std::size_t>(rows[t])] = hidden[t];
  }
  const PredictionMap map = predictions(weighted.layout, weighted.prompts);
  Tokens labels;
  Doubles weights;
  for (std::size_t i = 0; i < weighted.samples.size(); ++i) {
    const Tokens& tokens = weighted.samples[i];
    labels.insert(labels.end(), tokens.begin() + weighted.prompts[i], tokens.end());
    weights.resize(labels.size(), weighted.weights[i]);
  }
  LossAndGradient result{0, Doubles(row_states.size(), 0)};
  for (const CpRank rank : all_ranks(segments.cp())) {
    Doubles local(static_cast<std::size_t>(segments.local_rows()));
    pack_rows(segments, rank, std::as_bytes(std::span(row_states)), {},
              std::as_writable_bytes(std::span(local)));
    const LocalPredictions own = predictions_on(map, rank);
    Doubles predicted_from(labels.size(), 0);
    gather_predictions(own, sizeof(double), std::as_bytes(std::span(local)),
                       std::as_writable_bytes(std::span(predicted_from)));
    Doubles slopes(labels.size(), 0);
    for (const std::int64_t entry : own.entries) {
      const auto e = static_cast<std::size_t>(entry);
      result.loss += weights[e] * loss_of(predicted_from[e], labels[e]);
      slopes[e] = weights[e] * loss_slope(predicted_from[e], labels[e]);
    }
    Doubles local_gradient(local.size(), 0);
    add_prediction_gradients(own, 1, slopes, local_gradient);
    unpack_rows(segments, rank, std::as_bytes(std::span(local_gradient)),
                std::as_writable_bytes(std::span(result.of_rows)));
  }
  return result;
}

void assert_close(const LossAndGradient& a, const LossAndGradient& b) {
  const double scale = std::max(1.0, std::abs(b.loss));
  RC_ASSERT(std::abs(a.loss - b.loss) <= 1e-12 * scale);
  for (std::size_t row = 0; row < b.of_rows.size(); ++row) {
    RC_ASSERT(std::abs(a.of_rows[row] - b.of_rows[row]) <= 1e-12 * std::max(1.0, std::abs(b.of_rows[row])));
  }
}

/// Weights of the samples of one micro-batch in a step with two micro-batches.
Doubles weights_of(const TokenLists& samples, const std::vector<std::int64_t>& prompts,
                   LossAggregation aggregation) {
  std::vector<LengthEntry> entries;
  MicroBatchPlan own;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto id = static_cast<std::int64_t>(i);
    entries.push_back({{SampleId{id}, i / 3, prompts[i], std::ssize(samples[i]) - prompts[i]},
                       WorldRank{0},
                       static_cast<int>(id),
                       -1});
    own.entries.emplace_back(id);
  }
  const auto last = std::ssize(samples);
  entries.push_back({{SampleId{last}, 99, 2, 5}, WorldRank{0}, static_cast<int>(last), -1});
  MicroBatchPlan other;
  other.entries.emplace_back(last);
  LossSettings settings;
  settings.aggregation = aggregation;
  settings.norm_length = 8;
  std::vector<EntryId> mini_batch = own.entries;
  mini_batch.emplace_back(last);
  return loss_weights(LengthTable(entries), mini_batch, std::vector<MicroBatchPlan>{own, other}, settings, 2)
      .front()
      .token_weights;
}

LossAggregation arbitrary_aggregation() {
  return *rc::gen::element(LossAggregation::token_mean, LossAggregation::token_sum,
                           LossAggregation::seq_mean_token_sum, LossAggregation::seq_mean_token_mean,
                           LossAggregation::seq_mean_token_sum_norm, LossAggregation::prompt_mean,
                           LossAggregation::mindspeed_rl);
}

RC_GTEST_PROP(SharedLoss, of_trees_equals_the_loss_without_sharing_in_every_mode, ()) {
  const TokenLists samples = arbitrary_samples(12);
  std::vector<std::int64_t> prompts;
  for (const Tokens& tokens : samples) {
    prompts.push_back(*rc::gen::inRange<std::int64_t>(0, std::ssize(tokens) + 1));
  }
  const CpGroup cp = arbitrary_cp();
  const WeightedTree weighted{samples, prompts, PackedTreeLayout(tree_of(samples), cp.chunks(), cp),
                              weights_of(samples, prompts, arbitrary_aggregation())};
  assert_close(shared(weighted), repeated(weighted));
}

RC_GTEST_PROP(SharedLoss, of_prefix_groups_equals_the_loss_without_sharing_in_every_mode, ()) {
  const PrefixGroups groups = arbitrary_groups(12);
  TokenLists samples;
  std::vector<std::int64_t> prompts;
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    Tokens prefix(static_cast<std::size_t>(groups.prefix(g)));
    std::iota(prefix.begin(), prefix.end(), 10 * g);
    for (std::int64_t i = groups.suffixes_of(g).begin; i < groups.suffixes_of(g).end; ++i) {
      samples.push_back(prefix);
      samples.back().resize(static_cast<std::size_t>(groups.prefix(g) + groups.suffix(i)), 100 + i);
      prompts.push_back(groups.prefix(g));
    }
  }
  const CpGroup cp = arbitrary_cp();
  const PackedPrefixLayout layout(groups, std::vector<SampleId>(samples.size()), cp.chunks(), cp);
  RC_ASSERT(predictions(layout) == predictions(PackedTreeLayout(layout), prompts));
  const WeightedTree weighted{samples, prompts, PackedTreeLayout(layout),
                              weights_of(samples, prompts, arbitrary_aggregation())};
  assert_close(shared(weighted), repeated(weighted));
}

}  // namespace
}  // namespace evenkeel
