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
  /// Maximum number of rows per sample in fields with their own row counts, by name of the field.
  std::map<std::string, std::int64_t> max_rows{};
  bool shares_prompts = false;     ///< whether samples share prompts, so prompt tokens must not carry loss
  bool has_trees = false;          ///< whether `segment_ids` define a tree of samples
  std::int64_t predict_ahead = 0;  ///< pack.predict_ahead; trees are accepted only if it is 0
  /// Row conventions of fields (FieldSettings::at), by name of the field.
  std::map<std::string, RowConvention> at{};

  /// Returns whether samples with these fields define a tree: has_trees is set, and they have `segment_ids`.
  [[nodiscard]] bool declares_trees(const JsonlSchema& schema) const;
  /// Returns whether samples with these fields must be parsed and checked with find_value_fault(). If not,
  /// find_length_fault() is enough.
  [[nodiscard]] bool depends_on_values(const JsonlSchema& schema) const;

  friend bool operator==(const Acceptance&, const Acceptance&) = default;
};

/// Options of a job that begins at a buffer.
struct JobStart {
  bool takes_over = false;  ///< fences an earlier job even if it is still alive
  Acceptance acceptance{};
};

/// Result of accepting samples: the number of samples of one request, by outcome.
struct Intake {
  std::int64_t accepted = 0;    ///< new samples that were kept
  std::int64_t duplicates = 0;  ///< samples that the buffer had received before, or that the request repeats
  std::int64_t stale = 0;  ///< new samples that were dropped at once because they are too old to be trained
  /// New samples that were dropped at once because they or their group were aborted, or because their group
  /// was closed, is too small, has ended, or is already in a step.
  std::int64_t dropped = 0;
  std::int64_t version = 0;  ///< policy version after the request
};

[[nodiscard]] nlohmann::json json_of(const Acceptance& acceptance);
/// Throws InputError if `in` is not the JSON of an Acceptance.
[[nodiscard]] Acceptance parse_acceptance(const nlohmann::json& in);

/// Throws InputError if `schema` has fields that no job accepts: a field with a reserved name
/// (require_usable_name()); a field from which other fields are derived, such as loss_mask, with a wrong
/// kind, dtype or shape (require_usable_form()); two loss masks; or a field with the name of another field's
/// offsets (require_different_names()). The form of a field with an open property is not checked. For a
/// single field's name or form, the error names `place`:LINE if the samples are JSON Lines (`has_lines`),
/// otherwise `place`.
void require_usable_fields(const JsonlSchema& schema, const std::string& place, bool has_lines);

/// Returns why the job does not accept a sample with this many prompt and response tokens, or nullopt if it
/// does.
[[nodiscard]] std::optional<ErrorReport> find_length_fault(std::int64_t prompt, std::int64_t response,
                                                           const Acceptance& acceptance);
/// Returns why the job does not accept the values of `sample`, a batch of one sample, or nullopt if it does.
[[nodiscard]] std::optional<ErrorReport> find_value_fault(RaggedBatch sample, const Acceptance& acceptance);

/// Returns the position in `group` of the first sample that contradicts the group's tree, with the reason, or
/// nullopt if all samples fit. A sample contradicts the tree if it has the same segment numbers as another
/// sample up to some row, but a different token in that row.
[[nodiscard]] std::optional<std::pair<std::int64_t, ErrorReport>> find_tree_fault(const RaggedBatch& group);

}  // namespace evenkeel
