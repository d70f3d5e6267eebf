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

/// Rollouts as JSON lines: one object a line,
///
///     {"uid": "q1", "prompt_ids": [5, 6], "response_ids": [7], "reward": 1.0, "advantages": [0.5]}
///
/// read in the order of `lines`, which need not be that of the files. Each sample's `id` is its line's number
/// and its `group` comes from the uid, as group_of() has it: a sample without one, or whose uid is null, is a
/// group of its own. The batch has the field `input_ids` (int64, token: prompt then response, either may be
/// empty), then the schema's fields in order.
///
/// Throws InputError at "PATH:LINE" (1-based) for malformed JSON, a line that is no object, a key that is
/// there twice, missing prompt_ids or response_ids, a token that is not an integer of 0 .. 2^63-1, and a
/// field of the schema that is missing, has other rows than its kind asks for, or has elements that its dtype
/// cannot hold. `told` is what the schema was inferred with. Throws IoError. O(bytes of the lines); adjacent
/// lines are read together.
[[nodiscard]] RaggedBatch read_samples(const LineFiles& files, std::span<const LineRef> lines,
                                       const JsonlSchema& schema, const ToldFormats& told = {});

/// The uids of these lines, in this order. Throws as read_samples() does where a line has none that it could
/// be, is no JSON object, or cannot be read.
[[nodiscard]] std::vector<Uid> read_uids(const LineFiles& files, std::span<const LineRef> lines);

/// Whether the line is a rollout, or means to be one: an object with prompt_ids or response_ids. A line that
/// is no JSON object is an InputError at "PATH:LINE".
[[nodiscard]] bool is_rollout(const InputFile& file, const LineRef& line);

/// Whether the object of any of the lines has this key. Throws likewise.
[[nodiscard]] bool any_has_key(const InputFile& file, std::span<const LineRef> lines, std::string_view key);

}  // namespace evenkeel
