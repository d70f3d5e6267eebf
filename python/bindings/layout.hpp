#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstdint>

#include "bindings/words.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "evenkeel/pack/packed_layout.hpp"

namespace evenkeel::python {

inline constexpr std::array cp_layouts{
    Word<CpLayout>{CpLayout::zigzag, "zigzag"},
    Word<CpLayout>{CpLayout::contiguous, "contiguous"},
};

/// A context-parallel rank of a group. Throws InputError when there is none of that number.
[[nodiscard]] CpRank checked_rank(CpGroup cp, int rank);

/// Throws InputError for a size below 1 and a layout that there is none of.
[[nodiscard]] CpGroup checked_group(int size, std::string_view layout);

/// A group as an argument: a CpGroup, or the size of a zigzag one.
struct CpArgument {
  CpGroup group;
};

}  // namespace evenkeel::python

template <>
struct pybind11::detail::type_caster<evenkeel::python::CpArgument> {
  PYBIND11_TYPE_CASTER(evenkeel::python::CpArgument, const_name("Union[CpGroup, int]"));

  /// Throws InputError for a size below 1.
  bool load(handle source, bool /*convert*/) {
    if (isinstance<evenkeel::CpGroup>(source)) {
      value.group = source.cast<evenkeel::CpGroup>();
      return true;
    }
    make_caster<int> size;
    if (!size.load(source, true)) return false;
    value.group = evenkeel::python::checked_group(cast_op<int>(size), "zigzag");
    return true;
  }
};
