#include "plan/micro_batches/padded_batching.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "plan/assign/dp_assignment.hpp"
#include "plan/settings/checks.hpp"

namespace evenkeel {
namespace {

using MicroBatches = std::vector<PaddedMicroBatch>;

void validate(const PaddedBatchingSettings& settings) {
  plan_checks::require_at_least(1, settings.dp, "dp");
  plan_checks::require_at_least(1, settings.max_tokens, "max_tokens");
  plan_checks::require_at_least(1, settings.length_round, "length_round");
  plan_checks::require_at_least(1, settings.max_samples, "max_samples");
  plan_checks::require_at_least(1, settings.min_count, "min_count");
  plan_checks::require_at_least(1, settings.count_multiple, "count_multiple");
  if (settings.widen_empty_samples && settings.max_tokens < settings.length_round) {
    throw ConfigError("max_tokens",
                      "the cap of " + format_plain_count(settings.max_tokens, "token") +
                          " is less than the smallest padded sample, whose length is length_round: " +
                          std::to_string(settings.length_round) + " tokens",
                      "Raise the cap or lower length_round");
  }
}

/// Returns the padded length at each position of the shards. It is determined by the longest sample at this
/// position over all DP ranks.
std::vector<std::int64_t> padded_lengths(const Partition& shards, std::span<const std::int64_t> lengths,
                                         const PaddedBatchingSettings& settings) {
  std::vector<std::int64_t> needed;
  for (std::int64_t rank = 0; rank < shards.size(); ++rank) {
    const std::span<const Item> shard = shards[rank];
    if (shard.size() > needed.size()) needed.resize(shard.size(), settings.widen_empty_samples ? 1 : 0);
    for (std::size_t i = 0; i < shard.size(); ++i) {
      needed[i] = std::max(needed[i], lengths[static_cast<std::size_t>(shard[i])]);
    }
  }
  for (std::int64_t& length : needed) length = align_up(length, settings.length_round);
  return needed;
}

/// The total rows of each capped field on each DP rank, over the positions in the current micro-batch.
class JoinedRows {
 public:
  JoinedRows(const Partition& shards, std::span<const CappedRows> capped)
      : shards_(shards), capped_(capped), rows_(capped.size() * static_cast<std::size_t>(shards.size())) {}

  [[nodiscard]] bool has_room_for(std::size_t position) const {
    std::size_t at = 0;
    for (const CappedRows& of_field : capped_)
      for (std::int64_t rank = 0; rank < shards_.size(); ++rank)
        if (rows_at(of_field, rank, position) > of_field.most - rows_[at++]) return false;
    return true;
  }
  void add(std::size_t position) {
    std::size_t at = 0;
    for (const CappedRows& of_field : capped_)
      for (std::int64_t rank = 0; rank < shards_.size(); ++rank)
        rows_[at++] += rows_at(of_field, rank, position);
  }
  void clear() { std::ranges::fill(rows_, 0); }

 private:
  [[nodiscard]] std::int64_t rows_at(const CappedRows& of_field, std::int64_t rank,
                                     std::size_t position) const {
    const std::span<const Item> shard = shards_[rank];
    return position < shard.size() ? of_field.of_units[static_cast<std::size_t>(shard[position])] : 0;
  }

