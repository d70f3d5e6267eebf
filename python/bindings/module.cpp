// The extension module evenkeel._core: the rooms that know no MPI, as Python calls them. What users see is in
// python/src/evenkeel; a function here takes NumPy arrays and says nothing of tensors.

#include <pybind11/pybind11.h>

#include "bindings/errors.hpp"

PYBIND11_MODULE(_core, module) {
  module.attr("__version__") = EVENKEEL_VERSION;
  evenkeel::python::bind_errors(module);
}
