#include "bindings/errors.hpp"

#include <array>
#include <string>

#include "evenkeel/base/error.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

struct ClassOfKind {
  ErrorKind kind;
  const char* word;
  const char* name;
};
constexpr std::array classes{
    ClassOfKind{ErrorKind::config, "config", "ConfigError"},
    ClassOfKind{ErrorKind::input, "input", "InputError"},
    ClassOfKind{ErrorKind::limit, "limit", "LimitError"},
    ClassOfKind{ErrorKind::mesh, "mesh", "MeshError"},
    ClassOfKind{ErrorKind::io, "io", "IoError"},
    ClassOfKind{ErrorKind::mpi, "mpi", "MpiError"},
    ClassOfKind{ErrorKind::end, "end", "EndOfSamples"},
};

const char* class_name_of(ErrorKind kind) noexcept {
  for (const ClassOfKind& known : classes) {
    if (known.kind == kind) return known.name;
  }
  return "Error";
}

void set_python_error(const Error& error) {
  const ErrorReport& report = error.report();
  const py::object type = py::module_::import("evenkeel.errors").attr(class_name_of(report.kind));
  const py::object value = type(error.what(), report.where, report.message, report.hint, report.rank);
  PyErr_SetObject(type.ptr(), value.ptr());
}

void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const Error& error) {
    set_python_error(error);
  }
}

}  // namespace

void raise_error(const std::string& kind, const std::string& where, const std::string& message,
                 const std::string& hint) {
  for (const ClassOfKind& known : classes) {
    if (kind == known.word) throw_error({known.kind, where, message, hint, -1});
  }
  throw py::value_error("no kind of error is called " + kind);
}

void throw_as_ours(py::error_already_set& raised, const std::string& where) {
  const py::object value = raised.value();
  if (py::isinstance(value, py::module_::import("evenkeel.errors").attr("Error"))) {
    const auto text = [&](const char* name) { return value.attr(name).cast<std::string>(); };
    raise_error(text("kind"), text("where"), text("message"), text("hint"));
  }
  throw InputError(where, raised.what());
}

void bind_errors(py::module_& module) {
  py::register_local_exception_translator(&translate);
  module.def("raise_error", &raise_error, py::arg("kind"), py::arg("where"), py::arg("message"),
             py::arg("hint") = "");
}

}  // namespace evenkeel::python
