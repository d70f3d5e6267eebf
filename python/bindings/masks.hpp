#pragma once

#include <pybind11/numpy.h>

#include <cstddef>

#include "evenkeel/pack/padded.hpp"

namespace evenkeel::python {

/// A [batch, seq] mask of one byte an entry, over the array's memory. Throws InputError for another shape or
/// item size.
[[nodiscard]] PaddedMask mask_of(const pybind11::array& mask);

/// Bytes of one row of an array whose first dimensions name the row.
[[nodiscard]] std::size_t row_bytes_of(const pybind11::array& rows, pybind11::ssize_t leading_dimensions);

}  // namespace evenkeel::python
