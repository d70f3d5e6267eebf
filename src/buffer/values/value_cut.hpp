#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "buffer/values/tensor_form.hpp"
#include "buffer/values/value_frame.hpp"

namespace evenkeel {

/// Part of a value: the positions that slices select along some axes, and all positions along the other axes.
class ValueCut {
 public:
  /// Cuts a value of this form. `slices` are sorted by axis, and not empty. `place` is the position of the
  /// value's index in the request's list of indexes. Throws InputError about `where` if an axis or a range is
  /// outside the value.
  ValueCut(const TensorForm& form, std::span<const AxisSlice> slices, std::size_t place,
           const std::string& where);

  /// Returns the element type and shape of the part.
  [[nodiscard]] const TensorForm& form() const noexcept { return form_; }
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }
  /// Calls take(offset, bytes) for each contiguous run of the part, in C order. Stops and returns false as
  /// soon as `take` returns false.
  template <typename Take>
  bool for_each_run(const Take& take) const {
    return bytes_ == 0 || visit(0, 0, take);
  }

 private:
  template <typename Take>
  bool visit(std::size_t axis, std::int64_t offset, const Take& take) const {
    const bool is_last = axis + 1 == axes_.size();
    const std::int64_t stride = axes_[axis].stride;
    for (const AxisRange& range : axes_[axis].ranges) {
      if (is_last && range.begin < range.end &&
          !take(offset + range.begin * stride, (range.end - range.begin) * stride))
        return false;
      for (std::int64_t at = range.begin; !is_last && at < range.end; ++at)
        if (!visit(axis + 1, offset + at * stride, take)) return false;
    }
    return true;
  }

  struct Axis {
    std::int64_t stride = 0;  // distance in bytes between consecutive positions along the axis
    std::vector<AxisRange> ranges;
  };
  std::vector<Axis> axes_;  // axes up to the last one that has a slice
  TensorForm form_;
  std::int64_t bytes_ = 0;
};

}  // namespace evenkeel
