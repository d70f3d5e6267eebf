#include "buffer/intake/request_body.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "io/jsonl/sample_outlines.hpp"

namespace evenkeel {
namespace {

constexpr const char* body_name = "body";
constexpr std::int64_t least_room = std::int64_t{16} << 10;
// Maximum number of bytes that expect() reserves.
constexpr std::int64_t max_expected = std::int64_t{8} << 20;
constexpr auto padding = static_cast<std::int64_t>(outline_padding);

}  // namespace

RequestBody::RequestBody(RequestBody&& other) noexcept
    : memory_(std::move(other.memory_)),
      size_(std::exchange(other.size_, 0)),
      room_(std::exchange(other.room_, 0)),
      file_(std::move(other.file_)) {}

void RequestBody::expect(std::int64_t bytes) {
  if (bytes > 0) make_room(std::min(bytes, max_expected) + padding);
}

void RequestBody::make_room(std::int64_t bytes) {
  if (bytes <= room_) return;
  auto* const memory = static_cast<char*>(std::realloc(memory_.get(), static_cast<std::size_t>(bytes)));
  if (memory == nullptr) throw IoError(body_name, "cannot be kept in memory", "Send the same request again");
  static_cast<void>(memory_.release());  // realloc has freed it
  memory_.reset(memory);
  room_ = bytes;
}

std::span<char> RequestBody::room() {
  const std::int64_t needed = size_ + 1 + padding;
  if (needed > room_) make_room(std::max({needed, 2 * room_, least_room}));
  return {memory_.get() + size_, static_cast<std::size_t>(room_ - padding - size_)};
}

void RequestBody::write(std::span<const char> bytes) {
  const std::int64_t needed = size_ + std::ssize(bytes) + padding;
  if (needed > room_) make_room(std::max({needed, 2 * room_, least_room}));
  if (!bytes.empty()) std::memcpy(memory_.get() + size_, bytes.data(), bytes.size());
  size_ += std::ssize(bytes);
}

RequestBody RequestBody::unpack_body(Packing packing, std::int64_t max_bytes) {
  RequestBody out;
  unpack(file(), packing, [&](std::span<const char> bytes) {
    if (out.size() + std::ssize(bytes) > max_bytes) {
      throw LimitError(body_name, "has more than " + std::to_string(max_bytes) + " bytes when decompressed",
                       "Split it into several requests");
    }
    out.write(bytes);
  });
  return out;
}

const InputFile& RequestBody::file() {
  if (file_) return *file_;
  make_room(size_ + padding);
  std::fill_n(memory_.get() + size_, padding, '\0');
  file_ = std::make_unique<InputFile>(body_name, bytes());
  return *file_;
}

}  // namespace evenkeel
