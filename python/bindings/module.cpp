// The extension module evenkeel._core: the rooms that know no MPI, as Python calls them. What users see is in
// python/src/evenkeel; functions here take NumPy arrays and know nothing of tensors.

#include <pybind11/pybind11.h>

#include <array>
#include <cstddef>

#include "bindings/bindings.hpp"
#include "bindings/drop_in/drop_in.hpp"
#include "bindings/errors.hpp"
#include "evenkeel/batch/field.hpp"

namespace {

/// Returns (name, rows_per, form) of each field kind.
pybind11::tuple field_rules() {
  constexpr std::array rows_per{"token", "response_token", "sample", "own_count"};
  constexpr std::array form{"numbers", "text", "bytes"};
  pybind11::list rules;
  for (const evenkeel::FieldRule& rule : evenkeel::field_rules) {
    rules.append(pybind11::make_tuple(rule.name, rows_per[static_cast<std::size_t>(rule.rows_per)],
                                      form[static_cast<std::size_t>(rule.form)]));
  }
  return rules;
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  using namespace evenkeel::python;
  module.attr("__version__") = EVENKEEL_VERSION;
  module.attr("pybind11_version") = pybind11::make_tuple(PYBIND11_VERSION_MAJOR, PYBIND11_VERSION_MINOR);
  module.attr("field_rules") = field_rules();
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
