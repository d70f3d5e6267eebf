#include "buffer/values/received_values.hpp"

#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

constexpr const char* sent_body = "body";
constexpr const char* frame_hint =
    "Send 8 bytes with the size of the JSON (little-endian), the JSON, and the values";

}  // namespace

std::span<char> ReceivedValues::receive_buffer() {
  if (part_ == Part::prefix) return std::span(prefix_).subspan(static_cast<std::size_t>(in_part_));
  if (part_ == Part::text) return std::span(text_).subspan(static_cast<std::size_t>(in_part_));
  if (next_ == places_.size()) return {&excess_, 1};
  const Place& place = places_[next_];
  return {blocks_[next_ % blocks_.size()].memory.get() + place.offset + in_part_,
          static_cast<std::size_t>(place.bytes - in_part_)};
}

void ReceivedValues::mark_received(std::int64_t bytes) {
  size_ += bytes;
  in_part_ += bytes;
  if (part_ == Part::prefix && in_part_ == std::ssize(prefix_)) {
    const std::uint64_t text = decode_size({prefix_.data(), prefix_.size()});
    if (text > static_cast<std::uint64_t>(max_head_of_frame)) {
      throw InputError(sent_body,
                       "begins with " + std::to_string(text) + " as the size of its JSON; the maximum is " +
                           std::to_string(max_head_of_frame),
                       frame_hint);
    }
    text_.resize(text);
    part_ = Part::text;
    in_part_ = 0;
  }
  if (part_ == Part::text && in_part_ == std::ssize(text_)) parse_head_and_allocate();
  if (part_ == Part::values && next_ == places_.size() && in_part_ > 0)
    throw InputError(sent_body, "has more bytes than its JSON describes", frame_hint);
  skip_full_places();
}

void ReceivedValues::parse_head_and_allocate() {
  head_ = parse_frame_head(text_);
  blocks_.resize(head_.indexes.size());
  places_.reserve(head_.fields.size() * blocks_.size());
  for (const FrameHead::Field& field : head_.fields) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const std::int64_t bytes = bytes_of(field.forms[i]).value();
      places_.push_back({blocks_[i].bytes, bytes});
      blocks_[i].bytes += bytes;
      values_bytes_ += bytes;
      if (values_bytes_ > most_) {
        throw LimitError(sent_body, "describes more than " + std::to_string(most_) + " bytes of values",
                         "Send fewer values in a request");
      }
    }
  }
  const std::int64_t described = size_ + values_bytes_;
  if (announced_ > 0 && announced_ != described) {
    throw InputError(sent_body,
                     "has " + format_plain_count(announced_, "byte") + ", but its JSON describes " +
                         std::to_string(described),
                     frame_hint);
  }
  for (Block& block : blocks_)
    block.memory = std::make_shared_for_overwrite<char[]>(static_cast<std::size_t>(block.bytes));
  text_.clear();
  part_ = Part::values;
  in_part_ = 0;
}

void ReceivedValues::skip_full_places() {
  while (part_ == Part::values && next_ < places_.size() && in_part_ == places_[next_].bytes) {
    ++next_;
    in_part_ = 0;
  }
}

std::vector<NewRecord> ReceivedValues::records() const {
  std::vector<NewRecord> records;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    NewRecord record{{head_.indexes[i], 0, {}}, blocks_[i].memory, blocks_[i].bytes};
    record.event.values.reserve(head_.fields.size());
    for (std::size_t field = 0; field < head_.fields.size(); ++field) {
      const Place& place = places_[field * blocks_.size() + i];
      record.event.values.push_back(
          {head_.fields[field].name, head_.fields[field].forms[i], place.offset, place.bytes});
    }
    records.push_back(std::move(record));
  }
  return records;
}

void ReceivedValues::require_complete() {
  if (part_ == Part::values && next_ == places_.size()) return;
  throw InputError(sent_body,
                   "ends after " + format_plain_count(size_, "byte") + ", in the middle of a frame",
                   frame_hint);
}

}  // namespace evenkeel
