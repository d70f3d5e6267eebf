#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace evenkeel::python {

/// Whole numbers out of a list, a tuple, an array or a tensor of one dimension, of any integer dtype and
/// strides. They are copied: nobody can change them, or free them, while the GIL is released. Throws
/// InputError that names `name` for whatever would have to be changed or guessed to become a list of int64.
[[nodiscard]] std::vector<std::int64_t> integers_of(pybind11::handle object, const std::string& name);
/// The same as int32. Throws InputError for numbers outside its range.
[[nodiscard]] std::vector<std::int32_t> small_integers_of(pybind11::handle object, const std::string& name);

/// The bytes of a C-contiguous array, to be read or written with the GIL released, while someone holds the
/// array. Throw InputError that names `name` for an array that is not contiguous, holds Python objects or is
/// read-only.
[[nodiscard]] std::span<const std::byte> bytes_of(const pybind11::array& array, const std::string& name);
[[nodiscard]] std::span<std::byte> writable_bytes_of(pybind11::array& array, const std::string& name);

/// Elements of a C-contiguous array of this dtype. Throw InputError as above, and for another dtype.
template <typename T>
[[nodiscard]] std::span<const T> values_of(const pybind11::array& array, const std::string& name);
template <typename T>
[[nodiscard]] std::span<T> writable_values_of(pybind11::array& array, const std::string& name);

/// A NumPy array over the memory of a vector, which it owns from now on.
template <typename T>
[[nodiscard]] pybind11::array_t<T> array_of(std::vector<T> values) {
  auto owner = std::make_unique<std::vector<T>>(std::move(values));
  const auto size = static_cast<pybind11::ssize_t>(owner->size());
  T* const data = owner->data();
  const pybind11::capsule release(owner.release(),
                                  [](void* memory) { delete static_cast<std::vector<T>*>(memory); });
  return pybind11::array_t<T>(size, data, release);
}

/// A NumPy array with a copy of these numbers: for short lists inside an object that must not change.
template <typename T>
[[nodiscard]] pybind11::array_t<T> copy_of(std::span<const T> values) {
  return pybind11::array_t<T>(static_cast<pybind11::ssize_t>(values.size()), values.data());
}

/// The values of ids, as integers.
template <typename Ids>
[[nodiscard]] auto integers_of_ids(const Ids& ids) {
  using Integer = decltype(ids.begin()->value());
  std::vector<Integer> values;
  values.reserve(ids.size());
  for (const auto id : ids) values.push_back(id.value());
  return array_of(std::move(values));
}

/// Throws InputError unless 0 <= index < size. Python's negative indices count from the end.
[[nodiscard]] std::int64_t checked_index(std::int64_t index, std::int64_t size, const std::string& name);

}  // namespace evenkeel::python
