// The extension module evenkeel._core: the rooms that know no MPI, as Python calls them. What users see is in
// python/src/evenkeel; functions here take NumPy arrays and know nothing of tensors.

#include <pybind11/pybind11.h>

#include "bindings/bindings.hpp"
#include "bindings/drop_in/drop_in.hpp"
#include "bindings/errors.hpp"

PYBIND11_MODULE(_core, module) {
  using namespace evenkeel::python;
  module.attr("__version__") = EVENKEEL_VERSION;
  module.attr("pybind11_version") = pybind11::make_tuple(PYBIND11_VERSION_MAJOR, PYBIND11_VERSION_MINOR);
  bind_errors(module);
  bind_balance(module);
  bind_cost_model(module);
  bind_config(module);
  bind_layout(module);
  bind_packing(module);
  bind_padding(module);
  bind_prefix_groups(module);
  bind_prefix_tree(module);
  bind_routes(module);
  bind_losses(module);
  bind_plan(module);
  bind_drop_in(module);
}
