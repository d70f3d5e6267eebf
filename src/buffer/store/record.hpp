#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace evenkeel {

/// What a record of a store is. The values are in its checksum.
enum class RecordKind : std::uint8_t { body = 1, event = 2, note = 3, seen = 4 };

/// The number of a record that has one of several parts of a value: the same number for the first part.
[[nodiscard]] constexpr std::int64_t number_of_part(std::int64_t number, std::int64_t part) noexcept {
  return number | part << 48;
}

/// The bytes of a record's checksum, which is stored in front of what it holds.
inline constexpr std::size_t record_overhead = 4;

/// The checksum of a record over its kind, its number and what it holds, so that a record in the place of
/// another one is found, too. A hash that is as fast as memory; for machines of one byte order.
[[nodiscard]] std::string record_header(RecordKind kind, std::int64_t number, std::string_view content);

/// What a record holds. Throws InputError about `where` if the record is too short or its checksum is wrong.
[[nodiscard]] std::string_view record_content(RecordKind kind, std::int64_t number, std::string_view record,
                                              const std::string& where);

}  // namespace evenkeel
