#include "cli/inspect/inspect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

namespace evenkeel::cli {
namespace {

constexpr std::int64_t widest_bar = 40;

std::int64_t quantile(const std::vector<std::int64_t>& sorted, double part) {
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
}

// Counts by the power of two a length is below.
std::string histogram(const std::vector<std::int64_t>& sorted) {
  std::map<int, std::int64_t> counts;
  for (const std::int64_t length : sorted)
    ++counts[static_cast<int>(std::bit_width(static_cast<std::uint64_t>(length)))];
  const std::int64_t most =
      std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; })->second;
  std::string text;
  for (const auto& [bits, count] : counts) {
    const auto bar = static_cast<std::size_t>((count * widest_bar + most - 1) / most);
    text += fmt::format("  < {:<8} {:>8}  {}\n", std::int64_t{1} << bits, count, std::string(bar, '#'));
  }
  return text;
}

}  // namespace

std::string length_statistics(std::vector<std::int64_t> lengths) {
  if (lengths.empty()) return "  no samples\n";
  std::ranges::sort(lengths);
  const auto sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const double mean = static_cast<double>(sum) / static_cast<double>(lengths.size());
  return fmt::format("  min {}  p50 {}  p90 {}  p99 {}  max {}  mean {:.1f}  sum {}\n", lengths.front(),
                     quantile(lengths, 0.5), quantile(lengths, 0.9), quantile(lengths, 0.99), lengths.back(),
                     mean, sum) +
         histogram(lengths);
}

}  // namespace evenkeel::cli
