#pragma once

#include <cstdint>
#include <vector>

namespace evenkeel {

/// How many samples have which length, for any lengths in the memory of a few numbers: bins of equal width,
/// the least power of two with which `most_bins` hold the longest. Exact: widths grow by merging pairs.
class LengthHistogram {
 public:
  static constexpr std::int64_t most_bins = 64;

  /// Precondition: length >= 0.
  void add(std::int64_t length);

  [[nodiscard]] std::int64_t width() const noexcept { return width_; }
  /// Samples of lengths [i * width, (i + 1) * width), up to the longest.
  [[nodiscard]] const std::vector<std::int64_t>& samples() const noexcept { return samples_; }
  [[nodiscard]] const std::vector<std::int64_t>& tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::int64_t shortest() const noexcept { return shortest_; }
  [[nodiscard]] std::int64_t longest() const noexcept { return longest_; }

 private:
  void widen();

  std::int64_t width_ = 1;
  std::vector<std::int64_t> samples_;
  std::vector<std::int64_t> tokens_;
  std::int64_t shortest_ = 0;
  std::int64_t longest_ = 0;
};

}  // namespace evenkeel
