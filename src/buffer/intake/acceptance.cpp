#include "buffer/intake/acceptance.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/hash.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "pack/sample_fields.hpp"
#include "plan/schedule/row_conventions.hpp"
#include "plan/units/segments.hpp"
#include "stream/event.hpp"

namespace evenkeel {
namespace {

using nlohmann::json;

/// Returns whether moving the field's values to the rows that predict their tokens can fail.
bool may_fail_to_place_rows(const JsonlSchema& schema, const FieldSpec& spec, const Acceptance& acceptance) {
  if (acceptance.at.contains(spec.name)) return true;
  const bool is_of_labels =
      spec.name == labels_field || spec.name == loss_mask_field || spec.name == response_mask_field;
  return is_of_labels && (spec.rule().is_per_token() || schema.kind_open.contains(spec.name));
}

/// Returns the report of the InputError that `check` throws, or nullopt if it does not throw. The message
/// names the field but not the sample, which the caller knows.
template <typename Check>
std::optional<ErrorReport> catch_fault(Check&& check) {
  try {
    check();
    return std::nullopt;
  } catch (const InputError& error) {
    ErrorReport fault = error.report();
    const bool is_of_field = fault.where.starts_with("field ");
    if (is_of_field) fault.message = fault.where + " " + fault.message;
    if (is_of_field || !fault.samples.empty()) fault.message = "is invalid: " + fault.message;
    return fault;
  }
}

}  // namespace

bool Acceptance::declares_trees(const JsonlSchema& schema) const {
  return has_trees && schema.has_field(segment_ids_field);
}

bool Acceptance::depends_on_values(const JsonlSchema& schema) const {
  const auto must_place = [&](const FieldSpec& spec) { return may_fail_to_place_rows(schema, spec, *this); };
  return std::ranges::any_of(schema.fields, must_place) || declares_trees(schema) ||
         std::ranges::any_of(max_rows, [&](const auto& most) { return schema.has_field(most.first); });
}

json json_of(const Acceptance& acceptance) {
  json out{{"max_rows", acceptance.max_rows},
           {"shares_prompts", acceptance.shares_prompts},
           {"has_trees", acceptance.has_trees},
           {"predict_ahead", acceptance.predict_ahead},
           {"at", json::object()}};
  for (const auto& [field, at] : acceptance.at) out["at"][field] = name_of(at);
  if (acceptance.max_tokens) out["max_tokens"] = *acceptance.max_tokens;
  return out;
}

Acceptance parse_acceptance(const json& in) {
  try {
    Acceptance acceptance;
    if (in.contains("max_tokens"))
      acceptance.max_tokens = stream::require_integer(in["max_tokens"], "max_tokens");
    acceptance.max_rows = in.value("max_rows", acceptance.max_rows);
    acceptance.shares_prompts = in.value("shares_prompts", false);
    acceptance.has_trees = in.value("has_trees", false);
    acceptance.predict_ahead = in.value("predict_ahead", std::int64_t{0});
    const json conventions = in.value("at", json::object());
    for (const auto& [field, at] : conventions.items())
      acceptance.at.emplace(field, row_convention_of(at.get<std::string>()));
    return acceptance;
  } catch (const json::exception& error) {
    throw InputError("accepts", std::string("cannot be read: ") + error.what(),
                     "Use the same version of Evenkeel for the job, the buffer and its store");
  }
}

void require_usable_fields(const JsonlSchema& schema, const std::string& place, bool has_lines) {
  for (std::size_t f = 0; f < schema.fields.size(); ++f) {
    const FieldSpec& spec = schema.fields[f];
    const bool is_open = schema.kind_open.contains(spec.name) || schema.element_open.contains(spec.name);
    const auto fault = catch_fault([&] {
      require_usable_name(spec);
      if (!is_open) require_usable_form(spec);
    });
    if (!fault) continue;
    const FieldOrigin& origin = schema.origins[f];
    const std::int64_t line = std::max({origin.kind, origin.trailing, origin.dtype});
    throw InputError(has_lines ? place + ":" + std::to_string(line + 1) : place, fault->message,
                     fault->hint.empty() ? "Leave the field out, or rename it" : fault->hint);
  }
  const auto mask = std::ranges::find(schema.fields, response_mask_field, &FieldSpec::name);
  const bool is_loss_mask = mask != schema.fields.end() && mask->rule().is_cut();
  if (is_loss_mask && schema.has_field(loss_mask_field))
    throw InputError(
        place, "has both 'response_mask' and 'loss_mask', but each of them specifies which tokens carry loss",
        "Leave one out");
  require_different_names(schema.fields);
}

std::optional<ErrorReport> find_length_fault(std::int64_t prompt, std::int64_t response,
                                             const Acceptance& acceptance) {
  if (!acceptance.max_tokens || prompt + response <= *acceptance.max_tokens) return std::nullopt;
  return ErrorReport{ErrorKind::input,
                     {},
                     "has " + format_plain_count(prompt + response, "token") + "; the job accepts at most " +
                         std::to_string(*acceptance.max_tokens),
                     "Raise the job's limit (micro_batch.max_tokens, prefix.max_path_tokens or "
                     "batch.max_length), set batch.too_long, or send shorter samples",
                     -1};
}

std::optional<ErrorReport> find_value_fault(RaggedBatch sample, const Acceptance& acceptance) {
  return catch_fault([&] {
    NamedFields fields;
    for (const auto& [field, at] : acceptance.at) fields[field].at = at;
    normalize_rows_and_masks(sample, fields, acceptance.shares_prompts);
    if (acceptance.has_trees && sample.find(segment_ids_field) != nullptr)
      static_cast<void>(token_keys(sample, acceptance.predict_ahead));
    for (const auto& [name, most] : acceptance.max_rows) {
      const Column* const column = sample.find(name);
      if (column == nullptr || !is_counted(column->spec().kind) || column->rows() <= most) continue;
      throw InputError("field '" + name + "'",
                       "has " + format_plain_count(column->rows(), "row") + "; the job accepts at most " +
                           std::to_string(most),
                       "Raise the job's micro_batch.max_rows of the field");
    }
  });
}

std::optional<std::pair<std::int64_t, ErrorReport>> find_tree_fault(const RaggedBatch& group) {
  const std::vector<std::int64_t> keys = token_keys(group, 0);
  const std::span<const std::int64_t> tokens = group.at(input_ids_field).values<std::int64_t>();
  std::unordered_map<std::uint64_t, std::int64_t> token_after;  // token of a row, by hash of the path to it
  for (std::int64_t i = 0; i < group.size(); ++i) {
    const RowRange rows = group.rows_of(FieldKind::token, i);
    Fnv1a path;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const auto at = static_cast<std::size_t>(row);
      path.add(keys[at]);
      const auto [known, is_new] = token_after.emplace(path.value(), tokens[at]);
      if (is_new || known->second == tokens[at]) continue;
      return std::pair(
          i, ErrorReport{ErrorKind::input,
                         {},
                         "has the same segment_ids up to row " + std::to_string(row - rows.begin) +
                             " as another sample of its group, but a different token in that row: " +
                             std::to_string(tokens[at]) + " instead of " + std::to_string(known->second),
                         "Give segments with different tokens different numbers, or leave segment_ids out",
                         -1});
    }
  }
  return std::nullopt;
}

}  // namespace evenkeel
