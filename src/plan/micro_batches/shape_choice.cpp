#include "plan/micro_batches/shape_choice.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/cp_layout.hpp"

namespace evenkeel {
namespace {

/// Number of row counts that are considered for a pass's shapes, evenly spaced up to the pass's cap.
constexpr std::int64_t steps_of_rows = 128;
/// Ratio of a new shape's number of sequences and max_seqlen to their maxima over the step's micro-batches.
constexpr std::int64_t margin = 2;
/// One step may fill at most 1 / max_part, rounded up, of the free places in the list of shapes.
constexpr std::int64_t max_part = 3;

constexpr std::int64_t no_rows = std::numeric_limits<std::int64_t>::max() / 2;

std::int64_t ceil_divide(std::int64_t number, std::int64_t by) {
  return (number + by - 1) / by;
}

std::int64_t aligned_cap(const PlanSettings& settings, int group_size) {
  const std::int64_t alignment = settings.alignment(group_size);
  return settings.cap(group_size) / alignment * alignment;
}

/// Returns the least common multiple of the passes' alignments for CP groups of this size; nullopt if it
/// exceeds a cap.
std::optional<std::int64_t> common_alignment(std::span<const PassNeeds> passes, int group_size) {
  std::int64_t common = 1;
  for (const PassNeeds& pass : passes) {
    const std::int64_t alignment = pass.settings->alignment(group_size);
    const std::int64_t factor = alignment / std::gcd(common, alignment);
    if (factor > pass.settings->cap(group_size) / common) return std::nullopt;
    common *= factor;
  }
  return common;
}

/// Micro-batches that have the same cap, are padded to the same number of rows without new shapes, and need a
/// new shape of the same level (a row count of new shapes).
struct EqualMicroBatches {
  std::int64_t level = 0;  ///< rows of the smallest new shape that holds them; no_rows if there is none
  std::int64_t rows = 0;
  std::int64_t most = 0;  ///< maximum number of rows per CP rank under the cap
  std::int64_t count = 0;
};

/// The input for choosing new shapes for groups of one size. Rows are per rank.
class Candidates {
 public:
  Candidates(std::span<const PassNeeds> passes, std::span<const PackedShape> shapes, std::int64_t alignment,
             int group_size)
      : alignment_(alignment), cp_(group_size) {
    using Key = std::array<std::int64_t, 3>;
    std::map<Key, std::int64_t> counts;
    for (const PassNeeds& pass : passes) {
      const std::int64_t most = aligned_cap(*pass.settings, group_size) / cp_;
      const std::int64_t unit = alignment / cp_;
      const std::int64_t grid = std::max(unit, most / steps_of_rows / unit * unit);
      for (const PackedShape& needed : pass.needed) {
        if (needed.cp != cp_) continue;
        const std::int64_t level = align_up(needed.rows, grid);
        const std::int64_t rows = smallest_fitting_shape(needed, shapes, *pass.settings).rows;
        ++counts[{level <= most ? level : no_rows, rows, most}];
        sequences_ = std::max(sequences_, needed.sequences);
        max_samples_ = std::max(max_samples_, pass.settings->limits().max_items);
        max_seqlen_ = std::max(max_seqlen_, needed.max_seqlen);
      }
    }
    for (const auto& [key, count] : counts) {
      equal_micro_batches_.push_back({key[0], key[1], key[2], count});
      if (key[0] != no_rows && (levels_.empty() || levels_.back() != key[0])) levels_.push_back(key[0]);
    }
  }

  /// Returns the row counts of possible new shapes, ascending.
  [[nodiscard]] std::span<const std::int64_t> levels() const noexcept { return levels_; }
  [[nodiscard]] std::int64_t cp() const noexcept { return cp_; }

