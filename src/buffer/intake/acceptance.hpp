#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/plan/field_settings.hpp"
#include "io/jsonl/schema.hpp"

namespace evenkeel {

/// Limits that a job sets on samples, in addition to the limits that apply to every job. The job declares
/// them when it begins.
struct Acceptance {
  std::optional<std::int64_t> max_tokens{};
  std::map<std::string, std::int64_t> max_rows{};  ///< limits of fields that count their own rows
  bool shares_prompts = false;                     ///< prompt tokens must not carry loss
  bool has_trees = false;                          ///< `segment_ids` define a tree of samples
  std::int64_t predict_ahead = 0;                  ///< pack.predict_ahead; above 0, trees are not accepted
  /// For each field: the row at which samples have a token's value.
  std::map<std::string, RowConvention> at{};

  /// Returns whether samples with these fields define a tree: has_trees is set, and they have `segment_ids`.
  [[nodiscard]] bool declares_trees(const JsonlSchema& schema) const;
  /// Returns whether find_value_fault() is needed for samples with these fields, so they must be parsed.
  /// Otherwise find_length_fault() is enough.
  [[nodiscard]] bool depends_on_values(const JsonlSchema& schema) const;

  friend bool operator==(const Acceptance&, const Acceptance&) = default;
};

/// Declaration with which a job begins at a buffer.
struct JobStart {
  bool takes_over = false;  ///< fences an earlier job even if it is still alive
  Acceptance acceptance{};
};

[[nodiscard]] nlohmann::json json_of(const Acceptance& acceptance);
/// Throws InputError if `in` is not the JSON of an Acceptance.
[[nodiscard]] Acceptance parse_acceptance(const nlohmann::json& in);

/// Throws InputError for a field that no job accepts: a field with a reserved name (require_usable_name()); a
/// field that others are derived from, such as loss_mask, with a wrong kind, dtype or shape
/// (require_usable_form()); or two loss masks. Properties that no sample has determined yet are not checked.
/// The error is at `place`:LINE if the samples are JSON Lines (`has_lines`), otherwise at `place`.
void require_usable_fields(const JsonlSchema& schema, const std::string& place, bool has_lines);

/// Returns why the job does not accept a sample of these lengths, or nullopt if it does.
[[nodiscard]] std::optional<ErrorReport> find_length_fault(std::int64_t prompt, std::int64_t response,
                                                           const Acceptance& acceptance);
/// Returns why the job does not accept the values of `sample`, a batch of one sample, or nullopt if it does.
[[nodiscard]] std::optional<ErrorReport> find_value_fault(RaggedBatch sample, const Acceptance& acceptance);

/// Returns the first sample that contradicts the tree of its group, with the reason, or nullopt. A sample
/// contradicts the tree if it has the same segment numbers as another sample but different tokens.
[[nodiscard]] std::optional<std::pair<std::int64_t, ErrorReport>> find_tree_fault(const RaggedBatch& group);

}  // namespace evenkeel
