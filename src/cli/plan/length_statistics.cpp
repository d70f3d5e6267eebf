#include "cli/plan/length_statistics.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <numeric>

#include "base/text_layout.hpp"

namespace evenkeel::cli {
namespace {

constexpr std::int64_t widest_bar = 40;
constexpr std::int64_t before_bar = 23;

std::int64_t quantile(const std::vector<std::int64_t>& sorted, double part) {
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
}

// Counts by the power of two a length is below.
std::string histogram(const std::vector<std::int64_t>& sorted, std::size_t width) {
  const std::int64_t bar_width =
      std::clamp(static_cast<std::int64_t>(width) - before_bar, std::int64_t{1}, widest_bar);
  std::map<int, std::int64_t> counts;
  for (const std::int64_t length : sorted)
    ++counts[static_cast<int>(std::bit_width(static_cast<std::uint64_t>(length)))];
  const std::int64_t most =
      std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; })->second;
  std::string text;
  for (const auto& [bits, count] : counts) {
    const auto bar = static_cast<std::size_t>((count * bar_width + most - 1) / most);
    text += fmt::format("  < {:<8} {:>8}  {}\n", std::int64_t{1} << bits, count, std::string(bar, '#'));
  }
  return text;
}

}  // namespace

std::string length_statistics(std::vector<std::int64_t> lengths, std::size_t width) {
  if (lengths.empty()) return "  no samples\n";
  std::ranges::sort(lengths);
  const auto sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const auto figure = [](const char* name, const auto& value) {
    return kept_together(fmt::format("{} {}", name, value));
  };
  const double mean = static_cast<double>(sum) / static_cast<double>(lengths.size());
  const std::array figures{figure("min", lengths.front()),
                           figure("p50", quantile(lengths, 0.5)),
                           figure("p90", quantile(lengths, 0.9)),
                           figure("p99", quantile(lengths, 0.99)),
                           figure("max", lengths.back()),
                           figure("mean", fmt::format("{:.1f}", mean)),
                           figure("sum", sum)};
  return indented(fmt::to_string(fmt::join(figures, "  ")), 2, width) + histogram(lengths, width);
}

}  // namespace evenkeel::cli