  /// Returns a list whose element n is the total number of rows, after padding, of the micro-batches in the
  /// first n levels if micro-batches that fit may also be padded to a new shape with `rows` rows.
  [[nodiscard]] std::vector<std::int64_t> total_rows_by_level(std::int64_t rows) const {
    std::vector<std::int64_t> sums{0};
    auto next = equal_micro_batches_.begin();
    for (const std::int64_t level : levels_) {
      std::int64_t sum = sums.back();
      for (; next != equal_micro_batches_.end() && next->level == level; ++next)
        sum += next->count * (level <= rows && rows <= next->most ? std::min(rows, next->rows) : next->rows);
      sums.push_back(sum);
    }
    return sums;
  }
  /// Returns the total number of rows of all micro-batches after padding, without new shapes.
  [[nodiscard]] std::int64_t rows_without_new_shapes() const {
    std::int64_t sum = 0;
    for (const EqualMicroBatches& a : equal_micro_batches_) sum += a.count * a.rows;
    return sum;
  }

  /// Returns a shape with this number of rows that holds each of the step's micro-batches with at most that
  /// many rows.
  [[nodiscard]] PackedShape shape_of(std::int64_t rows) const {
    const std::int64_t longest = std::min(rows * cp_, align_up(margin * max_seqlen_, alignment_));
    // Filler adds a sequence, even to a micro-batch that has the maximum number of samples.
    const std::int64_t sequences = std::min(margin * sequences_ - 1, max_samples_) + 1;
    return {rows, sequences + ceil_divide(rows * cp_, longest) + 1, longest, cp_};
  }

 private:
  std::int64_t alignment_;
  std::int64_t cp_;
  std::int64_t sequences_ = 1;
  std::int64_t max_samples_ = 1;
  std::int64_t max_seqlen_ = 1;
  std::vector<EqualMicroBatches>
      equal_micro_batches_;  // ascending by level; entries without a level are last
  std::vector<std::int64_t> levels_;
};

/// For each number of new shapes, chooses the levels that minimize the total number of rows after padding.
class LevelChoice {
 public:
  LevelChoice(const Candidates& candidates, std::int64_t most)
      : levels_(candidates.levels()), unchanged_rows_(candidates.rows_without_new_shapes()) {
    const std::size_t n = levels_.size();
    const std::vector<std::int64_t> unchanged = candidates.total_rows_by_level(0);
    std::vector<std::vector<std::int64_t>> with;
    for (const std::int64_t level : levels_) with.push_back(candidates.total_rows_by_level(level));
    // best[b]: minimum rows of the micro-batches in the first b levels if the b-th level is the highest one
    // chosen.
    std::vector<std::int64_t> best(n + 1, no_rows);
    best[0] = 0;
    while (std::ssize(rows_) < std::min<std::int64_t>(most, std::ssize(levels_))) {
      std::vector<std::int64_t> next(n + 1, no_rows);
      std::vector<std::size_t>& below = below_.emplace_back(n + 1);
      for (std::size_t b = 1; b <= n; ++b) {
        for (std::size_t a = 0; a < b; ++a) {
          if (best[a] == no_rows) continue;
          const std::int64_t rows = best[a] + with[b - 1][b] - with[b - 1][a];
          if (rows < next[b]) {
            next[b] = rows;
            below[b] = a;
          }
        }
      }
      best = std::move(next);
      const auto total = [&](std::size_t b) {
        return best[b] == no_rows ? no_rows : best[b] + unchanged_rows_ - unchanged[b];
      };
      std::size_t top = n;
      for (std::size_t b = 1; b <= n; ++b)
        if (total(b) < total(top)) top = b;
      rows_.push_back(total(top));
      top_.push_back(top);
    }
  }

  /// Returns the maximum number of shapes that can be chosen.
  [[nodiscard]] std::int64_t max_shapes() const noexcept { return std::ssize(rows_); }
  /// Returns the total number of rows, after padding, with this number of new shapes.
  [[nodiscard]] std::int64_t rows(std::int64_t shapes) const {
    return shapes == 0 ? unchanged_rows_ : rows_[static_cast<std::size_t>(shapes) - 1];
  }
  /// Returns the chosen levels, ascending.
  [[nodiscard]] std::vector<std::int64_t> chosen_levels(std::int64_t shapes) const {
    std::vector<std::int64_t> levels;
    for (std::size_t at = shapes == 0 ? 0 : top_[static_cast<std::size_t>(shapes) - 1]; shapes > 0;
         --shapes) {
      levels.push_back(levels_[at - 1]);
      at = below_[static_cast<std::size_t>(shapes) - 1][at];
    }
    std::ranges::reverse(levels);
    return levels;
  }

