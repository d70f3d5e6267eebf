#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "buffer/intake/body_sink.hpp"
#include "buffer/values/value_frame.hpp"
#include "buffer/values/value_index.hpp"

namespace evenkeel {

/// A frame that is being received. Each value is read from the socket directly into its sample's memory
/// block. An in-memory store keeps this block, so the value is not copied.
class ReceivedValues final : public BodySink {
 public:
  /// `most` is the maximum number of bytes of all values in the frame.
  explicit ReceivedValues(std::int64_t most) : most_(most) {}

  void set_expected_bytes(std::int64_t bytes) override { announced_ = bytes; }
  [[nodiscard]] std::span<char> receive_buffer() override;
  /// Throws InputError about "body" if the frame's description is not valid or does not match its size, and
  /// LimitError if it describes too many values or bytes.
  void mark_received(std::int64_t bytes) override;
  [[nodiscard]] std::int64_t size() const noexcept override { return size_; }
  /// Throws InputError about "body" unless the whole frame was received. Call this before the functions
  /// below.
  void require_complete();

  [[nodiscard]] const FrameHead& head() const noexcept { return head_; }
  /// Returns one record per index. The records share the memory of this object.
  [[nodiscard]] std::vector<NewRecord> records() const;
  [[nodiscard]] std::int64_t bytes_of_values() const noexcept { return values_bytes_; }

 private:
  /// All values of one sample, concatenated in the order of the fields.
  struct Block {
    std::shared_ptr<char[]> memory;
    std::int64_t bytes = 0;
  };
  struct Place {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
  };

  void parse_head_and_allocate();
  void skip_full_places();

  enum class Part { prefix, text, values };
  const std::int64_t most_;
  std::int64_t announced_ = 0;
  std::int64_t size_ = 0;
  Part part_ = Part::prefix;
  std::int64_t in_part_ = 0;  // number of bytes received so far of the prefix, JSON text or current value
  std::array<char, frame_prefix> prefix_{};
  std::string text_;
  FrameHead head_;
  std::vector<Block> blocks_;
  std::vector<Place> places_;  // location of each value in its sample's block, by field and then by sample
  std::size_t next_ = 0;       // index in places_ of the value that is being received
  std::int64_t values_bytes_ = 0;
  char excess_ = 0;
};

}  // namespace evenkeel
