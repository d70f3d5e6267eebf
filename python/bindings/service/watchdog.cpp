// The watchdog (include/evenkeel/watchdog/watchdog.hpp), whose functions may be the program's own.

#include "bindings/service/watchdog.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "bindings/service/gil.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/watchdog/watchdog.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

/// Calls Python with a text. What that raises nobody could catch: Python prints it.
void call(const py::object& function, const std::string& text) {
  const py::gil_scoped_acquire held;
  try {
    function(text);
  } catch (py::error_already_set& raised) {
    raised.discard_as_unraisable("evenkeel.Watchdog");
  }
}

std::unique_ptr<Watchdog, WithoutGil> make_watchdog(const Communicator& ranks, double seconds,
                                                    py::object tells, py::object ends) {
  // Where the program has no functions of its own, Python is not asked: a thread that is stuck may hold the
  // GIL.
  WatchdogSettings settings = ending_the_process(seconds);
  if (!tells.is_none()) {
    settings.tells = [own = shared(std::move(tells))](const WatchdogReport& report) {
      call(*own, report.text());
    };
  }
  if (!ends.is_none()) {
    settings.ends = [own = shared(std::move(ends))](const WatchdogReport& report) {
      call(*own, report.message);
    };
  }
  const py::gil_scoped_release release;
  return std::unique_ptr<Watchdog, WithoutGil>(new Watchdog(ranks, std::move(settings)));
}

}  // namespace

void bind_watchdog(py::module_& module) {
  py::class_<Watchdog, std::unique_ptr<Watchdog, WithoutGil>>(module, "Watchdog")
      .def(py::init(&make_watchdog), py::arg("ranks"), py::arg("seconds"), py::arg("tells"), py::arg("ends"))
      .def_static("tell_progress", &Watchdog::tell_progress);
}

}  // namespace evenkeel::python
