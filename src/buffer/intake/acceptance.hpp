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

/// What a job accepts of a sample, beside what every job does. The job declares it when it begins.
struct Acceptance {
  std::optional<std::int64_t> max_tokens{};
  std::map<std::string, std::int64_t> max_rows{};  ///< of fields with rows of their own
  bool shares_prompts = false;                     ///< no loss on tokens of prompts
  bool has_trees = false;                          ///< `segment_ids` say which tree samples make
  std::int64_t predict_ahead = 0;
  std::map<std::string, RowConvention> at{};  ///< where fields have the value of a token

  /// Whether samples with these fields tell which tree they make.
  [[nodiscard]] bool tells_trees(const JsonlSchema& schema) const;
  /// Whether samples with these fields must be parsed to know that they are accepted.
  [[nodiscard]] bool depends_on_values(const JsonlSchema& schema) const;

  friend bool operator==(const Acceptance&, const Acceptance&) = default;
};

/// How a job begins at a buffer.
struct JobStart {
  bool takes_over = false;  ///< from a job that is alive
  Acceptance acceptance{};
};

[[nodiscard]] nlohmann::json json_of(const Acceptance& acceptance);
/// Throws InputError for what is not such an object.
[[nodiscard]] Acceptance acceptance_of(const nlohmann::json& in);

/// Throws InputError, at `place`:LINE, for fields that no job accepts: they have the names of derived ones,
/// or other fields are derived from them and they have another form than that needs. What no sample has shown
/// yet may be anything.
void require_usable_fields(const JsonlSchema& schema, const std::string& place, bool has_lines);

/// Returns why the job does not accept a sample of these lengths, or nullopt if it does.
[[nodiscard]] std::optional<ErrorReport> fault_of_lengths(std::int64_t prompt, std::int64_t response,
                                                          const Acceptance& acceptance);
/// Returns why the job does not accept the values of `sample`, a batch of one sample, or nullopt if it does.
[[nodiscard]] std::optional<ErrorReport> fault_of_values(RaggedBatch sample, const Acceptance& acceptance);

/// Why the job cannot make the tree that the samples of one group tell, and which of them it is: it names the
/// same segments as another one, with another token.
[[nodiscard]] std::optional<std::pair<std::int64_t, ErrorReport>> fault_of_tree(const RaggedBatch& group);

}  // namespace evenkeel
