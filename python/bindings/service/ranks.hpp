#pragma once

#include <pybind11/pybind11.h>

#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel::python {

/// Adds Ranks: a communicator of mpi4py, or a Python object that has the calls of ForeignRanks.
void bind_ranks(pybind11::module_& module);

}  // namespace evenkeel::python
