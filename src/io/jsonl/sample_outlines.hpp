#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "io/files/lines.hpp"
#include "io/jsonl/schema.hpp"

namespace evenkeel {

/// A rollout's line, uid and lengths, without its tokens and field values.
struct SampleOutline {
  LineRef line;
  Uid uid;
  std::int64_t prompt = 0;    ///< number of prompt tokens
  std::int64_t response = 0;  ///< number of response tokens
  /// One entry per field name in `watched` (see outline_samples()), in order: the field's value if it is an
  /// integer; the minimum value if it is a list of runs; nullopt if the field is missing or has another
  /// value.
  std::vector<std::optional<std::int64_t>> watched_values;
};

struct SampleOutlines {
  JsonlSchema schema;
  std::vector<SampleOutline> samples;  ///< outlines of the samples, one per line that is not blank
};

/// Number of bytes after the text of outline_samples() that must be readable and must be zero.
inline constexpr std::size_t outline_padding = 128;

/// Reads the outlines of rollouts from text in memory. This is much faster than parsing, because most values
/// are only scanned, in one pass. The schema equals the result of infer_schema(), and read_samples() will not
/// throw for these lines. Returns nullopt if the text is too complex to guarantee this, or if `declared` has
/// a format other than `runs`. The text may still be valid, so call infer_schema() and read_samples() in that
/// case. `watched` contains names of fields. O(bytes).
[[nodiscard]] std::optional<SampleOutlines> outline_samples(std::string_view text,
                                                            const DeclaredFormats& declared,
                                                            std::span<const std::string_view> watched);

}  // namespace evenkeel
