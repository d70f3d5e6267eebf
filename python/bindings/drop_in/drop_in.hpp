#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel::python {

/// Adds the submodule drop_in: what evenkeel/drop_in/*.py, the functions under other projects' names, call.
void bind_drop_in(pybind11::module_& module);

/// Each adds a part of it.
void bind_drop_in_partitions(pybind11::module_& module);
void bind_drop_in_micro_batches(pybind11::module_& module);
void bind_drop_in_packing(pybind11::module_& module);
void bind_drop_in_prefixes(pybind11::module_& module);
void bind_drop_in_rows(pybind11::module_& module);

/// Whole numbers out of what users of those projects hand in: lists, tuples, arrays, tensors on any device,
/// with ints, floats without a fraction, and scalars of NumPy and torch in them. Throws InputError for
/// anything else.
[[nodiscard]] std::vector<std::int64_t> whole_numbers(pybind11::handle values, const std::string& name);

/// Lists of ints, as those projects return them.
[[nodiscard]] pybind11::list list_of(std::span<const std::int64_t> values);
[[nodiscard]] pybind11::list lists_of(const Partition& partition);

/// The inverse of lists_of.
[[nodiscard]] Partition partition_of(const pybind11::iterable& groups);

}  // namespace evenkeel::python
