// Memory that Python supplies (include/evenkeel/batch/field.hpp).

#include "bindings/service/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <utility>

#include "bindings/errors.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/field.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

/// Blocks that a Python callable gives, each a writable, contiguous buffer of at least as many bytes as it
/// was asked for, apart from all that are in use. They are kept until they come back. Called by any thread;
/// what it keeps is guarded by Python's lock.
class PythonMemory final : public std::pmr::memory_resource {
 public:
  explicit PythonMemory(py::object allocate) : allocate_(std::move(allocate)) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    const py::gil_scoped_acquire held;
    try {
      py::buffer buffer = allocate_(bytes + alignment - 1);
      void* first = memory_of(buffer, bytes, alignment);
      keep({std::move(buffer), static_cast<std::byte*>(first) + bytes}, static_cast<std::byte*>(first));
      return first;
    } catch (py::error_already_set& raised) {
      throw_as_ours(raised, "memory");
    } catch (const py::cast_error&) {
      throw InputError("memory", "gave no buffer");
    }
  }

  void do_deallocate(void* block, std::size_t /*bytes*/, std::size_t /*alignment*/) override {
    if (Py_IsInitialized() == 0) return;  // all of its memory has gone
    const py::gil_scoped_acquire held;
    blocks_.erase(static_cast<std::byte*>(block));
  }

  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  struct Block {
    py::buffer buffer;
    std::byte* end;
  };

  static void* memory_of(const py::buffer& buffer, std::size_t bytes, std::size_t alignment) {
    const py::buffer_info info = buffer.request(true);
    if (info.ndim != 1 || (info.size > 1 && info.strides[0] != info.itemsize))
      throw InputError("memory", "gave a buffer that is not one contiguous row");
    const std::size_t given = static_cast<std::size_t>(info.size * info.itemsize);
    void* first = info.ptr;
    std::size_t left = given;
    if (std::align(alignment, bytes, first, left) == nullptr) {
      throw InputError("memory", "was asked for " + std::to_string(bytes + alignment - 1) +
                                     " bytes and gave " + std::to_string(given));
    }
    return first;
  }

  void keep(Block block, std::byte* first) {
    const auto after = blocks_.lower_bound(first);
    const bool meets_next = after != blocks_.end() && after->first < block.end;
    const bool meets_last = after != blocks_.begin() && std::prev(after)->second.end > first;
    if (meets_next || meets_last) throw InputError("memory", "gave memory that is in use");
    blocks_.emplace_hint(after, first, std::move(block));
  }

  py::object allocate_;
  std::map<std::byte*, Block> blocks_;
};

// Columns may outlive everything else, and so does what they came from.
void set_memory(const py::object& allocate) {
  static std::pmr::memory_resource* before = nullptr;  // what there was when none of Python's was set
  if (allocate.is_none()) {
    if (before != nullptr) set_column_memory(*std::exchange(before, nullptr));
    return;
  }
  std::pmr::memory_resource* const last = set_column_memory(*new PythonMemory(allocate));
  if (before == nullptr) before = last;
}

}  // namespace

void bind_memory(py::module_& module) {
  module.def("set_memory", &set_memory, py::arg("allocate"));
}

}  // namespace evenkeel::python
