#include "balance/context/schedule.hpp"

#include <algorithm>
#include <string>

#include "balance/checks.hpp"
#include "balance/context/levels.hpp"
#include "balance/context/speeds.hpp"
#include "base/text_layout.hpp"
#include "cost/sum_limit.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::context {

namespace {

void require_at_least(std::int64_t value, std::int64_t least, const std::string& what) {
  if (value >= least) return;
  throw InputError(what, "is " + std::to_string(value) + "; it must be at least " + std::to_string(least));
}

void require_valid_parameters(const Problem& problem) {
  require_at_least(problem.ranks, 1, "ranks");
  require_at_least(problem.max_size, 1, "max_size");
  if (problem.max_size > problem.ranks) {
    throw InputError("max_size", "is " + std::to_string(problem.max_size) + ", above the number of ranks, " +
                                     std::to_string(problem.ranks));
  }
  require_at_least(problem.limits.max_size, 0, "limits.max_size");
  require_at_least(problem.limits.max_items, 0, "limits.max_items");
  const CommunicationCost& cost = problem.communication;
  require_at_least(cost.inside_node, 0, "communication.inside_node");
  require_at_least(cost.between_nodes, 0, "communication.between_nodes");
  require_at_least(cost.ranks_per_node, 1, "communication.ranks_per_node");
  require_at_least(cost.overhead, 0, "communication.overhead");
  require_at_least(cost.overlap, 0, "communication.overlap");
  if (cost.overlap > 1000)
    throw InputError("communication.overlap",
                     "is " + std::to_string(cost.overlap) + " thousandths; it must be at most 1000");
}

void require_length(std::size_t has, std::size_t wanted, const std::string& what) {
  if (has == wanted) return;
  throw InputError(what, "has " + format_plain_count(static_cast<std::int64_t>(has), "entry", "entries") +
                             "; it must have " + std::to_string(wanted));
}

void require_valid_speeds(const Problem& problem) {
  constexpr std::int64_t largest = std::int64_t{1} << 31;
  if (problem.speeds.empty()) return;
  require_length(problem.speeds.size(), static_cast<std::size_t>(problem.ranks), "speeds");
  for (std::size_t r = 0; r < problem.speeds.size(); ++r) {
    if (problem.speeds[r] < 1 || problem.speeds[r] > largest) {
      throw InputError("speeds", "rank " + std::to_string(r) + " has speed " +
                                     std::to_string(problem.speeds[r]) + "; a speed must be from 1 to 2^31");
    }
  }
}

void require_consistent_lists(const Problem& problem) {
  require_valid_speeds(problem);
  const std::size_t n = problem.items.size();
  if (!problem.counts.empty()) require_length(problem.counts.size(), n, "counts");
  if (problem.offsets.empty()) {
    require_length(problem.lengths.size(), n, "lengths");
  } else {
    require_length(problem.offsets.size(), n + 1, "offsets");
    const bool ends_agree = problem.offsets.front() >= 0 &&
                            problem.offsets.back() <= static_cast<std::int64_t>(problem.lengths.size());
    if (!ends_agree)
      throw InputError("offsets", "are from " + std::to_string(problem.offsets.front()) + " to " +
                                      std::to_string(problem.offsets.back()) +
                                      "; they must be from 0 to the number of lengths, " +
                                      std::to_string(problem.lengths.size()));
    if (!std::ranges::is_sorted(problem.offsets))
      throw InputError("offsets", "decrease; each must be at least as large as the one before it");
  }
  if (n == 0) return;
  if (problem.alignments.size() <= static_cast<std::size_t>(problem.max_size))
    require_length(problem.alignments.size(), static_cast<std::size_t>(problem.max_size) + 1, "alignments");
  for (std::size_t size = 1; size < problem.alignments.size(); ++size)
    require_at_least(problem.alignments[size], 1, "alignments[" + std::to_string(size) + "]");
}

/// Adds up values. Throws InputError if a value is negative or the sum reaches sum_limit.
class CheckedSum {
 public:
  explicit CheckedSum(const char* what) : what_(what) {}

  void add(std::int64_t value, std::size_t item) {
    if (value < 0) {
      throw InputError(what_, "the value of item " + std::to_string(item) + " is " + std::to_string(value) +
                                  "; it must be at least 0");
    }
    if (value >= sum_limit - sum_) {
      throw InputError(what_, "the sum reaches the limit of 2^62 at item " + std::to_string(item),
                       "Use a larger unit, which makes the numbers smaller");
    }
    sum_ += value;
  }
  [[nodiscard]] std::int64_t sum() const noexcept { return sum_; }

