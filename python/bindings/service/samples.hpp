#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel::python {

/// Adds Samples: a RaggedBatch, whose fields Python hands in and takes out as arrays.
void bind_samples(pybind11::module_& module);

/// The rows of a column as an array over its memory, which keeps it. Float types that NumPy lacks come as
/// integers of as many bytes. Writable unless they are somebody else's.
[[nodiscard]] pybind11::array rows_of(Column& column);
/// The column of an array of rows, copied. `dtype` is the word for it.
[[nodiscard]] FieldSpec spec_of(const std::string& name, const std::string& dtype, const std::string& kind,
                                const pybind11::array& rows);

}  // namespace evenkeel::python
