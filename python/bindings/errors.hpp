#pragma once

#include <pybind11/pybind11.h>

namespace evenkeel::python {

/// Makes every evenkeel::Error that leaves C++ the Python exception of its kind (evenkeel/errors.py), and
/// lets Python raise one with the text that C++ makes.
void bind_errors(pybind11::module_& module);

}  // namespace evenkeel::python
