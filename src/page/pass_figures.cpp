#include "page/pass_figures.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/pack/prefix/packed.hpp"
#include "plan/loss_weights.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t bytes_of_listed_figures() {
  std::size_t bytes = 0;
  for_each_figure(
      [&](const auto& figure) { bytes += sizeof(std::invoke(figure.of, std::declval<PassFigures&>())); });
  return bytes;
}
static_assert(bytes_of_listed_figures() == sizeof(PassFigures), "a figure of a pass is not in the list");

/// Calls combine(into, from) for two numbers, or for each pair of corresponding elements of two arrays.
template <typename Value, typename Combine>
void combine_numbers(Value& into, const Value& from, const Combine& combine) {
  if constexpr (std::is_arithmetic_v<Value>) {
    combine(into, from);
  } else {
    for (std::size_t i = 0; i < into.size(); ++i) combine(into[i], from[i]);
  }
}

}  // namespace

void add_loss_counts(const LengthTable& table, PassFigures& figures) {
  for (const LengthEntry& entry : table.entries()) {
    const std::int64_t tokens = loss_tokens_of(entry);
    figures.loss_tokens += tokens;
    figures.without_loss += tokens == 0 ? 1 : 0;
  }
}

std::string describe_repeated_tokens(const RepeatedTokens& repeated) {
  std::string parts;
  for (std::size_t l = 0; l < repeated.size(); ++l) {
    if (repeated[l] == 0) continue;
    parts += (parts.empty() ? "" : ", ") + format_with_commas(repeated[l]) + " " + repeat_reasons[l].words;
  }
  const auto limits = std::ranges::count_if(repeated, [](std::int64_t tokens) { return tokens > 0; });
  return limits == 1 ? parts : format_with_commas(sum_of(repeated)) + (parts.empty() ? "" : ": ") + parts;
}

nlohmann::json repeated_json(const RepeatedTokens& repeated) {
  nlohmann::json json;
  for (std::size_t l = 0; l < repeated.size(); ++l) json[repeat_reasons[l].key] = repeated[l];
  return json;
}

nlohmann::json sharing_json(const SharingSavings& savings, const RepeatedTokens& repeated) {
  return {{"tokens", savings.tokens},
          {"tokens_without", savings.repeated_tokens},
          {"score_entries", savings.score_entries},
          {"score_entries_without", savings.repeated_score_entries},
          {"tokens_repeated", sum_of(repeated)},
          {"repeated_by_reason", repeated_json(repeated)}};
}

void PassTotals::add(const PassFigures& pass) {
  if (passes_++ == 0) {
    sums_ = most_ = pass;
    return;
  }
  for_each_figure([&](const auto& figure) {
    const auto& more = std::invoke(figure.of, pass);
    combine_numbers(std::invoke(figure.of, sums_), more, [](auto& sum, auto value) { sum += value; });
    combine_numbers(std::invoke(figure.of, most_), more,
                    [](auto& most, auto value) { most = std::max(most, value); });
  });
}

PassFigures PassTotals::total() const {
  PassFigures total = sums_;
  for_each_figure([&](const auto& figure) {
    auto& value = std::invoke(figure.of, total);
    if (figure.adds == Adds::as_most) value = std::invoke(figure.of, most_);
    if (figure.adds != Adds::as_mean || passes_ == 0) return;
    if constexpr (std::is_same_v<decltype(value), double&>) value /= static_cast<double>(passes_);
  });
  return total;
}

}  // namespace evenkeel
