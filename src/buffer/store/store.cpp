#include "buffer/store/store.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "base/hash.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

std::string_view describe_kind(RecordKind kind) {
  switch (kind) {
    case RecordKind::body:
      return "sample ";
    case RecordKind::event:
      return "event ";
    case RecordKind::note:
      return "note ";
    case RecordKind::seen:
      return "record of seen keys ";
  }
  return "record ";
}

// A store of values has the note `content_note`. A store of a stream has only the note `stream_note`.
constexpr const char* content_note = "content";
constexpr const char* stream_note = "identity";
constexpr const char* of_values = "values 1";

}  // namespace

void check_or_record_content(Store& store, StoreContent content) {
  const std::optional<std::string> noted = store.note(content_note);
  if (content == StoreContent::stream) {
    if (!noted) return;
    throw InputError(store.name(), "holds values, not samples of a stream",
                     "Open it with evenkeel store, or use another folder, or another name in Redis");
  }
  if (noted == of_values) return;
  if (noted || store.note(stream_note)) {
    throw InputError(
        store.name(),
        noted ? "holds content of version '" + *noted + "'; this program reads and writes '" + of_values + "'"
              : "holds samples of a stream, not values",
        noted ? "Use the program that wrote it"
              : "Open it with evenkeel buffer, or use another folder, or another name in Redis");
  }
  StoreChange change;
  change.notes[content_note] = of_values;
  store.commit(change);
  store.make_durable();
}

void require_room_for_bodies(const Store& store, const StoreChange& change, const std::string& where) {
  std::int64_t cost = 0;
  for (const StoreChange::Record& body : change.bodies) cost += store.cost_of(std::ssize(body.bytes));
  if (cost == 0 || store.bytes_in_use() + cost <= store.capacity()) return;
  throw LimitError(where,
                   "has no room for " + std::to_string(cost) +
                       " bytes: " + std::to_string(store.bytes_in_use()) + " bytes of " +
                       std::to_string(store.capacity()) + " are in use",
                   no_room_hint);
}

void StoreChange::drop_erased_additions() {
  std::ranges::sort(erased);
  const auto is_erased = [&](std::int64_t number) { return std::ranges::binary_search(erased, number); };
  std::erase_if(bodies, [&](const Record& body) { return is_erased(body.number); });
  std::erase_if(events, [&](const auto& event) { return is_erased(event.first); });
}

std::int64_t record_number_of_slot(const stream::GroupKey& slot) noexcept {
  return static_cast<std::int64_t>(slot.high ^ (slot.low << 1));
}

std::int64_t record_number_of_note(std::string_view name) noexcept {
  return static_cast<std::int64_t>(fnv1a_64(name));
}

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
                   std::string(describe_kind(kind)) +
                       std::to_string(number & (record_number_of_part(0, 1) - 1)) +
                       " is damaged: a record of " + format_plain_count(std::ssize(record), "byte") +
                       " has a wrong checksum",
                   "Check the disk, and restore the data from a backup");
}

}  // namespace evenkeel
