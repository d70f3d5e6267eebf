#include "io/samples/tensor_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "batch/integers.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

/// Float32 represents this number and all smaller whole numbers exactly.
constexpr double largest_whole_real = 1 << 24;

}  // namespace

std::optional<std::size_t> TensorFile::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(tensors_, name, &StoredTensor::name);
  if (found == tensors_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - tensors_.begin());
}

bool TensorFile::has_integers(std::size_t tensor) const noexcept {
  const std::optional<DType> dtype = tensors_[tensor].dtype;
  return dtype == DType::boolean || (dtype && is_integer(*dtype));
}

std::vector<std::int64_t> TensorFile::read_integers(std::size_t tensor, RowRange rows) const {
  const DType dtype = *tensors_[tensor].dtype;
  const auto count = static_cast<std::size_t>(rows.size() * row_elements(tensors_[tensor]));
  std::vector<std::int64_t> integers(count);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(integers));
  const std::size_t narrow = size_of(dtype);
  // Narrow elements are read into the end of the buffer and then widened into place, starting at its
  // beginning.
  const std::span<std::byte> elements = bytes.last(count * narrow);
  read_rows(tensor, rows, elements);
  const auto widen_reals = [&]<typename T>(T element) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(&element, elements.data() + i * sizeof element, sizeof element);
      if (std::trunc(element) != element || std::abs(element) > largest_whole_real) {
        throw InputError(path_, "tensor '" + tensors_[tensor].name + "' holds " + std::to_string(element) +
                                    "; whole numbers are needed");
      }
      integers[i] = static_cast<std::int64_t>(element);
    }
  };
  if (dtype == DType::float32) {
    widen_reals(float{});
    return integers;
  }
  if (dtype == DType::float64) {
    widen_reals(double{});
    return integers;
  }
  with_integer_type(dtype == DType::boolean ? DType::uint8 : dtype, [&]<typename T>(T element) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(&element, elements.data() + i * sizeof element, sizeof element);
      integers[i] = element;
    }
  });
  return integers;
}

std::int64_t row_elements(const StoredTensor& tensor) noexcept {
  std::int64_t elements = 1;
  for (std::size_t d = 1; d < tensor.shape.size(); ++d) elements *= tensor.shape[d];
  return elements;
}

}  // namespace evenkeel