 private:
  std::span<const std::int64_t> levels_;
  std::int64_t unchanged_rows_;
  // below_[s - 1][b]: if s levels are chosen and levels_[b - 1] is the highest, levels_[below_[s - 1][b] - 1]
  // is the next lower one; 0 if there is none.
  std::vector<std::vector<std::size_t>> below_;
  std::vector<std::int64_t> rows_;  // rows_[s - 1]: minimum total rows with s new shapes
  std::vector<std::size_t> top_;
};

/// Distributes new shapes over the group sizes.
class SizeChoice {
 public:
  SizeChoice(std::span<const Candidates> sizes, std::int64_t most) {
    rows_.push_back(0);
    for (const Candidates& size : sizes) add(size.cp(), choices_.emplace_back(size, most), most);
  }

  /// Returns the maximum number of shapes that can be chosen.
  [[nodiscard]] std::int64_t max_shapes() const noexcept { return std::ssize(rows_) - 1; }
  /// Returns the total number of rows, after padding, over the ranks of all groups, with this number of new
  /// shapes.
  [[nodiscard]] std::int64_t rows(std::int64_t shapes) const {
    return rows_[static_cast<std::size_t>(shapes)];
  }
  /// Returns the chosen levels of each size, ascending.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> chosen_levels(std::int64_t shapes) const {
    std::vector<std::vector<std::int64_t>> levels(choices_.size());
    for (std::size_t i = choices_.size(); i-- > 0;) {
      const std::int64_t own = own_[i][static_cast<std::size_t>(shapes)];
      levels[i] = choices_[i].chosen_levels(own);
      shapes -= own;
    }
    return levels;
  }

 private:
  void add(std::int64_t cp, const LevelChoice& choice, std::int64_t most) {
    const std::int64_t together = std::min(most, max_shapes() + choice.max_shapes());
    std::vector<std::int64_t> fewest(static_cast<std::size_t>(together) + 1, no_rows);
    std::vector<std::int64_t>& own = own_.emplace_back(fewest.size(), 0);
    for (std::int64_t shapes = 0; shapes <= together; ++shapes) {
      const auto at = static_cast<std::size_t>(shapes);
      for (std::int64_t n = std::max<std::int64_t>(0, shapes - max_shapes());
           n <= std::min(shapes, choice.max_shapes()); ++n) {
        const std::int64_t with_n = rows(shapes - n) + cp * choice.rows(n);
        if (with_n >= fewest[at]) continue;
        fewest[at] = with_n;
        own[at] = n;
      }
    }
    rows_ = std::move(fewest);
  }

  std::vector<LevelChoice> choices_;
  // own_[i][n]: the number of shapes that size i gets if n shapes are distributed over sizes 0 to i.
  // rows_[n]: the total rows if n shapes are distributed over all sizes.
  std::vector<std::vector<std::int64_t>> own_;
  std::vector<std::int64_t> rows_;
};

}  // namespace

PackedShape needed_shape(const LengthTable& table, const MicroBatchPlan& plan, const PlanSettings& settings) {
  const std::int64_t alignment = settings.alignment(plan.context.size);
  if (plan.aligned_tokens == 0)
    return {alignment / plan.context.size, std::ssize(plan.entries) + 1, alignment, plan.context.size};
  std::int64_t longest = 0;
  for (const EntryId entry : plan.entries) longest = std::max(longest, table[entry].shape.length());
  return {plan.aligned_tokens / plan.context.size, std::ssize(plan.entries), align_up(longest, alignment),
          plan.context.size};
}

