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

/// What a rollout's line says but for its tokens and fields.
struct SampleOutline {
  LineRef line;
  Uid uid;
  std::int64_t prompt = 0;    ///< tokens
  std::int64_t response = 0;  ///< tokens
  /// Of each watched field, in their order, its one integer, or the least of its runs. None where it has no
  /// such, or is not there.
  std::vector<std::optional<std::int64_t>> least;
};

struct SampleOutlines {
  JsonlSchema schema;
  std::vector<SampleOutline> samples;  ///< one a line that is not blank
};

/// Bytes behind a text that must be readable, and zeros.
inline constexpr std::size_t outline_padding = 128;

/// The rollouts of JSON lines in one pass, most of it much faster than a parser: for a text in memory of
/// which only this much is asked for now. The schema is that of infer_schema(), and read_samples() of these
/// lines throws nothing. None for a text that is not plain enough to know that: it may be good or bad, and
/// these say so, with what is wrong. Only what is written as `runs` may be told. O(bytes).
[[nodiscard]] std::optional<SampleOutlines> outline_samples(std::string_view text, const ToldFormats& told,
                                                            std::span<const std::string_view> watched);

}  // namespace evenkeel
