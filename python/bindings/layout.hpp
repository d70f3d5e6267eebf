#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/words.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "evenkeel/pack/packed_layout.hpp"
#include "evenkeel/pack/prefix/packed.hpp"

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

/// A schedule as a dict, by the names of the C++ struct; steps as (word, piece).
[[nodiscard]] inline pybind11::dict dict_of(DepthFirstSchedule schedule) {
  constexpr std::array kinds{"push", "visit", "pop"};
  std::vector<std::int64_t> rows;
  for (const RowRange& range : schedule.rows) rows.insert(rows.end(), {range.begin, range.end});
  pybind11::list steps;
  for (const auto [kind, piece] : schedule.steps)
    steps.append(pybind11::make_tuple(kinds.at(static_cast<std::size_t>(kind)), piece));
  pybind11::dict result;
  result["rows"] = array_of(std::move(rows)).reshape({-1, 2});
  result["parents"] = array_of(std::move(schedule.parents));
  result["keys_before"] = array_of(std::move(schedule.keys_before));
  result["steps"] = std::move(steps);
  result["most_keys"] = schedule.most_keys;
  result["most_kept"] = schedule.most_kept;
  result["computed_again"] = schedule.computed_again;
  return result;
}

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
