#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "balance/context/schedule.hpp"

namespace evenkeel::context {

/// A problem that owns the lists it refers to.
struct OwnedContextProblem {
  std::vector<ContextWork> items;
  std::vector<std::int64_t> counts;
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> alignments;
  std::vector<std::int64_t> speeds;
  Problem rest;  ///< all that are no lists

  [[nodiscard]] Problem problem() const {
    Problem result = rest;
    result.items = items;
    result.counts = counts;
    result.lengths = lengths;
    result.offsets = offsets;
    result.alignments = alignments;
    result.speeds = speeds;
    return result;
  }
};

/// Returns the time of a micro-batch on ranks first .. first + size - 1: the time of the slowest one.
Cost time_of(const Problem& problem, const ContextWork& work, std::int64_t first, std::int64_t size);

/// Alignments for zigzag: two chunks per rank.
inline std::vector<std::int64_t> zigzag_alignments(std::int64_t max_size) {
  std::vector<std::int64_t> alignments{1, 1};
  for (std::int64_t size = 2; size <= max_size; ++size) alignments.push_back(2 * size);
  return alignments;
}

/// Returns a problem with one sequence per item, with linear work and squared lengths. All of `ranks` may
/// work on one sequence together.
inline OwnedContextProblem context_problem(const std::vector<std::int64_t>& lengths, std::int64_t ranks,
                                           std::int64_t max_tokens, Cost linear,
                                           const CommunicationCost& communication) {
  OwnedContextProblem made;
  for (const std::int64_t length : lengths)
    made.items.push_back({length, linear * length + length * length, length * length});
  made.lengths = lengths;
  made.alignments = zigzag_alignments(ranks);
  made.rest.ranks = ranks;
  made.rest.max_size = ranks;
  made.rest.limits.max_size = max_tokens;
  made.rest.communication = communication;
  return made;
}

/// Returns a random problem with up to `max_items` items on up to `max_ranks` ranks: sequences of various
/// lengths, one or several per item, with or without limits on counts, cheap or expensive communication.
inline OwnedContextProblem random_context_problem(std::uint64_t seed, std::int64_t max_items,
                                                  std::int64_t max_ranks) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t end) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
  };
  OwnedContextProblem made;
  Problem& rest = made.rest;
  rest.ranks = 1 + below(max_ranks);
  rest.max_size = below(3) == 0 ? 1 + below(rest.ranks) : rest.ranks;
  rest.limits.max_size = 64 + below(400);
  std::int64_t largest = 1;
  while (2 * largest <= rest.max_size) largest *= 2;
  const std::int64_t tp = 1 + below(2);
  made.alignments = {1, tp};
  for (std::int64_t size = 2; size <= rest.max_size; ++size) made.alignments.push_back(2 * size * tp);

  const bool counted = below(3) == 0;
  if (below(2) == 0) rest.limits.max_items = 3 + below(6);
  const bool several = below(3) == 0;
  const std::int64_t n = below(max_items + 1);
  const std::int64_t most = (rest.limits.max_size - 4 * tp) * largest;
  const std::int64_t tail = 1 + below(8);
  const Cost linear = below(200);
  if (several) made.offsets.push_back(0);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t sequences = several ? below(4) : 1;
    ContextWork item;
    for (std::int64_t s = 0; s < sequences; ++s) {
      std::int64_t length = below(below(tail) == 0 ? most : rest.limits.max_size);
      if (below(10) == 0) length = 0;
      if (several) length /= 4;
      length = length < most ? length : most;
      made.lengths.push_back(length);
      item += {length, linear * length + length * length, length * length};
    }
    made.items.push_back(item);
    if (several) made.offsets.push_back(static_cast<std::int64_t>(made.lengths.size()));
    if (counted) made.counts.push_back(1 + below(3));
  }
  rest.communication = {.inside_node = below(3) * below(300),
                        .between_nodes = below(2000),
                        .ranks_per_node = 1 + below(8),
                        .overlap = below(3) * 500,
                        .overhead = below(4) * below(20000)};
  return made;
}

/// Returns samples of 390k to 520k tokens and 8192 of up to 6000, on 1024 ranks of 32k each with slow links.
inline OwnedContextProblem many_long_items_problem(std::int64_t num_long, std::int64_t overlap) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < num_long; ++i) lengths.push_back(390000 + 130000 * i / num_long);
  for (std::int64_t i = 0; i < 8192; ++i) lengths.push_back(1 + i * 7919 % 6000);
  return context_problem(lengths, 1024, 32768, 24576,
                         {.inside_node = 1332,
                          .between_nodes = 10000,
                          .ranks_per_node = 8,
                          .overlap = overlap,
                          .overhead = 256 * 24576});
}

/// Returns samples of up to 6000 tokens, of which 1 in 100 has 128k to 512k instead, on 64 ranks of 16k each.
inline OwnedContextProblem long_tailed_problem(std::int64_t num_samples) {
  std::mt19937_64 random(1);
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < num_samples; ++i) {
    const auto drawn = static_cast<std::int64_t>(random() % 393216);
    lengths.push_back(i % 100 == 0 ? 131072 + drawn : 1 + drawn % 6000);
  }
  return context_problem(
      lengths, 64, 16384, 24576,
      {.inside_node = 333, .between_nodes = 2500, .ranks_per_node = 8, .overhead = 256 * 24576});
}

/// Returns the problem with ranks of two speeds, or with arbitrary speeds that differ by up to a factor of
/// ten.
inline OwnedContextProblem with_random_speeds(OwnedContextProblem made, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const bool two = random() % 2 == 0;
  for (std::int64_t r = 0; r < made.rest.ranks; ++r)
    made.speeds.push_back(two ? 500 << random() % 2 : 100 + static_cast<std::int64_t>(random() % 900));
  return made;
}

/// Returns what is wrong with a schedule, or an empty text. Simulates it: a micro-batch starts when all of
/// its ranks are free, or all ranks wait for each other after each wave.
std::string fault_of(const Problem& problem, const Schedule& schedule, bool waves);

/// Returns the earliest end of any schedule, by exhaustive search. Exponential in the number of items.
Cost least_tree_end(const Problem& problem);
Cost least_waves_end(const Problem& problem);

}  // namespace evenkeel::context
