#include "buffer/store/store.hpp"

#include <array>
#include <span>

#include "base/hash.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

std::string_view words_for(RecordKind kind) {
  switch (kind) {
    case RecordKind::body:
      return "sample ";
    case RecordKind::event:
      return "event ";
    case RecordKind::note:
      return "note ";
    case RecordKind::seen:
      return "seen keys ";
  }
  return "record ";
}

}  // namespace

std::string record_header(RecordKind kind, std::int64_t number, std::string_view content) {
  std::array<unsigned char, 9> place{static_cast<unsigned char>(kind)};
  for (std::size_t i = 0; i < 8; ++i)
    place[i + 1] = static_cast<unsigned char>(static_cast<std::uint64_t>(number) >> (8 * i));
  const std::uint64_t hash = mix_64(hash_of_bytes(std::as_bytes(std::span(place))) ^
                                    hash_of_bytes(std::as_bytes(std::span(content))));
  const std::uint64_t sum = hash ^ hash >> 32;
  std::string header(record_overhead, '\0');
  for (std::size_t i = 0; i < record_overhead; ++i) header[i] = static_cast<char>(sum >> (8 * i));
  return header;
}

std::string_view record_content(RecordKind kind, std::int64_t number, std::string_view record,
                                const std::string& where) {
  const std::string_view header = record.substr(0, record_overhead);
  if (header.size() == record_overhead) {
    const std::string_view content = record.substr(record_overhead);
    if (record_header(kind, number, content) == header) return content;
  }
  throw InputError(where,
                   std::string(words_for(kind)) + std::to_string(number & (number_of_part(0, 1) - 1)) +
                       " of " + std::to_string(record.size()) + " bytes is damaged: its checksum is wrong",
                   "Check the disk, and put back a copy of the folder");
}

}  // namespace evenkeel
