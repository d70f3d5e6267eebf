#include "buffer/values/value_cut.hpp"

#include "base/text_layout.hpp"
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
      throw InputError(where,
                       "has " +
                           format_plain_count(static_cast<std::int64_t>(form.shape.size()), "axis", "axes") +
                           ", but a slice is on axis " + std::to_string(slice.axis),
                       "Slice along an axis of the value; axes are numbered from 0");
    }
    const std::vector<AxisRange>& ranges = slice.ranges_for(place);
    const auto axis = static_cast<std::size_t>(slice.axis);
    const std::int64_t size = form.shape[axis];
    if (!ranges.empty() && ranges.back().end > size) {
      throw InputError(where,
                       "has " + format_plain_count(size, "position") + " along axis " +
                           std::to_string(slice.axis) + ", but a range ends at " +
                           std::to_string(ranges.back().end),
                       "Send ranges within the shape of the value");
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
