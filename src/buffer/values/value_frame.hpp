#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "buffer/values/tensor_form.hpp"

namespace evenkeel {

/// What a frame has: fields of samples, which an integer index names. A frame is the size of the JSON in 8
/// bytes (little-endian), this description as JSON, and the bytes of all values, field by field and within a
/// field index by index. docs/formats.md describes it.
struct FrameHead {
  struct Field {
    std::string name;
    std::vector<TensorForm> forms;  ///< one per index
  };
  std::vector<std::int64_t> indexes;
  std::vector<Field> fields;
};

inline constexpr std::size_t frame_prefix = 8;  ///< size of the number that begins a frame
inline constexpr std::int64_t max_bytes_of_frame = std::int64_t{512} << 20;
inline constexpr std::size_t max_values_of_frame = std::size_t{1} << 20;
/// Maximum size of a frame's JSON, and of other requests.
inline constexpr std::int64_t max_head_of_frame = std::int64_t{16} << 20;

/// Parses the JSON of a frame that is put. Throws InputError about "body" for anything but a legal
/// description: unique indexes from 0 on, and fields with names, known types and legal shapes. Throws
/// LimitError above max_values_of_frame.
[[nodiscard]] FrameHead parse_frame_head(std::string_view text);
/// Returns the start of a frame: everything before the values, which then begin at a multiple of 64 bytes.
[[nodiscard]] std::string encode_frame_start(const FrameHead& head);
/// Returns the number that begins a frame. Precondition: there are frame_prefix bytes.
[[nodiscard]] std::uint64_t size_in_prefix(std::string_view bytes) noexcept;

/// A range of positions along an axis.
struct AxisRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  friend bool operator==(const AxisRange&, const AxisRange&) = default;
};

/// Chooses positions along one axis of a field's values.
struct AxisSlice {
  std::int64_t axis = 0;
  std::vector<std::vector<AxisRange>> ranges;  ///< one list for all indexes, or one per index

  /// Returns the ranges for the index at this place in the list of indexes.
  [[nodiscard]] const std::vector<AxisRange>& ranges_for(std::size_t place) const {
    return ranges.size() == 1 ? ranges[0] : ranges[place];
  }
};

/// Values that a client wants.
struct ValueQuery {
  struct Field {
    std::string name;
    std::vector<AxisSlice> slices{};  ///< each on another axis
  };
  std::vector<std::int64_t> indexes;  ///< may repeat
  std::vector<Field> fields;
};
/// Parses the JSON {"indexes": [...], "fields": [...], "slices": {...}}. Throws InputError about "body", and
/// LimitError above max_values_of_frame.
[[nodiscard]] ValueQuery parse_query(std::string_view text);

/// Values to remove.
struct ValueSelection {
  std::optional<std::vector<std::int64_t>> indexes{};  ///< null for all
  std::optional<std::vector<std::string>> fields{};    ///< null for all
};
/// Parses {"indexes": [...], "fields": [...]} or {"all": true}. Throws InputError about "body".
[[nodiscard]] ValueSelection parse_selection(std::string_view text);

}  // namespace evenkeel
