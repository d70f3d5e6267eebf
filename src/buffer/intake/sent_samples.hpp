#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "evenkeel/batch/ragged_batch.hpp"
#include "io/jsonl/schema.hpp"

namespace evenkeel {

/// How the samples of a stream were sent, and are kept: all of them alike.
enum class SampleForm : std::uint8_t {
  lines,    ///< JSON Lines: a body is a line
  tensors,  ///< safetensors: a body is a safetensors file of one ragged sample
};

/// Which of them a body is. No line has a zero as its 8th byte, and every safetensors file of less than 2^56
/// bytes does.
[[nodiscard]] SampleForm form_of_body(std::string_view body) noexcept;

/// What the door answers when samples are asked for puts around each body: of lines, the end of the line; of
/// tensors, the number of its bytes before it (u64, little endian).
struct BodyFrame {
  std::string before;
  std::string after;
};
[[nodiscard]] BodyFrame frame_of(std::string_view body);
/// The body with them.
[[nodiscard]] std::string framed(std::string_view body);

/// The samples that JobClient::lines() gave, with the fields of the stream: ids are their arrival numbers,
/// groups are those of their uids. `told`: how lines write fields. Throws InputError where one is not what
/// was checked when it came.
[[nodiscard]] RaggedBatch sent_samples(std::string_view bodies, std::span<const std::int64_t> arrivals,
                                       const JsonlSchema& schema, const ToldFormats& told);

}  // namespace evenkeel
