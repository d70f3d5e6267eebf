#pragma once

#include <pybind11/pybind11.h>

namespace evenkeel::python {

/// Lets Python supply the memory of new columns (include/evenkeel/batch/field.hpp).
void bind_memory(pybind11::module_& module);

}  // namespace evenkeel::python