PackedShape largest_shape(const PlanSettings& settings, int group_size) {
  EVENKEEL_PRECONDITION(cheap, settings.micro_batch.shapes && settings.micro_batch.max_samples);
  const std::int64_t cap = aligned_cap(settings, group_size);
  return {cap / group_size, settings.limits().max_items + 2, cap, group_size};
}

std::vector<PackedShape> initial_shapes(std::span<const PlanSettings> passes) {
  std::vector<PackedShape> shapes;
  for (const PlanSettings& pass : passes) {
    if (pass.micro_batch.shapes != passes.front().micro_batch.shapes) {
      throw ConfigError("micro_batch.shapes",
                        "differs between profiles, but the passes of a step share their shapes",
                        "Set it only in the section micro_batch, not in profiles");
    }
    if (!pass.micro_batch.shapes) continue;
    for (const int size : pass.group_sizes()) shapes.push_back(largest_shape(pass, size));
  }
  std::ranges::sort(shapes, std::ranges::greater{});
  shapes.erase(std::ranges::unique(shapes).begin(), shapes.end());
  if (shapes.empty() || std::ssize(shapes) <= *passes.front().micro_batch.shapes) return shapes;
  throw ConfigError(
      "micro_batch.shapes",
      "is " + std::to_string(*passes.front().micro_batch.shapes) + ", but " +
          format_plain_count(std::ssize(shapes), "shape") +
          " are required: one for each profile with its own cap, alignment or max_samples, and for each size "
          "of context-parallel groups",
      "Raise it, give all profiles the same cap, alignment and max_samples, or, with mesh.cp: flexible, "
      "lower mesh.max_cp");
}

PackedShape smallest_fitting_shape(const PackedShape& needed, std::span<const PackedShape> shapes,
                                   const PlanSettings& settings) {
  const std::int64_t alignment = settings.alignment(static_cast<int>(needed.cp));
  const std::int64_t most = settings.micro_batch.max_tokens / settings.cp.size;
  std::optional<PackedShape> best;
  for (const PackedShape& shape : shapes) {
    if (shape.rows > most || !shape.holds(needed, alignment)) continue;
    if (!best || shape < *best) best = shape;
  }
  if (best) return *best;
  throw InputError("micro_batch.shapes",
                   "no shape of this step (it has " + std::to_string(shapes.size()) +
                       ") is large enough for a micro-batch with " + format_plain_count(needed.rows, "row") +
                       " per rank and " + format_plain_count(needed.sequences, "sequence") +
                       ", so the step was made with different settings",
                   "Make all passes of a step with the same configuration");
}

std::vector<PackedShape> shapes_to_add(std::span<const PassNeeds> passes,
                                       std::span<const PackedShape> shapes) {
  if (passes.empty()) return {};
  const std::int64_t free = *passes.front().settings->micro_batch.shapes - std::ssize(shapes);
  if (free <= 0) return {};
  std::set<int> sizes;
  std::int64_t needed = 0;
  for (const PassNeeds& pass : passes) {
    for (const PackedShape& shape : pass.needed) {
      sizes.insert(static_cast<int>(shape.cp));
      needed += shape.rows * shape.cp;
    }
  }
  std::vector<Candidates> candidates;
  for (const int size : sizes)
    if (const auto alignment = common_alignment(passes, size))
      candidates.emplace_back(passes, shapes, *alignment, size);
  const SizeChoice choice(candidates, ceil_divide(free, max_part));
  const std::int64_t worth_it = ceil_divide(needed, min_saving_divisor);
  std::int64_t number = 0;
  while (number < choice.max_shapes() && choice.rows(number) - choice.rows(number + 1) >= worth_it) ++number;
  std::vector<PackedShape> added;
  const std::vector<std::vector<std::int64_t>> levels = choice.chosen_levels(number);
  for (std::size_t i = 0; i < candidates.size(); ++i)
    for (const std::int64_t rows : levels[i]) added.push_back(candidates[i].shape_of(rows));
  return added;
}

}  // namespace evenkeel
