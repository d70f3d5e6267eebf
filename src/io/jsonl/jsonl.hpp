#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "io/files/input_file.hpp"
#include "io/files/line_files.hpp"
#include "io/files/lines.hpp"
#include "io/jsonl/schema.hpp"
#include "io/jsonl/writer.hpp"

namespace evenkeel {

/// Reads rollouts from JSON Lines, one object per line, such as
///
///     {"uid": "q1", "prompt_ids": [5, 6], "response_ids": [7], "reward": 1.0, "advantages": [0.5]}
///
/// Samples are in the order of `lines`, which may differ from the order in the files. A sample's `id` is the
/// number of its line. Its `group` is derived from its uid by group_of(); a sample without a uid, or with a
/// null uid, forms its own group. The batch has the field `input_ids` (int64, token: the prompt, then the
/// response; both may be empty), followed by the schema's fields in order.
///
/// Throws InputError at "PATH:LINE" (1-based) for malformed JSON, a line that is not an object, a repeated
/// key, missing prompt_ids or response_ids, a uid of another type, a token that is not an integer from 0 to
/// 2^63-1, and a field of the schema that is missing, does not have the number of rows that its kind
/// requires, or has elements that the field's dtype cannot represent. Throws IoError if reading fails.
/// `declared` must contain the formats with which the schema was inferred. O(bytes of the lines); lines that
/// are close together are read with one call.
[[nodiscard]] RaggedBatch read_samples(const LineFiles& files, std::span<const LineRef> lines,
                                       const JsonlSchema& schema, const DeclaredFormats& declared = {});

/// Returns the uids of these lines, in order; std::monostate for a uid that is missing or null. Throws
/// InputError if a line is not a JSON object or its uid is of another type, and IoError if reading fails.
[[nodiscard]] std::vector<Uid> read_uids(const LineFiles& files, std::span<const LineRef> lines);

/// Returns whether the line is a rollout, possibly an incomplete one: an object with prompt_ids or
/// response_ids. Throws InputError at "PATH:LINE" if the line is not a JSON object.
[[nodiscard]] bool is_rollout(const InputFile& file, const LineRef& line);

/// Returns whether any line's object has this key. Throws InputError at "PATH:LINE" if a line is not a JSON
/// object.
[[nodiscard]] bool any_has_key(const InputFile& file, std::span<const LineRef> lines, std::string_view key);

}  // namespace evenkeel
