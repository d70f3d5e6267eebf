#include "plan/settings/checks.hpp"

#include <limits>
#include <string>

#include "balance/quality.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/cp_layout.hpp"

namespace evenkeel::plan_checks {

void require_at_least(std::int64_t least, std::int64_t value, std::string_view key) {
  if (value >= least) return;
  throw ConfigError(std::string(key),
                    "is " + std::to_string(value) + "; it must be at least " + std::to_string(least));
}

void require_at_most(std::int64_t most, std::int64_t value, std::string_view key) {
  if (value <= most) return;
  throw ConfigError(std::string(key),
                    "is " + std::to_string(value) + "; it must be at most " + std::to_string(most));
}

void require_valid_size(std::int64_t value, std::string_view key) {
  require_at_least(1, value, key);
  require_at_most(std::numeric_limits<std::int32_t>::max(), value, key);
}

std::int64_t total_of(std::span<const std::int64_t> lengths) {
  return max_sum_lower_bound(lengths, 1);  // with a single group, the bound on the maximum sum is the total
}

void throw_above_cap(SampleId sample, const AboveCap& lengths, std::string_view cap_name) {
  // Largest possible cap. Cumulative lengths are 32-bit integers.
  constexpr std::int64_t largest_cap = std::numeric_limits<std::int32_t>::max();
  const bool fits_any = lengths.aligned <= largest_cap;
  throw LimitError(
      sample,
      "has " + format_plain_count(lengths.length, "token") +
          (lengths.alignment == 1 ? ""
                                  : ", " + std::to_string(lengths.aligned) + " after alignment to " +
                                        std::to_string(lengths.alignment)) +
          ", above the cap of " + format_plain_count(lengths.cap, "token"),
      fits_any ? "Raise " + std::string(cap_name) + " to at least " + std::to_string(lengths.aligned) +
                     ", or shorten or drop the sample"
               : "Shorten or drop the sample: the cap cannot be more than " + std::to_string(largest_cap));
}

void require_lengths_fit(std::span<const std::int64_t> lengths, std::int64_t alignment, std::int64_t cap) {
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0) continue;
    const std::int64_t aligned = align_up(lengths[i], alignment);
    if (aligned > cap)
      throw_above_cap(SampleId{static_cast<std::int64_t>(i)}, {lengths[i], aligned, alignment, cap},
                      "the cap");
  }
}

}  // namespace evenkeel::plan_checks
