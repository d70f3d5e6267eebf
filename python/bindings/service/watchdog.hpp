#pragma once

#include <pybind11/pybind11.h>

namespace evenkeel::python {

/// Adds Watchdog (include/evenkeel/watchdog/watchdog.hpp).
void bind_watchdog(pybind11::module_& module);

}  // namespace evenkeel::python
