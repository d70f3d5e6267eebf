#include "bindings/drop_in/drop_in.hpp"

#include <cmath>

#include "evenkeel/base/error.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

[[noreturn]] void refuse(py::handle value, const std::string& name, py::ssize_t at) {
  throw InputError(name + "[" + std::to_string(at) + "]",
                   "is " + py::repr(value).cast<std::string>() + ", which is no whole number of 64 bits");
}

std::int64_t whole_float(double value, py::handle object, const std::string& name, py::ssize_t at) {
  constexpr double limit = 9.0e18;
  if (!(std::abs(value) < limit) || std::trunc(value) != value) refuse(object, name, at);
  return static_cast<std::int64_t>(value);
}

std::int64_t whole_number(py::handle object, const std::string& name, py::ssize_t at) {
  if (PyFloat_Check(object.ptr())) return whole_float(PyFloat_AS_DOUBLE(object.ptr()), object, name, at);
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(object.ptr()));
  if (!number) {
    PyErr_Clear();
    refuse(object, name, at);
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) refuse(object, name, at);
  return value;
}

/// Arrays and tensors as a list; whatever else can be gone through, too.
py::object as_sequence(py::handle values, const std::string& name) {
  if (PyList_Check(values.ptr()) || PyTuple_Check(values.ptr()))
    return py::reinterpret_borrow<py::object>(values);
  if (py::hasattr(values, "tolist")) {
    py::object list = values.attr("tolist")();
    if (PyList_Check(list.ptr())) return list;
  } else if (!PyUnicode_Check(values.ptr()) && !PyBytes_Check(values.ptr()) &&
             py::isinstance<py::iterable>(values)) {
    return py::list(py::reinterpret_borrow<py::object>(values));
  }
  throw InputError(
      name, "is a " + std::string(Py_TYPE(values.ptr())->tp_name) + "; a list of whole numbers is needed");
}

py::object int_of(std::int64_t value) {
  PyObject* number = PyLong_FromLongLong(value);
  if (number == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(number);
}

}  // namespace

std::vector<std::int64_t> whole_numbers(py::handle values, const std::string& name) {
  const py::object sequence = as_sequence(values, name);
  const bool is_list = PyList_Check(sequence.ptr()) != 0;
  // Looking at an entry may run Python code that changes the list, so that its length is asked each time.
  const auto length = [&] {
    return is_list ? PyList_GET_SIZE(sequence.ptr()) : PyTuple_GET_SIZE(sequence.ptr());
  };
  std::vector<std::int64_t> numbers;
  numbers.reserve(static_cast<std::size_t>(length()));
  for (py::ssize_t i = 0; i < length(); ++i) {
    PyObject* entry = is_list ? PyList_GET_ITEM(sequence.ptr(), i) : PyTuple_GET_ITEM(sequence.ptr(), i);
    int overflow = 1;
    const long long value = PyLong_CheckExact(entry) ? PyLong_AsLongLongAndOverflow(entry, &overflow) : 0;
    numbers.push_back(overflow == 0 ? value
                                    : whole_number(py::reinterpret_borrow<py::object>(entry), name, i));
  }
  return numbers;
}

py::list list_of(std::span<const std::int64_t> values) {
  py::list list(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    PyList_SET_ITEM(list.ptr(), static_cast<py::ssize_t>(i), int_of(values[i]).release().ptr());
  return list;
}

py::list lists_of(const Partition& partition) {
  py::list lists(static_cast<std::size_t>(partition.size()));
  for (std::int64_t g = 0; g < partition.size(); ++g)
    PyList_SET_ITEM(lists.ptr(), static_cast<py::ssize_t>(g), list_of(partition[g]).release().ptr());
  return lists;
}

Partition partition_of(const py::iterable& groups) {
  std::vector<std::vector<Item>> lists;
  for (const py::handle group : groups)
    lists.push_back(whole_numbers(group, "partitions[" + std::to_string(lists.size()) + "]"));
  return Partition(lists);
}

void bind_drop_in(py::module_& module) {
  py::module_ drop_in = module.def_submodule("_drop_in", "What evenkeel/drop_in/*.py call.");
  bind_drop_in_partitions(drop_in);
  bind_drop_in_micro_batches(drop_in);
  bind_drop_in_packing(drop_in);
  bind_drop_in_prefixes(drop_in);
  bind_drop_in_rows(drop_in);
}

}  // namespace evenkeel::python
