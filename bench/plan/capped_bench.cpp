#include "bench/plan/capped_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "balance/bins/capped_partition.hpp"
#include "balance/quality.hpp"
#include "bench/measurement.hpp"
#include "bench/plan/lengths.hpp"
#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/cost/cost_model.hpp"
#include "io/samples/lengths_file.hpp"

namespace evenkeel::bench {
namespace {

struct Batch {
  std::vector<std::int64_t> tokens;
  std::vector<Cost> costs;
};

Batch batch_of(std::vector<std::int64_t> tokens, const CostModel& model) {
  std::vector<Cost> costs;
  for (const std::int64_t length : tokens) costs.push_back(model(length));
  return {std::move(tokens), std::move(costs)};
}

std::int64_t fullest(const Partition& partition, const Batch& batch) {
  return std::ranges::max(group_sums(partition, batch.tokens));
}

/// Returns ceil(tokens / cap): a count that suffices only if the samples fill every micro-batch.
std::int64_t counted_by_sum(const Batch& batch, std::int64_t cap) {
  const std::int64_t tokens = std::accumulate(batch.tokens.begin(), batch.tokens.end(), std::int64_t{0});
  return (tokens + cap - 1) / cap;
}

Partition differenced_by_sum(const Batch& batch, std::int64_t cap) {
  return karmarkar_karp(batch.costs, counted_by_sum(batch, cap));
}

Partition differenced_until_it_fits(const Batch& batch, std::int64_t cap) {
  for (std::int64_t k = counted_by_sum(batch, cap);; ++k) {
    Partition partition = karmarkar_karp(batch.costs, k);
    if (fullest(partition, batch) <= cap) return partition;
  }
}

Partition falling_first_fit(const Batch& batch, std::int64_t cap) {
  return first_fit_decreasing(batch.tokens, {cap});
}

Partition planned(const Batch& batch, std::int64_t cap) {
  const GroupCount count = count_groups(batch.costs, batch.tokens, {cap});
  return partition_under_limits(batch.costs, batch.tokens, {cap}, count.needed);
}

/// Draws lengths with the standard library, whose implementation determines them. With libstdc++, these are
/// the lengths for which first-fit-decreasing needs 23.425 micro-batches of 32768 tokens on average.
std::vector<std::int64_t> library_lengths(std::size_t n, std::uint64_t seed, std::int64_t cap) {
  std::mt19937_64 engine(seed);
  std::lognormal_distribution<double> distribution(7.5, 1.0);
  std::vector<std::int64_t> lengths(n);
  for (std::int64_t& length : lengths) {
    length = std::clamp(static_cast<std::int64_t>(distribution(engine)), std::min<std::int64_t>(64, cap),
                        std::min<std::int64_t>(32768, cap));
  }
  return lengths;
}

struct Method {
  const char* name;
  Partition (*pack)(const Batch&, std::int64_t cap);
};

constexpr Method methods[] = {
    {"Karmarkar-Karp at ceil(sum / cap)", differenced_by_sum},
    {"Karmarkar-Karp, one more until it fits", differenced_until_it_fits},
    {"first-fit-decreasing", falling_first_fit},
    {"evenkeel", planned},
};

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The results of a method over all batches.
struct CappedOutcome {
  int broken = 0;         ///< number of batches with a micro-batch above the cap
  double worst_fill = 0;  ///< size of the largest micro-batch, relative to the cap
  std::vector<double> counts;
  std::vector<double> spreads;  ///< largest cost over the mean
  std::vector<double> least;    ///< lower bound over all partitions into the same number of groups
  std::vector<double> seconds;
};

CappedOutcome outcome_of(const Method& method, std::span<const Batch> batches, std::int64_t cap) {
  CappedOutcome outcome;
  for (const Batch& batch : batches) {
    Partition partition;
    outcome.seconds.push_back(seconds_of([&] { partition = method.pack(batch, cap); }));
    const double fill = static_cast<double>(fullest(partition, batch)) / static_cast<double>(cap);
    outcome.broken += fill > 1 ? 1 : 0;
    outcome.worst_fill = std::max(outcome.worst_fill, fill);
    outcome.counts.push_back(static_cast<double>(partition.size()));
    const BalanceQuality quality = balance_quality(group_sums(partition, batch.costs));
    outcome.spreads.push_back(quality.max_over_mean);
    outcome.least.push_back(static_cast<double>(max_sum_lower_bound(batch.costs, partition.size())) /
                            quality.mean);
  }
  return outcome;
}

Table compare(std::string key, std::string title, std::span<const Batch> batches, std::int64_t cap) {
  Table table(std::move(key), std::move(title),
              {{"method", "method"},
               {"broken", "batches above the cap"},
               {"worst_fill", "fullest / cap", 4},
               {"micro_batches", "mean micro-batches", 3},
               {"over_lower_bound", "/ lower bound", 4},
               {"max_over_mean", "mean max/mean", 4},
               {"worst_max_over_mean", "worst", 4},
               {"least_max_over_mean", "mean of its lower bound", 4},
               {"us", "us, median", 1}});
  std::vector<double> bounds;
  for (const Batch& batch : batches) {
    bounds.push_back(static_cast<double>(min_bins_lower_bound(batch.tokens, {cap})));
  }
  table.add({"(lower bound)", nullptr, nullptr, mean(bounds), 1.0, nullptr, nullptr, nullptr, nullptr});
  for (const Method& method : methods) {
    const CappedOutcome outcome = outcome_of(method, batches, cap);
    table.add({method.name, outcome.broken, outcome.worst_fill, mean(outcome.counts),
               mean(outcome.counts) / mean(bounds), mean(outcome.spreads), std::ranges::max(outcome.spreads),
               mean(outcome.least), median(outcome.seconds) * 1e6});
  }
  return table;
}

}  // namespace

Table capped_made_up(const PlanOptions& options) {
  constexpr std::size_t samples = 256;
  std::vector<Batch> batches;
  for (int draw = 0; draw < options.draws; ++draw) {
    batches.push_back(batch_of(library_lengths(samples, 1000 + static_cast<std::uint64_t>(draw), options.cap),
                               CostModel::tokens()));
  }
  return compare("capped",
                 fmt::format("{} batches of {} made-up samples, cap {} tokens, balanced on tokens",
                             options.draws, samples, options.cap),
                 batches, options.cap);
}

Table capped_from_table(const PlanOptions& options) {
  constexpr std::size_t samples = 64;
  std::vector<std::int64_t> lengths;
  for (const FileLengths& row : read_length_table(InputFile(options.lengths))) {
    lengths.push_back(row.prompt + row.response);
  }
  std::mt19937_64 engine(7);
  std::vector<Batch> batches;
  for (int draw = 0; draw < options.draws; ++draw) {
    std::vector<std::int64_t> drawn;
    for (std::size_t i = 0; i < std::min(samples, lengths.size()); ++i) {
      std::swap(lengths[i], lengths[i + draw_below(engine, lengths.size() - i)]);
      if (lengths[i] <= options.cap) drawn.push_back(lengths[i]);
    }
    if (!drawn.empty()) batches.push_back(batch_of(std::move(drawn), CostModel::flops_7b()));
  }
  return compare("capped_from_table",
                 fmt::format("{} batches of {} samples of {}, cap {} tokens, longer ones left out, balanced "
                             "on flops",
                             batches.size(), samples, options.lengths.filename().string(), options.cap),
                 batches, options.cap);
}

}  // namespace evenkeel::bench
