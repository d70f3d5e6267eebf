#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

namespace evenkeel::python {

/// Destroys it without the GIL, which its thread may want.
struct WithoutGil {
  template <typename T>
  void operator()(T* last) const {
    const pybind11::gil_scoped_release release;
    delete last;
  }
};

/// A Python object that any thread may let go of.
inline std::shared_ptr<pybind11::object> shared(pybind11::object object) {
  return {new pybind11::object(std::move(object)), [](pybind11::object* last) {
            const pybind11::gil_scoped_acquire held;
            delete last;
          }};
}

}  // namespace evenkeel::python
