#include "config/suggest.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace evenkeel::config_detail {
namespace {

std::size_t tolerance(std::string_view word) {
  return std::max<std::size_t>(1, word.size() / 3);
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
/// O(|left| * |right|).
std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::vector<std::size_t>> cost(left.size() + 1, std::vector<std::size_t>(right.size() + 1));
  for (std::size_t i = 0; i <= left.size(); ++i) cost[i][0] = i;
  std::iota(cost[0].begin(), cost[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= left.size(); ++i) {
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const std::size_t replaced = cost[i - 1][j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1);
      cost[i][j] = std::min({replaced, cost[i - 1][j] + 1, cost[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[left.size()][right.size()];
}

/// As edit_distance, or more than `most`, at once where lengths tell.
std::size_t near_distance(std::string_view left, std::string_view right, std::size_t most) {
  const std::size_t apart = std::max(left.size(), right.size()) - std::min(left.size(), right.size());
  return apart > most ? apart : edit_distance(left, right);
}

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('.') + 1);
}

std::string_view parent(std::string_view path) {
  const auto dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
}

}  // namespace

std::optional<std::string> nearest_word(std::string_view word, std::span<const std::string> candidates) {
  std::optional<std::string> best;
  std::size_t best_distance = tolerance(word) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = near_distance(word, candidate, best_distance);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::optional<std::string> nearest_key(std::string_view path, std::span<const std::string> candidates) {
  const std::string_view word = last_part(path);
  std::optional<std::string> best;
  std::pair best_rank{tolerance(word) + 1, false};  // distance, then whether the section differs
  for (const std::string& candidate : candidates) {
    const std::size_t distance = std::min(near_distance(path, candidate, best_rank.first),
                                          near_distance(word, last_part(candidate), best_rank.first));
    const std::pair rank{distance, parent(path) != parent(candidate)};
    if (rank < best_rank) {
      best = candidate;
      best_rank = rank;
    }
  }
  return best;
}

std::string join(std::span<const std::string> words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

}  // namespace evenkeel::config_detail