  const Partition& shards_;
  std::span<const CappedRows> capped_;
  std::vector<std::int64_t> rows_;  // by capped field, then by DP rank
};

MicroBatches join_neighbors(std::span<const std::int64_t> padded, JoinedRows rows,
                            const PaddedBatchingSettings& settings) {
  MicroBatches micro_batches{{{0, 0}, settings.widen_empty_samples ? settings.length_round : 0}};
  std::int64_t length = settings.length_round;
  for (std::size_t i = 0; i < padded.size(); ++i) {
    const auto position = static_cast<std::int64_t>(i);
    PaddedMicroBatch& last = micro_batches.back();
    const std::int64_t joint = std::max(length, padded[i]);
    const bool fits = last.positions.size() < settings.max_samples &&
                      (joint == 0 || last.positions.size() < settings.max_tokens / joint) &&
                      rows.has_room_for(i);
    length = fits ? joint : padded[i];
    if (!fits) rows.clear();
    rows.add(i);
    if (fits) {
      last = {{last.positions.begin, position + 1}, length};
    } else {
      micro_batches.push_back({{position, position + 1}, length});
    }
  }
  return micro_batches;
}

/// Halves up to `wanted` micro-batches, each once, starting with the largest. Returns the number of halved
/// micro-batches.
std::int64_t halve_largest(MicroBatches& micro_batches, std::int64_t wanted) {
  std::vector<std::size_t> by_size(micro_batches.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::erase_if(by_size, [&](std::size_t i) { return micro_batches[i].positions.size() < 2; });
  std::ranges::stable_sort(by_size, std::ranges::greater{}, [&](std::size_t i) {
    return micro_batches[i].positions.size() * micro_batches[i].padded_length;
  });
  if (std::cmp_less(wanted, by_size.size())) by_size.resize(static_cast<std::size_t>(wanted));

  MicroBatches upper_halves;
  for (const std::size_t i : by_size) {
    RowRange& lower = micro_batches[i].positions;
    const std::int64_t middle = lower.begin + lower.size() / 2;
    upper_halves.push_back({{middle, lower.end}, micro_batches[i].padded_length});
    lower.end = middle;
  }
  micro_batches.insert(micro_batches.end(), upper_halves.begin(), upper_halves.end());
  std::ranges::stable_sort(micro_batches, {}, [](const PaddedMicroBatch& m) {
    return std::pair(m.positions.begin, m.positions.end);
  });
  return static_cast<std::int64_t>(by_size.size());
}

void split_until_count(std::int64_t count, std::int64_t empty_length, MicroBatches& micro_batches) {
  std::int64_t missing = count - static_cast<std::int64_t>(micro_batches.size());
  while (missing > 0) {
    const std::int64_t halved = halve_largest(micro_batches, missing);
    if (halved == 0) break;
    missing -= halved;
  }
  const std::int64_t end = micro_batches.back().positions.end;
  micro_batches.resize(static_cast<std::size_t>(count), {{end, end}, empty_length});
}

bool are_sorted_by_length(const Partition& shards, std::span<const std::int64_t> lengths) {
  for (std::int64_t rank = 0; rank < shards.size(); ++rank) {
    if (!std::ranges::is_sorted(shards[rank], {},
                                [&](Item i) { return lengths[static_cast<std::size_t>(i)]; }))
      return false;
  }
  return true;
}

/// Cuts shards into micro-batches. Precondition: shards are sorted by ascending length.
PaddedBatches cut_shards(Partition shards, std::span<const std::int64_t> lengths,
                         const PaddedBatchingSettings& settings, std::span<const CappedRows> capped) {
  EVENKEEL_PRECONDITION(thorough, are_sorted_by_length(shards, lengths), shards.size());
  static_cast<void>(plan_checks::total_of(lengths));
  plan_checks::require_lengths_fit(lengths, settings.length_round, settings.max_tokens);
  PaddedBatches batches{std::move(shards), {}};
  batches.micro_batches =
      join_neighbors(padded_lengths(batches.shards, lengths, settings), {batches.shards, capped}, settings);
  const auto count = std::max(settings.min_count, static_cast<std::int64_t>(batches.micro_batches.size()));
  split_until_count(align_up(count, settings.count_multiple), settings.length_round, batches.micro_batches);
  return batches;
}

}  // namespace

std::span<const Item> PaddedBatches::samples(DpRank rank, std::int64_t micro_batch) const noexcept {
  EVENKEEL_PRECONDITION(cheap, 0 <= micro_batch && micro_batch < std::ssize(micro_batches), micro_batch,
                        micro_batches.size());
  const std::span<const Item> shard = shards[rank.value()];
  const RowRange positions = micro_batches[static_cast<std::size_t>(micro_batch)].positions;
  const auto shard_size = static_cast<std::int64_t>(shard.size());
  const std::int64_t begin = std::min(positions.begin, shard_size);
  return shard.subspan(static_cast<std::size_t>(begin),
                       static_cast<std::size_t>(std::min(positions.end, shard_size) - begin));
}

std::int64_t PaddedBatches::padded_tokens() const noexcept {
  std::int64_t tokens = 0;
  for (std::int64_t rank = 0; rank < shards.size(); ++rank) {
    for (std::size_t m = 0; m < micro_batches.size(); ++m) {
      const std::span<const Item> held =
          samples(DpRank{static_cast<int>(rank)}, static_cast<std::int64_t>(m));
      tokens += static_cast<std::int64_t>(held.size()) * micro_batches[m].padded_length;
    }
  }
  return tokens;
}

PaddedBatches plan_padded_batches(std::span<const std::int64_t> lengths,
                                  const PaddedBatchingSettings& settings) {
  validate(settings);
  return cut_shards(sorted_stride(lengths, settings.dp), lengths, settings, {});
}

PaddedBatches plan_padded_batches(const Partition& shares, std::span<const std::int64_t> lengths,
                                  const PaddedBatchingSettings& settings,
                                  std::span<const CappedRows> capped_rows) {
  validate(settings);
  std::vector<std::vector<Item>> shards = shares.to_vectors();
  for (std::vector<Item>& shard : shards) {
    std::ranges::sort(shard, {},
                      [&](Item item) { return std::pair(lengths[static_cast<std::size_t>(item)], item); });
  }
  return cut_shards(Partition(shards), lengths, settings, capped_rows);
}

}  // namespace evenkeel
