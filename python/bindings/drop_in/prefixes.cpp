// Where the tokens of prefix groups stand, as index arrays for torch.

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <span>

#include "bindings/drop_in/drop_in.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/prefix/layout.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

using Numbers = std::vector<std::int64_t>;
using MaskArray = py::array_t<std::uint8_t, py::array::c_style>;

PrefixGroups groups_of(const py::iterable& group_info) {
  std::vector<Numbers> groups;
  for (const py::handle group : group_info)
    groups.push_back(whole_numbers(group, "group_info[" + std::to_string(groups.size()) + "]"));
  return PrefixGroups(groups);
}

PaddingSide side_of(const std::string& word) {
  if (word == "right") return PaddingSide::right;
  if (word == "left") return PaddingSide::left;
  throw InputError("padding_mode", "is '" + word + "'; it can be left, right or a mask");
}

/// Tokens as rows of a tensor whose first two dimensions are made one.
py::array_t<std::int64_t> flat_indices(const TokenPlaces& places) {
  py::array_t<std::int64_t> indices(static_cast<py::ssize_t>(places.size()));
  std::int64_t* next = indices.mutable_data();
  for (const TokenRun& run : places.runs()) {
    const std::int64_t first = run.row * places.shape().width + run.column;
    for (std::int64_t i = 0; i < run.size; ++i) *next++ = first + i;
  }
  return indices;
}

py::tuple shape_of(const TokenPlaces& places) {
  return py::make_tuple(places.shape().batch, places.shape().width);
}

py::array_t<std::uint8_t> token_mask_of(const TokenPlaces& places) {
  const std::vector<std::uint8_t> mask = places.mask();
  return py::array_t<std::uint8_t>({places.shape().batch, places.shape().width}, mask.data());
}

/// A class of this file's own: another binding of PrefixLayout may stand beside it.
struct PrefixPlaces {
  PrefixLayout layout;
};

/// (source rows, target rows, the target's shape)
py::tuple tuple_of(const TokenMap& map) {
  return py::make_tuple(flat_indices(map.source), flat_indices(map.target), shape_of(map.target));
}

py::tuple split_of(const PrefixLayout& layout, std::int64_t include_prefix_last, bool pad) {
  const PrefixSplit split = layout.split(include_prefix_last, pad ? ShortPrefix::pad : ShortPrefix::error);
  return py::make_tuple(tuple_of(split.prefix), token_mask_of(split.prefix.target), tuple_of(split.suffix),
                        token_mask_of(split.suffix.target));
}

PrefixPlaces places_by_mask(const py::iterable& group_info, const MaskArray& mask) {
  if (mask.ndim() != 2)
    throw InputError("padding_mode", "has " + std::to_string(mask.ndim()) + " dimensions; a mask has 2");
  const std::span entries(mask.data(), static_cast<std::size_t>(mask.size()));
  return {PrefixLayout(groups_of(group_info), PaddedMask{mask.shape(0), mask.shape(1), entries})};
}

py::array_t<std::int64_t> position_ids(const PrefixLayout& layout, std::int64_t padding) {
  const PaddedShape shape = layout.grouped().shape();
  return py::array_t<std::int64_t>({shape.batch, shape.width}, layout.position_ids(padding).data());
}

}  // namespace

void bind_drop_in_prefixes(py::module_& module) {
  py::class_<PrefixPlaces> places(module, "PrefixPlaces");
  places
      .def(py::init([](const py::iterable& group_info, const std::string& side) {
             return PrefixPlaces{PrefixLayout(groups_of(group_info), side_of(side))};
           }),
           py::arg("group_info"), py::arg("side"))
      .def(py::init(&places_by_mask), py::arg("group_info"), py::arg("mask"))
      .def(
          "split",
          [](const PrefixPlaces& self, std::int64_t include_prefix_last, bool pad) {
            return split_of(self.layout, include_prefix_last, pad);
          },
          py::arg("include_prefix_last"), py::arg("pad"))
      .def(
          "position_ids",
          [](const PrefixPlaces& self, std::int64_t padding) { return position_ids(self.layout, padding); },
          py::arg("padding"))
      .def_property_readonly("shape",
                             [](const PrefixPlaces& self) { return shape_of(self.layout.grouped()); });

  const auto add_mask = [&](const char* name, auto places_of) {
    places.def_property_readonly(
        name, [=](const PrefixPlaces& self) { return token_mask_of(places_of(self.layout)); });
  };
  add_mask("padding_mask", [](const PrefixLayout& layout) { return layout.grouped(); });
  add_mask("grouped_prefix_mask", [](const PrefixLayout& layout) { return layout.prefix().source; });
  add_mask("grouped_suffix_mask", [](const PrefixLayout& layout) { return layout.suffix().source; });
  add_mask("prefix_mask", [](const PrefixLayout& layout) { return layout.prefix().target; });
  add_mask("suffix_mask", [](const PrefixLayout& layout) { return layout.suffix().target; });
  add_mask("suffix_keys_mask", [](const PrefixLayout& layout) { return layout.suffix_keys().target; });

  const auto add_map = [&](const char* name, auto map_of) {
    places.def_property_readonly(name,
                                 [=](const PrefixPlaces& self) { return tuple_of(map_of(self.layout)); });
  };
  add_map("prefix", [](const PrefixLayout& layout) { return layout.prefix(); });
  add_map("suffix", [](const PrefixLayout& layout) { return layout.suffix(); });
  add_map("suffix_keys", [](const PrefixLayout& layout) { return layout.suffix_keys(); });
}

}  // namespace evenkeel::python