 private:
  const char* what_;
  std::int64_t sum_ = 0;
};

/// Returns the product, or sum_limit if the product is larger.
std::int64_t limited_product(std::int64_t left, std::int64_t right) {
  if (left == 0 || right == 0) return 0;
  return left >= sum_limit / right ? sum_limit : left * right;
}

void require_valid_items(const Problem& problem) {
  CheckedSum work("items.work");
  CheckedSum rows("items.rows");
  CheckedSum counts("counts");
  CheckedSum lengths("lengths");
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    const ContextWork& item = problem.items[i];
    work.add(item.work, i);
    rows.add(item.rows, i);
    counts.add(problem.count_of(static_cast<Item>(i)), i);
    if (item.attention < 0 || item.attention > item.work) {
      throw InputError("items.attention", "the attention of item " + std::to_string(i) + " is " +
                                              std::to_string(item.attention) +
                                              "; it must be from 0 to the item's work, which is " +
                                              std::to_string(item.work));
    }
  }
  for (std::size_t i = 0; i < problem.lengths.size(); ++i) lengths.add(problem.lengths[i], i);
  const CommunicationCost& cost = problem.communication;
  const Cost per_hop = std::max(cost.inside_node, cost.between_nodes);
  const Cost passed = limited_product(limited_product(per_hop, problem.max_size), rows.sum());
  const auto n = static_cast<std::int64_t>(problem.items.size());
  const Cost overheads = limited_product(limited_product(cost.overhead, problem.max_size), n);
  if (passed >= sum_limit - work.sum() || overheads >= sum_limit - work.sum() - passed) {
    throw InputError("communication",
                     "the work of all items, their communication and their overheads on groups of up to " +
                         format_plain_count(problem.max_size, "rank") + " add up to 2^62 or more",
                     "Use a larger unit of cost, which makes the numbers smaller");
  }
  const Cost all = work.sum() + passed + overheads;
  if (problem.speeds.empty()) return;
  const auto [slowest, fastest] = std::ranges::minmax(problem.speeds);
  if (limited_product(all, balance_checks::ceil_div(fastest, slowest)) < sum_limit) return;
  throw InputError("speeds",
                   "are from " + std::to_string(slowest) + " to " + std::to_string(fastest) +
                       ", so times on the slowest rank could reach the limit of 2^62",
                   "Use a larger unit of cost, or leave the slowest rank out");
}

[[noreturn]] void throw_too_large(const Problem& problem, Item item) {
  const std::int64_t size = group_sizes_up_to(problem.max_size).back();
  throw LimitError("items",
                   "item " + std::to_string(item) + " does not fit in any group: on " +
                       format_plain_count(size, "rank") + " it has " +
                       format_plain_count(problem.aligned_size(item, size), "aligned token") +
                       ", but a micro-batch holds at most " + std::to_string(cap_of(problem.limits, size)),
                   "Raise limits.max_size, or use shorter samples");
}

}  // namespace

std::int64_t Problem::aligned_size(Item item, std::int64_t size) const {
  const std::int64_t alignment = alignments[static_cast<std::size_t>(size)];
  const auto at = static_cast<std::size_t>(item);
  const auto aligned = [&](std::int64_t length) { return (length + alignment - 1) / alignment * alignment; };
  if (offsets.empty()) return aligned(lengths[at]);
  std::int64_t sum = 0;
  for (std::int64_t i = offsets[at]; i < offsets[at + 1]; ++i)
    sum += aligned(lengths[static_cast<std::size_t>(i)]);
  return sum;
}

void require_schedulable(const Problem& problem) {
  require_valid_parameters(problem);
  require_consistent_lists(problem);
  require_valid_items(problem);
  const std::vector<std::int64_t> sizes = group_sizes_up_to(problem.max_size);
  for (Item item = 0; item < static_cast<Item>(problem.items.size()); ++item) {
    if (problem.count_of(item) > problem.limits.max_items) {
      throw LimitError("limits.max_items",
                       "item " + std::to_string(item) + " does not fit in any group: its count is " +
                           std::to_string(problem.count_of(item)) + ", but a micro-batch holds at most " +
                           format_plain_count(problem.limits.max_items, "item"),
                       "Raise limits.max_items");
    }
    const bool fits = std::ranges::any_of(sizes, [&](std::int64_t size) {
      return problem.aligned_size(item, size) <= cap_of(problem.limits, size);
    });
    if (!fits) throw_too_large(problem, item);
  }
}

}  // namespace evenkeel::context
