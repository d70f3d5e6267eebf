#pragma once

#include <pybind11/pybind11.h>

namespace evenkeel::python {

/// Adds Service, Steps, Stream, State, Step and MicroBatch.
void bind_service(pybind11::module_& module);
void bind_step(pybind11::module_& module);
void bind_state(pybind11::module_& module);

}  // namespace evenkeel::python
