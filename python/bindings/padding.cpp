// Padded tensors to ragged rows and back (include/evenkeel/pack/padded.hpp).

#include <string>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "bindings/masks.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/padded.hpp"

namespace evenkeel::python {
namespace py = pybind11;
PaddedMask mask_of(const py::array& mask) {
  if (mask.ndim() != 2)
    throw InputError("mask", "has " + std::to_string(mask.ndim()) + " dimensions; it needs [batch, seq]");
  const std::span<const std::byte> bytes = bytes_of(mask, "mask");
  if (mask.itemsize() != 1) throw InputError("mask", "must have one byte an entry");
  return {mask.shape(0), mask.shape(1), {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}};
}

std::size_t row_bytes_of(const py::array& rows, py::ssize_t leading_dimensions) {
  std::size_t bytes = static_cast<std::size_t>(rows.itemsize());
  for (py::ssize_t d = leading_dimensions; d < rows.ndim(); ++d)
    bytes *= static_cast<std::size_t>(rows.shape(d));
  return bytes;
}

namespace {

void remove(const py::array& mask, const py::array& padded, py::array ragged) {
  const PaddedMask places = mask_of(mask);
  const auto source = bytes_of(padded, "padded");
  const auto target = writable_bytes_of(ragged, "out");
  const std::size_t row_bytes = row_bytes_of(padded, 2);
  const py::gil_scoped_release release;
  remove_padding(places, row_bytes, source, target);
}

void restore(const py::array& mask, const py::array& ragged, const py::array& pad_row, py::array padded) {
  const PaddedMask places = mask_of(mask);
  const auto source = bytes_of(ragged, "ragged");
  const auto pad = bytes_of(pad_row, "pad");
  const auto target = writable_bytes_of(padded, "out");
  const std::size_t row_bytes = row_bytes_of(padded, 2);
  const py::gil_scoped_release release;
  restore_padding(places, row_bytes, source, pad, target);
}

std::vector<RowRange> ranges_of(py::handle begins, py::handle ends) {
  const std::vector<std::int64_t> first = integers_of(begins, "kept begins");
  const std::vector<std::int64_t> last = integers_of(ends, "kept ends");
  if (first.size() != last.size())
    throw InputError(
        "kept", std::to_string(first.size()) + " ranges begin and " + std::to_string(last.size()) + " end");
  std::vector<RowRange> ranges;
  for (std::size_t i = 0; i < first.size(); ++i) ranges.push_back({first[i], last[i]});
  return ranges;
}

void pad_to_the_right(py::handle lengths, py::handle begins, py::handle ends, const py::array& ragged,
                      const py::array& pad_row, py::array padded) {
  const std::vector<std::int64_t> of_rows = integers_of(lengths, "lengths");
  const std::vector<RowRange> kept = ranges_of(begins, ends);
  const auto source = bytes_of(ragged, "ragged");
  const auto pad = bytes_of(pad_row, "pad");
  const auto target = writable_bytes_of(padded, "out");
  const std::size_t row_bytes = row_bytes_of(padded, 2);
  const std::int64_t seq = padded.shape(1);
  const py::gil_scoped_release release;
  pad_right(of_rows, kept, seq, row_bytes, source, pad, target);
}

py::tuple predicting_rows(py::handle lengths, py::handle prompts) {
  std::vector<std::int64_t> begins;
  std::vector<std::int64_t> ends;
  for (const RowRange& range :
       response_prediction_rows(integers_of(lengths, "lengths"), integers_of(prompts, "prompt_lengths"))) {
    begins.push_back(range.begin);
    ends.push_back(range.end);
  }
  return py::make_tuple(array_of(std::move(begins)), array_of(std::move(ends)));
}

}  // namespace

void bind_padding(py::module_& module) {
  module.def(
      "lengths_of_mask", [](const py::array& mask) { return array_of(lengths_of(mask_of(mask))); },
      py::arg("mask").noconvert());
  module.def("remove_padding", &remove, py::arg("mask").noconvert(), py::arg("padded").noconvert(),
             py::arg("out").noconvert());
  module.def("restore_padding", &restore, py::arg("mask").noconvert(), py::arg("ragged").noconvert(),
             py::arg("pad").noconvert(), py::arg("out").noconvert());
  module.def("pad_right", &pad_to_the_right, py::arg("lengths"), py::arg("kept_begins"), py::arg("kept_ends"),
             py::arg("ragged").noconvert(), py::arg("pad").noconvert(), py::arg("out").noconvert());
  module.def("response_prediction_rows", &predicting_rows, py::arg("lengths"), py::arg("prompt_lengths"));
}

}  // namespace evenkeel::python
