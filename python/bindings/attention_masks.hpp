#pragma once

#include <pybind11/pybind11.h>

#include "evenkeel/pack/prefix/packed.hpp"

namespace evenkeel::python {

/// Adds the masks that attention kernels take as methods.
void bind_attention_masks(pybind11::class_<PackedTreeLayout>& layout);

}  // namespace evenkeel::python
