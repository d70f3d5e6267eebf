// The configuration (include/evenkeel/config).

#include "evenkeel/config/config.hpp"

#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;

Config parse(const Texts& texts, const std::vector<std::string>& overrides) {
  std::vector<ConfigText> named;
  for (const auto& [yaml, name] : texts) named.push_back({yaml, name});
  const py::gil_scoped_release release;
  return parse_config(named, overrides);
}

Config load(const std::string& path, const std::vector<std::string>& overrides) {
  const py::gil_scoped_release release;
  return load_config(path, overrides);
}

py::dict settings_of(const Config& config) {
  py::dict settings;
  for (const ConfigSetting& setting : list_settings(config)) settings[setting.path.c_str()] = setting.value;
  return settings;
}

}  // namespace

void bind_config(py::module_& module) {
  py::class_<Config>(module, "Config")
      .def("to_yaml", &to_yaml)
      .def("settings", &settings_of)
      .def_property_readonly("profiles",
                             [](const Config& self) {
                               std::vector<std::string> names;
                               for (const auto& [name, profile] : self.profiles) names.push_back(name);
                               return names;
                             })
      .def("__eq__", [](const Config& a, const Config& b) { return a == b; })
      .def("__eq__", [](const Config&, const py::object&) { return false; });
  module.def("parse_config", &parse, py::arg("texts"), py::arg("overrides"));
  module.def("load_config", &load, py::arg("path"), py::arg("overrides"));
}

}  // namespace evenkeel::python
