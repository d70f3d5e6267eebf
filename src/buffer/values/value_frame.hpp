#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "buffer/values/tensor_form.hpp"

namespace evenkeel {

/// Description of the values in a frame: one value for each field of each sample, which is identified by its
/// index. A frame consists of the size of the JSON in 8 bytes (little-endian), this description as JSON, and
/// the bytes of all values, ordered by field and then by index. docs/formats.md describes the format.
struct FrameHead {
  struct Field {
    std::string name;
    std::vector<TensorForm> forms;  ///< type and shape of the field's value for each index
  };
  std::vector<std::int64_t> indexes;
  std::vector<Field> fields;
};

/// Size in bytes of a frame's length prefix, which contains the size of the JSON.
inline constexpr std::size_t frame_prefix = 8;
inline constexpr std::int64_t max_bytes_of_frame = std::int64_t{512} << 20;
inline constexpr std::size_t max_values_of_frame = std::size_t{1} << 20;
/// Maximum size in bytes of a frame's JSON, and of the JSON of other requests.
inline constexpr std::int64_t max_head_of_frame = std::int64_t{16} << 20;

/// Parses the JSON of a frame that a client sends. Throws InputError about "body" unless the description is
/// valid: indexes are unique and non-negative, and fields have names, known types and valid shapes. Throws
/// LimitError if there are more than max_values_of_frame values.
[[nodiscard]] FrameHead parse_frame_head(std::string_view text);
/// Returns the start of a frame: everything before the values, padded so that the values begin at a multiple
/// of 64 bytes.
[[nodiscard]] std::string encode_frame_start(const FrameHead& head);
/// Convert a size to frame_prefix bytes (little-endian), as in a frame's length prefix, and back.
/// Precondition of decode_size(): there are at least frame_prefix bytes.
[[nodiscard]] std::string encode_size(std::uint64_t size);
[[nodiscard]] std::uint64_t decode_size(std::string_view bytes) noexcept;

/// Half-open range [begin, end) of positions along an axis.
struct AxisRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  friend bool operator==(const AxisRange&, const AxisRange&) = default;
};

/// Selects positions along one axis of a field's values.
struct AxisSlice {
  std::int64_t axis = 0;
  /// Ranges of the positions to select: a single list for all indexes of the query, or one list per index.
  std::vector<std::vector<AxisRange>> ranges;

  /// Returns the ranges for the index at position `place` in the query's list of indexes.
  [[nodiscard]] const std::vector<AxisRange>& ranges_for(std::size_t place) const {
    return ranges.size() == 1 ? ranges[0] : ranges[place];
  }
};

/// Values that a client requests.
struct ValueQuery {
  struct Field {
    std::string name;
    std::vector<AxisSlice> slices{};  ///< parts of the values to return, at most one slice per axis
  };
  std::vector<std::int64_t> indexes;  ///< indexes of the requested samples; may contain repetitions
  std::vector<Field> fields;
};
/// Parses the JSON {"indexes": [...], "fields": [...], "slices": {...}}. Throws InputError about "body" if it
/// is malformed, and LimitError if it requests more than max_values_of_frame values.
[[nodiscard]] ValueQuery parse_query(std::string_view text);

/// Values to remove.
struct ValueSelection {
  std::optional<std::vector<std::int64_t>> indexes{};  ///< indexes of samples; nullopt for all samples
  std::optional<std::vector<std::string>> fields{};    ///< names of fields; nullopt for all fields
};
/// Parses {"indexes": [...], "fields": [...]} or {"all": true}. Throws InputError about "body" if it is
/// malformed.
[[nodiscard]] ValueSelection parse_selection(std::string_view text);

}  // namespace evenkeel
