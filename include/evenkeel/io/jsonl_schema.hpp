#pragma once

#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/batch/field.hpp"
#include "evenkeel/io/lines.hpp"

namespace evenkeel {

/// The fields that the rollouts of a JSONL file carry beside uid, prompt_ids and response_ids. Every rank
/// infers it from the lines it sees; merging all of them in any order gives the schema of the whole.
///
/// What no line has shown yet is still open: `fields` then holds a stand-in (kind token; float32 elements
/// without trailing dimensions), and the first line that shows more decides. Stand-ins are what a reader uses
/// when nothing ever does.
struct JsonlSchema {
  bool empty = true;                   ///< no line was seen: the identity of merge()
  std::vector<FieldSpec> fields;       ///< sorted by name; dtypes are bool, int64 and float32
  std::set<std::string> kind_open;     ///< fields that may be token or response_token: all prompts were empty
  std::set<std::string> element_open;  ///< fields of which no element was seen: dtype and trailing are open
  std::set<std::string> ignored;       ///< names whose values are text, null, objects or lists of such

  friend bool operator==(const JsonlSchema&, const JsonlSchema&) = default;
};

/// The schema of these lines; `lines` are those of scan_lines() with their numbers in the file.
///
/// A number or boolean makes a `sample` field. A list whose outer length is the sample's tokens makes a
/// `token` field, its response tokens a `response_token` field; lists inside it are trailing dimensions.
/// Integers are int64, any real number makes float32, booleans are bool. An empty list that fits
/// neither, and a field called input_ids (it is made of prompt_ids and response_ids), are ignored.
///
/// Throws InputError at "PATH:LINE" (1-based) for a malformed line, one without prompt_ids or response_ids, a
/// list of any other length or of unequal rows, and whatever merge() refuses. Throws IoError.
[[nodiscard]] JsonlSchema infer_schema(const std::filesystem::path& path, std::span<const LineRef> lines);

/// What both schemas say together. Commutative, associative, idempotent; an empty schema changes nothing.
/// int64 and float32 make float32. Throws InputError when a field is in one and not in the other, or when
/// kinds, trailing dimensions, or booleans and numbers clash.
[[nodiscard]] JsonlSchema merge(const JsonlSchema& a, const JsonlSchema& b);

}  // namespace evenkeel
