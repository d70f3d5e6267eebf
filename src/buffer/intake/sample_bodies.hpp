#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "evenkeel/batch/ragged_batch.hpp"
#include "io/jsonl/schema.hpp"

namespace evenkeel {

/// Form in which samples are sent and stored. All samples of a stream have the same form.
enum class SampleForm : std::uint8_t {
  lines,    ///< JSON Lines: a body is a line
  tensors,  ///< safetensors: a body is a safetensors file of one ragged sample
};

/// Detects the form of a body. The 8th byte is zero in a safetensors file of less than 2^56 bytes, but never
/// in a line.
[[nodiscard]] SampleForm detect_form(std::string_view body) noexcept;

/// Bytes around each body in the server's answer to a request for samples: a line break after a line, or the
/// body's size (u64, little-endian) before tensors. If fields were added to a sample of tensors, a line with
/// them follows it: {"values":[0.5]}.
struct BodyFrame {
  std::string before;
  std::string after;
};
/// `added` is a concatenation of bodies of added fields, each preceded by a comma. Precondition: it is empty,
/// or the body has tensors.
[[nodiscard]] BodyFrame make_body_frame(std::string_view body, std::string_view added = {});
/// Returns the body with its frame.
[[nodiscard]] std::string frame_body(std::string_view body);

/// Returns the JSON line of a sample with these lengths whose tokens are all 0. `fields` is the part of a
/// line that defines fields, such as `"reward":1,"values":[0.5]`.
[[nodiscard]] std::string make_line_with_zero_tokens(std::string_view fields, std::int64_t prompt,
                                                     std::int64_t response);

/// Parses samples that JobClient::fetch_samples() returned. Their ids are their arrival numbers, and their
/// groups are derived from their uids. `schema` has the fields of the stream, and `declared` the formats of
/// fields in lines. Throws InputError if a sample is malformed, the number of samples differs from that of
/// `arrivals`, or the fields do not match `schema`.
[[nodiscard]] RaggedBatch parse_samples(std::string_view bodies, std::span<const std::int64_t> arrivals,
                                        const JsonlSchema& schema, const DeclaredFormats& declared);

}  // namespace evenkeel
