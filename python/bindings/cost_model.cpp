// What a sample costs (include/evenkeel/cost/cost_model.hpp).

#include "evenkeel/cost/cost_model.hpp"

#include <string>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

std::int64_t not_negative(std::int64_t value, const std::string& name) {
  if (value < 0) throw InputError(name, std::to_string(value) + " is below 0");
  return value;
}

std::vector<std::int64_t> lengths_of_samples(py::handle object, const std::string& name) {
  std::vector<std::int64_t> lengths = integers_of(object, name);
  for (std::size_t i = 0; i < lengths.size(); ++i)
    not_negative(lengths[i], name + "[" + std::to_string(i) + "]");
  return lengths;
}

std::vector<Cost> costs_of_samples(const CostModel& model, py::handle tokens) {
  std::vector<Cost> costs = lengths_of_samples(tokens, "tokens");
  const py::gil_scoped_release release;
  for (Cost& cost : costs) cost = model(cost);
  return costs;
}

/// Of one length, or of many. A number has no length; arrays of one number have.
py::object cost_or_costs(const CostModel& model, const py::object& tokens) {
  if (PyIndex_Check(tokens.ptr()) && !py::hasattr(tokens, "__len__"))
    return py::int_(model(not_negative(tokens.cast<std::int64_t>(), "tokens")));
  return array_of(costs_of_samples(model, tokens));
}

CostModel from_model(std::int64_t hidden_size, std::int64_t layers, std::int64_t heads, std::int64_t ffn_size,
                     std::int64_t vocab_size, std::int64_t kv_heads, std::int64_t head_dim,
                     std::int64_t active_experts, std::int64_t shared_experts, std::int64_t shared_ffn_size,
                     std::int64_t sliding_window, bool backward) {
  return CostModel::from_model({.hidden_size = hidden_size,
                                .layers = layers,
                                .heads = heads,
                                .kv_heads = kv_heads,
                                .head_dim = head_dim,
                                .ffn_size = ffn_size,
                                .vocab_size = vocab_size,
                                .active_experts = active_experts,
                                .shared_experts = shared_experts,
                                .shared_ffn_size = shared_ffn_size,
                                .sliding_window = sliding_window,
                                .backward = backward});
}

CostModel cost_model(std::int64_t linear, std::int64_t quadratic, std::int64_t window) {
  return {not_negative(linear, "linear"), not_negative(quadratic, "quadratic"),
          not_negative(window, "window")};
}

}  // namespace

void bind_cost_model(py::module_& module) {
  py::class_<CostModel>(module, "CostModel",
                        R"(The work of a sample of s tokens: linear * s + quadratic * s**2.

With a sliding window of w tokens, the square of a longer sample becomes w**2 + 2 * w * (s - w).
``model(tokens)`` is the cost of one length, or an int64 array of the costs of many. Raises LimitError where one is 2**62
or more, InputError for a negative length.)")
      .def(py::init(&cost_model), py::kw_only(), py::arg("linear") = 1, py::arg("quadratic") = 0,
           py::arg("window") = 0)
      .def_static("tokens", &CostModel::tokens, "Every token costs 1.")
      .def_static("flops_7b", &CostModel::flops_7b,
                  "verl's and ROLL's constant for a 7B model: 24576 s + s**2.")
      .def_static(
          "from_model", &from_model, py::kw_only(), py::arg("hidden_size"), py::arg("layers"),
          py::arg("heads"), py::arg("ffn_size"), py::arg("vocab_size"), py::arg("kv_heads") = 0,
          py::arg("head_dim") = 0, py::arg("active_experts") = 1, py::arg("shared_experts") = 0,
          py::arg("shared_ffn_size") = 0, py::arg("sliding_window") = 0, py::arg("backward") = false,
          "From a transformer's shape, by counting FLOPs. 0 means: kv_heads as many as heads, head_dim "
          "hidden_size / heads, shared_ffn_size ffn_size, no sliding window. Raises InputError for a size "
          "that "
          "is missing or negative.")
      .def_readonly("linear", &CostModel::linear)
      .def_readonly("quadratic", &CostModel::quadratic)
      .def_readonly("window", &CostModel::window, "0: attention reaches all tokens.")
      .def("__call__", &cost_or_costs, py::arg("tokens"))
      .def(
          "of_group",
          [](const CostModel& self, std::int64_t prefix, py::handle suffixes) {
            return cost_of_group(self, not_negative(prefix, "prefix"),
                                 lengths_of_samples(suffixes, "suffixes"));
          },
          py::arg("prefix"), py::arg("suffixes"),
          "The work of samples that share a prefix of so many tokens, with the prefix once.")
      .def("__eq__", [](const CostModel& a, const CostModel& b) { return a == b; })
      .def("__eq__", [](const CostModel&, const py::object&) { return false; })
      .def("__hash__",
           [](const CostModel& self) {
             return py::hash(py::make_tuple(self.linear, self.quadratic, self.window));
           })
      .def("__repr__",
           [](const CostModel& self) {
             return "CostModel(linear=" + std::to_string(self.linear) +
                    ", quadratic=" + std::to_string(self.quadratic) +
                    ", window=" + std::to_string(self.window) + ")";
           })
      .def(py::pickle(
          [](const CostModel& self) { return py::make_tuple(self.linear, self.quadratic, self.window); },
          [](const py::tuple& state) {
            return cost_model(state[0].cast<std::int64_t>(), state[1].cast<std::int64_t>(),
                              state[2].cast<std::int64_t>());
          }));
}

}  // namespace evenkeel::python
