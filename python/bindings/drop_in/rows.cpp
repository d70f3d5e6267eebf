// The rows of many micro-batches out of one tensor, in one go.

#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <vector>

#include "bindings/drop_in/drop_in.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

/// Where a tensor's rows stand in memory. Python keeps the tensors as long as this is used.
struct Rows {
  const std::byte* first = nullptr;
  std::int64_t count = 0;
  std::size_t bytes = 0;  ///< of one
};

void copy_group(const Rows& rows, std::span<const Item> group, std::byte* target) {
  for (const Item row : group) {
    std::memcpy(target, rows.first + static_cast<std::size_t>(row) * rows.bytes, rows.bytes);
    target += rows.bytes;
  }
}

/// Each thread takes the next group that none has taken.
void copy_groups(const Rows& rows, const Partition& groups, const std::vector<std::byte*>& targets,
                 std::int64_t threads) {
  std::atomic<std::int64_t> next = 0;
  const auto work = [&] {
    for (std::int64_t g = next++; g < groups.size(); g = next++)
      copy_group(rows, groups[g], targets[static_cast<std::size_t>(g)]);
  };
  std::vector<std::future<void>> others;
  for (std::int64_t t = 1; t < threads; ++t) others.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& other : others) other.get();
}

/// `source` and `targets` are addresses: of num_rows rows, and of as many as each partition has.
void take_rows(std::uintptr_t source, std::int64_t num_rows, std::size_t row_bytes,
               const py::iterable& partitions, const std::vector<std::uintptr_t>& targets,
               std::int64_t threads) {
  const Partition groups = partition_of(partitions);
  for (const Item row : groups.items()) {
    if (row < 0 || row >= num_rows)
      throw InputError("partitions", "name row " + std::to_string(row) + " of " + std::to_string(num_rows));
  }
  if (std::ssize(targets) != groups.size())
    throw InputError("targets",
                     std::to_string(targets.size()) + " for " + std::to_string(groups.size()) + " groups");
  if (row_bytes == 0) return;  // and no memory
  std::vector<std::byte*> memory;
  for (const std::uintptr_t address : targets) memory.push_back(reinterpret_cast<std::byte*>(address));
  constexpr std::size_t worth_a_thread = std::size_t{1} << 22;
  const std::size_t bytes = static_cast<std::size_t>(groups.num_items()) * row_bytes;
  const auto useful = static_cast<std::int64_t>(bytes / worth_a_thread) + 1;
  const py::gil_scoped_release release;
  copy_groups({reinterpret_cast<const std::byte*>(source), num_rows, row_bytes}, groups, memory,
              std::min(threads, useful));
}

}  // namespace

void bind_drop_in_rows(py::module_& module) {
  module.def("take_rows", &take_rows, py::arg("source"), py::arg("num_rows"), py::arg("row_bytes"),
             py::arg("partitions"), py::arg("targets"), py::arg("threads"));
}

}  // namespace evenkeel::python
