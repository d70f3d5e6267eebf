#pragma once

#include <pybind11/pybind11.h>

namespace evenkeel::python {

/// Each adds the names of one concept to the module; those that others use come first.
void bind_balance(pybind11::module_& module);
void bind_cost_model(pybind11::module_& module);
void bind_config(pybind11::module_& module);
void bind_layout(pybind11::module_& module);
void bind_losses(pybind11::module_& module);
void bind_packing(pybind11::module_& module);
void bind_padding(pybind11::module_& module);
void bind_plan(pybind11::module_& module);
void bind_prefix_groups(pybind11::module_& module);
void bind_prefix_tree(pybind11::module_& module);
void bind_routes(pybind11::module_& module);

}  // namespace evenkeel::python
