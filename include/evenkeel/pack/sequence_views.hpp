#pragma once

#include <algorithm>
#include <cstdint>
#include <ranges>
#include <span>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"

namespace evenkeel {

/// One sequence of a micro-batch, for losses and metrics that are computed sequence by sequence (ROLL's
/// `_unpack_sequences`). A view: it must not outlive the micro-batch.
class SequenceView {
 public:
  SequenceView(const PackedMicroBatch& micro_batch, std::int64_t index) noexcept
      : micro_batch_(&micro_batch), index_(index) {}

  /// Its place in the micro-batch.
  [[nodiscard]] std::int64_t index() const noexcept { return index_; }
  [[nodiscard]] const SampleShape& sample() const noexcept {
    return micro_batch_->samples[static_cast<std::size_t>(index_)];
  }
  /// Whether it only stands in for missing samples.
  [[nodiscard]] bool filler() const noexcept { return sample().id == filler_sample; }
  /// Its rows in this CP rank's tensors, alignment and padding counted: cu_seqlens_padded / cp.
  [[nodiscard]] RowRange rows() const noexcept { return micro_batch_->layout.local_range(index_); }

  /// Its part of local values: `row_elements` elements a row, row after row. Every field of a sequence has
  /// the same rows, so that nothing has to be brought to its length first. Precondition: `local` holds all
  /// local rows of the micro-batch.
  template <typename T>
  [[nodiscard]] std::span<T> of(std::span<T> local, std::int64_t row_elements = 1) const noexcept {
    EVENKEEL_PRECONDITION(cheap, std::ssize(local) >= micro_batch_->layout.local_rows() * row_elements,
                          std::ssize(local), micro_batch_->layout.local_rows(), row_elements);
    const RowRange range = rows();
    return local.subspan(static_cast<std::size_t>(range.begin * row_elements),
                         static_cast<std::size_t>(range.size() * row_elements));
  }

 private:
  const PackedMicroBatch* micro_batch_;
  std::int64_t index_;
};

/// The sequences of a micro-batch in packed order, filler included: a random-access range of SequenceView.
[[nodiscard]] inline auto sequences_of(const PackedMicroBatch& micro_batch) {
  return std::views::iota(std::int64_t{0}, micro_batch.layout.size()) |
         std::views::transform([&micro_batch](std::int64_t i) { return SequenceView(micro_batch, i); });
}

/// Per-token values of one sample as if they had `length` entries: cut off, or followed by `pad` (ROLL's
/// `adjust_sequence_length`), for data that never went through the exchange. A random-access range; nothing
/// is copied. Precondition: length >= 0; `values` outlives it.
template <typename T>
[[nodiscard]] auto adjusted_to(std::span<const T> values, std::int64_t length, T pad) {
  EVENKEEL_PRECONDITION(cheap, length >= 0, length);
  return std::views::iota(std::int64_t{0}, length) | std::views::transform([values, pad](std::int64_t i) {
           return i < std::ssize(values) ? values[static_cast<std::size_t>(i)] : pad;
         });
}

}  // namespace evenkeel
