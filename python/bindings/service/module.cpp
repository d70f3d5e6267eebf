// The extension module evenkeel._service: what works over several processes. What users see is in
// python/src/evenkeel/{service,samples,steps}.py.

#include <pybind11/pybind11.h>

#include "bindings/errors.hpp"
#include "bindings/service/memory.hpp"
#include "bindings/service/ranks.hpp"
#include "bindings/service/samples.hpp"
#include "bindings/service/service.hpp"
#include "bindings/service/watchdog.hpp"

PYBIND11_MODULE(_service, module) {
  using namespace evenkeel::python;
  pybind11::module_::import("evenkeel._core");  // which knows the configuration
  bind_errors(module);
  bind_ranks(module);
  bind_watchdog(module);
  bind_memory(module);
  bind_samples(module);
  bind_state(module);
  bind_step(module);
  bind_service(module);
}
