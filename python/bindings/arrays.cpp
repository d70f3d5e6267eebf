#include "bindings/arrays.hpp"

#include <cstring>
#include <limits>

#include "evenkeel/base/error.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

/// Whatever Python code knows to be an array, as one that shares its memory.
py::array array_from(py::handle object, const std::string& name) {
  const bool is_array =
      Py_IS_TYPE(object.ptr(), py::detail::npy_api::get().PyArray_Type_);  // and no subclass
  if (is_array) return py::reinterpret_borrow<py::array>(object);
  return py::module_::import("evenkeel._arrays").attr("as_numpy")(object, name);
}

std::string text_of(py::handle object) {
  return py::repr(object).cast<std::string>();
}

/// A whole number: an int, or what stands for one exactly, such as a NumPy integer. No bool, no float.
std::int64_t integer_of(py::handle object, const std::string& name, py::ssize_t at) {
  const std::string where = name + "[" + std::to_string(at) + "]";
  if (PyBool_Check(object.ptr()) || !PyIndex_Check(object.ptr()))
    throw InputError(where, "is " + text_of(object) + ", which is no whole number");
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(object.ptr()));
  if (!number) throw py::error_already_set();
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) throw InputError(where, "is " + text_of(number) + ", which does not fit into 64 bits");
  return value;
}

/// Of a list or tuple. What runs when an entry is looked at may change a list, so that its length is asked
/// each time.
std::vector<std::int64_t> integers_of_sequence(py::handle sequence, const std::string& name) {
  const bool is_list = PyList_Check(sequence.ptr());
  const auto length = [&] {
    return is_list ? PyList_GET_SIZE(sequence.ptr()) : PyTuple_GET_SIZE(sequence.ptr());
  };
  std::vector<std::int64_t> values;
  values.reserve(static_cast<std::size_t>(length()));
  for (py::ssize_t i = 0; i < length(); ++i) {
    PyObject* entry = is_list ? PyList_GET_ITEM(sequence.ptr(), i) : PyTuple_GET_ITEM(sequence.ptr(), i);
    int overflow = 1;
    if (PyLong_CheckExact(entry)) values.push_back(PyLong_AsLongLongAndOverflow(entry, &overflow));
    if (overflow == 0) continue;
    if (PyLong_CheckExact(entry)) values.pop_back();
    values.push_back(integer_of(py::reinterpret_borrow<py::object>(entry), name, i));
  }
  return values;
}

void require_dimension(const py::array& array, const std::string& name) {
  if (array.ndim() == 1) return;
  throw InputError(name, "has " + std::to_string(array.ndim()) + " dimensions; a list of numbers has one");
}

std::vector<std::int64_t> integers_of_array(const py::array& array, const std::string& name) {
  require_dimension(array, name);
  if (array.size() == 0) return {};
  const char kind = array.dtype().kind();
  if (kind != 'i' && kind != 'u') {
    throw InputError(
        name, "has the dtype " + text_of(array.dtype().attr("name")) + ", where whole numbers are needed",
        "Convert it where that is right: " + name + ".astype('int64')");
  }
  const auto values = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>::ensure(array);
  if (!values) throw py::error_already_set();
  std::vector<std::int64_t> copy(values.data(), values.data() + values.size());
  if (kind == 'u' && array.itemsize() == 8) {
    for (std::size_t i = 0; i < copy.size(); ++i) {
      if (copy[i] < 0)
        throw InputError(name + "[" + std::to_string(i) + "]",
                         "is a number above 2^63 - 1, which does not fit");
    }
  }
  return copy;
}

void require_plain(const py::array& array, const std::string& name) {
  if (py::cast<bool>(array.dtype().attr("hasobject"))) {
    throw InputError(
        name,
        "has the dtype " + text_of(array.dtype().attr("name")) + ": Python objects cannot be moved as bytes",
        "Pass an array of numbers");
  }
  if ((array.flags() & py::array::c_style) != 0) return;
  throw InputError(name, "is not contiguous, and nothing is copied silently",
                   "Pass numpy.ascontiguousarray(x), or x.contiguous() of a tensor");
}

void require_dtype(const py::array& array, const py::dtype& wanted, const std::string& name) {
  if (array.dtype().is(wanted) || array.dtype().equal(wanted)) return;
  const std::string needed = py::str(wanted.attr("name")).cast<std::string>();
  throw InputError(name,
                   "has the dtype " + text_of(array.dtype().attr("name")) + "; " + needed + " is needed",
                   "Convert it: x.astype('" + needed + "') of NumPy, x.to(torch." + needed + ") of PyTorch");
}

}  // namespace

std::vector<std::int64_t> integers_of(py::handle object, const std::string& name) {
  if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr())) return integers_of_sequence(object, name);
  return integers_of_array(array_from(object, name), name);
}

std::vector<std::int32_t> small_integers_of(py::handle object, const std::string& name) {
  std::vector<std::int32_t> small;
  for (const std::int64_t value : integers_of(object, name)) {
    if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::int32_t>::max())
      throw InputError(name + "[" + std::to_string(small.size()) + "]",
                       "is " + std::to_string(value) + ", which does not fit into 32 bits");
    small.push_back(static_cast<std::int32_t>(value));
  }
  return small;
}

std::span<const std::byte> bytes_of(const py::array& array, const std::string& name) {
  require_plain(array, name);
  return {static_cast<const std::byte*>(array.data()), static_cast<std::size_t>(array.nbytes())};
}

std::span<std::byte> writable_bytes_of(py::array& array, const std::string& name) {
  require_plain(array, name);
  if (!array.writeable())
    throw InputError(name, "is read-only", "Pass one that may be written, such as a copy");
  return {static_cast<std::byte*>(array.mutable_data()), static_cast<std::size_t>(array.nbytes())};
}

template <typename T>
std::span<const T> values_of(const py::array& array, const std::string& name) {
  require_dtype(array, py::dtype::of<T>(), name);
  const std::span<const std::byte> bytes = bytes_of(array, name);
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

template <typename T>
std::span<T> writable_values_of(py::array& array, const std::string& name) {
  require_dtype(array, py::dtype::of<T>(), name);
  const std::span<std::byte> bytes = writable_bytes_of(array, name);
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

template std::span<const std::uint8_t> values_of(const py::array&, const std::string&);
template std::span<const std::int64_t> values_of(const py::array&, const std::string&);
template std::span<const float> values_of(const py::array&, const std::string&);
template std::span<const double> values_of(const py::array&, const std::string&);
template std::span<float> writable_values_of(py::array&, const std::string&);
template std::span<double> writable_values_of(py::array&, const std::string&);
template std::span<std::int64_t> writable_values_of(py::array&, const std::string&);

std::int64_t checked_index(std::int64_t index, std::int64_t size, const std::string& name) {
  const std::int64_t from_start = index < 0 ? index + size : index;
  if (from_start < 0 || from_start >= size)
    throw py::index_error(name + " " + std::to_string(index) + " does not exist; there are " +
                          std::to_string(size));
  return from_start;
}

}  // namespace evenkeel::python
