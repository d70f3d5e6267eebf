#include "page/length_histogram.hpp"

#include <algorithm>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

std::vector<std::int64_t> merged_pairs(const std::vector<std::int64_t>& bins) {
  std::vector<std::int64_t> merged((bins.size() + 1) / 2);
  for (std::size_t i = 0; i < bins.size(); ++i) merged[i / 2] += bins[i];
  return merged;
}

}  // namespace

void LengthHistogram::add(std::int64_t length) {
  EVENKEEL_PRECONDITION(cheap, length >= 0, length);
  shortest_ = samples_.empty() ? length : std::min(shortest_, length);
  longest_ = std::max(longest_, length);
  while (length / width_ >= most_bins) widen();
  const auto bin = static_cast<std::size_t>(length / width_);
  if (bin >= samples_.size()) {
    samples_.resize(bin + 1);
    tokens_.resize(bin + 1);
  }
  ++samples_[bin];
  tokens_[bin] += length;
}

void LengthHistogram::widen() {
  width_ *= 2;
  samples_ = merged_pairs(samples_);
  tokens_ = merged_pairs(tokens_);
}

}  // namespace evenkeel
