#pragma once

#include <pybind11/pybind11.h>

#include <string>

namespace evenkeel::python {

/// Makes every evenkeel::Error that leaves C++ the Python exception of its kind (evenkeel/errors.py), and
/// lets Python raise one with the text that C++ makes.
void bind_errors(pybind11::module_& module);

/// Throws the Error of a kind, by its word.
[[noreturn]] void raise_error(const std::string& kind, const std::string& where, const std::string& message,
                              const std::string& hint);

/// Throws what Python raised: with its kind where it is one of Evenkeel's, else an InputError about `where`.
[[noreturn]] void throw_as_ours(pybind11::error_already_set& raised, const std::string& where);

}  // namespace evenkeel::python
