#include "buffer/values/value_cut.hpp"

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

std::int64_t size_of(const std::vector<AxisRange>& ranges) {
  std::int64_t size = 0;
  for (const AxisRange& range : ranges) size += range.end - range.begin;
  return size;
}

}  // namespace

ValueCut::ValueCut(const TensorForm& form, std::span<const AxisSlice> slices, std::size_t place,
                   const std::string& where)
    : form_(form) {
  for (const AxisSlice& slice : slices) {
    if (slice.axis >= std::ssize(form.shape)) {
      throw InputError(where, "has " + std::to_string(form.shape.size()) + " axes, but a slice is on axis " +
                                  std::to_string(slice.axis));
    }
    const std::vector<AxisRange>& ranges = slice.ranges_for(place);
    const auto axis = static_cast<std::size_t>(slice.axis);
    const std::int64_t size = form.shape[axis];
    if (!ranges.empty() && ranges.back().end > size) {
      throw InputError(where, "has " + std::to_string(size) + " positions along axis " +
                                  std::to_string(slice.axis) + ", but a range ends at " +
                                  std::to_string(ranges.back().end));
    }
    while (axes_.size() < axis) axes_.push_back({0, {{0, form.shape[axes_.size()]}}});
    axes_.push_back({0, ranges});
    form_.shape[axis] = size_of(ranges);
  }
  std::int64_t stride = bytes_of_element(form.type);
  for (std::size_t axis = form.shape.size(); axis-- > 0; stride *= form.shape[axis])
    if (axis < axes_.size()) axes_[axis].stride = stride;
  bytes_ = bytes_of(form_).value();
}

}  // namespace evenkeel
