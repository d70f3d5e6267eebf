#include "plan/transfer/row_cuts.hpp"

#include <algorithm>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

std::string text_of(RowRange tokens) {
  return "[" + std::to_string(tokens.begin) + ", " + std::to_string(tokens.end) + ")";
}

/// Returns the first row whose tokens do not satisfy `is_satisfied`. Precondition: no row after it satisfies
/// `is_satisfied`. Binary search.
template <typename Predicate>
std::int64_t first_unsatisfied(const TokensOfRows& tokens, Predicate is_satisfied) {
  RowRange left{0, tokens.size()};
  while (!left.empty()) {
    const std::int64_t middle = left.begin + left.size() / 2;
    if (is_satisfied(tokens[middle])) {
      left.begin = middle + 1;
    } else {
      left.end = middle;
    }
  }
  return left.begin;
}

/// Returns an error about a field of one sample.
InputError make_field_error(const SampleShape& sample, const std::string& field, std::string message,
                            std::string hint) {
  return InputError({ErrorKind::input,
                     "field '" + field + "' of sample " + std::to_string(sample.id.value()),
                     std::move(message),
                     std::move(hint),
                     -1,
                     {sample.id}});
}

}  // namespace

void TokensOfRows::require_valid(const SampleShape& sample, const std::string& field) const {
  const std::int64_t length = sample.length();
  RowRange before;
  for (std::int64_t row = 0; row < size(); ++row) {
    const RowRange tokens = (*this)[row];
    const std::string said = "gives row " + std::to_string(row) + " the tokens " + text_of(tokens);
    if (tokens.begin < 0 || tokens.begin >= tokens.end || tokens.end > length) {
      throw make_field_error(sample, field, said + "; the sample has " + format_plain_count(length, "token"),
                             "Give each row at least one token of its sample, as [first, after the last]");
    }
    if (tokens.begin < before.begin || tokens.end < before.end) {
      throw make_field_error(
          sample, field,
          said + ", but the previous row has the tokens " + text_of(before) +
              "; neither the first nor the last token may come before that of the previous row",
          "Sort the rows by their first token, and do not let a row lie inside another one");
    }
    before = tokens;
  }
}

std::vector<RowRange> TokensOfRows::rows_overlapping(std::span<const RowRange> runs) const {
  std::vector<RowRange> chosen;
  for (const RowRange& run : runs) {
    const RowRange of_run{first_unsatisfied(*this, [&](RowRange tokens) { return tokens.end <= run.begin; }),
                          first_unsatisfied(*this, [&](RowRange tokens) { return tokens.begin < run.end; })};
    if (run.empty() || of_run.begin >= of_run.end) continue;
    if (!chosen.empty() && of_run.begin <= chosen.back().end) {
      chosen.back().end = std::max(chosen.back().end, of_run.end);
    } else {
      chosen.push_back(of_run);
    }
  }
  return chosen;
}

bool has_form_of_ranges(const FieldSpec& spec) {
  return spec == FieldSpec{spec.name, DType::int64, FieldKind::rows, {2}};
}

TokensOfRows tokens_of_rows(const Column& ranges, std::int64_t sample) {
  const RowRange rows = ranges.samples()[sample];
  return TokensOfRows(ranges.values<std::int64_t>().subspan(static_cast<std::size_t>(2 * rows.begin),
                                                            static_cast<std::size_t>(2 * rows.size())));
}

void require_valid_tokens_of_rows(const TokensOfRows& tokens, std::int64_t rows, const SampleShape& sample,
                                  const std::string& field, const std::string& by) {
  tokens.require_valid(sample, by);
  if (rows == tokens.size()) return;
  throw make_field_error(sample, field,
                         "has " + format_plain_count(rows, "row") + ", but '" + by + "' (fields." + field +
                             ".cut_by) has " + std::to_string(tokens.size()),
                         "Give '" + by + "' one range of tokens for each row of '" + field + "'");
}

RowCuts::RowCuts(std::string by, std::span<const int> group_sizes) : by_(std::move(by)) {
  first_.reserve(group_sizes.size() + 1);
  std::size_t next = 0;
  for (const int size : group_sizes) {
    first_.push_back(next);
    next += static_cast<std::size_t>(size);
  }
  first_.push_back(next);
  rows_.resize(next);
}

const RowCuts& find_cuts(std::span<const RowCuts> cuts, std::string_view field) {
  const auto found = std::ranges::find(cuts, field, &RowCuts::cutting_field);
  EVENKEEL_PRECONDITION(cheap, found != cuts.end(), field);
  return *found;
}

}  // namespace evenkeel
