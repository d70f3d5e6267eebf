#include "balance/context/waves/places.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

namespace evenkeel::context {
namespace {

/// Free ranks side by side in one node.
struct Gap {
  std::int64_t first = 0;
  std::int64_t left = 0;
};

std::vector<Gap> gaps_from(std::int64_t first, std::int64_t ranks, std::int64_t ranks_per_node) {
  std::vector<Gap> gaps;
  while (first < ranks) {
    const std::int64_t end = std::min(ranks, (first / ranks_per_node + 1) * ranks_per_node);
    gaps.push_back({first, end - first});
    first = end;
  }
  return gaps;
}

std::optional<std::vector<std::int64_t>> places_in_nodes(std::span<const std::int64_t> sizes,
                                                         std::int64_t ranks, std::int64_t ranks_per_node) {
  std::vector<std::int64_t> places;
  std::int64_t first = 0;
  auto next = sizes.begin();
  for (; next != sizes.end() && *next > ranks_per_node; first += *next++) places.push_back(first);
  std::vector<Gap> gaps = gaps_from(first, ranks, ranks_per_node);
  for (; next != sizes.end(); ++next) {
    const auto gap = std::ranges::find_if(gaps, [&](const Gap& it) { return it.left >= *next; });
    if (gap == gaps.end()) return std::nullopt;
    places.push_back(gap->first);
    gap->first += *next;
    gap->left -= *next;
  }
  return places;
}

}  // namespace

std::vector<std::int64_t> places_in_wave(std::span<const std::int64_t> sizes, std::int64_t ranks,
                                         std::int64_t ranks_per_node) {
  if (auto places = places_in_nodes(sizes, ranks, ranks_per_node)) return *std::move(places);
  std::vector<std::int64_t> places(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), places.begin(), std::int64_t{0});
  return places;
}

}  // namespace evenkeel::context
