#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel::python {

/// Adds Samples: a RaggedBatch, whose fields Python hands in and takes out as arrays.
void bind_samples(pybind11::module_& module);

/// A column as (name, dtype, kind, where samples have their rows or None, rows), in words and arrays: offsets
/// [samples + 1] or, where rows lie in common, [samples, 2] of where each sample's begin and end.
[[nodiscard]] pybind11::tuple description_of(Column& column);
/// The numbers of rows that samples have in a counted field, as Python tells them with its rows. Throws
/// InputError for None, and unless they add up to the rows.
[[nodiscard]] std::vector<std::int64_t> counts_of(const std::string& name, FieldKind kind,
                                                  const pybind11::array& rows,
                                                  const pybind11::object& counts);
/// The rows of a column as an array over its memory, which keeps it. Float types that NumPy lacks come as
/// integers of as many bytes. Writable unless they are somebody else's.
[[nodiscard]] pybind11::array rows_of(Column& column);
/// The column of an array of rows, copied. `dtype` is the word for it.
[[nodiscard]] FieldSpec spec_of(const std::string& name, const std::string& dtype, const std::string& kind,
                                const pybind11::array& rows);

}  // namespace evenkeel::python
