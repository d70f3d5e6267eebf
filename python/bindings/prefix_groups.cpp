// One prefix, many suffixes, in padded tensors (include/evenkeel/pack/prefix: groups.hpp,
// layout.hpp).

#include <pybind11/stl.h>

#include <array>
#include <string>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "bindings/masks.hpp"
#include "bindings/words.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/prefix/layout.hpp"
#include "pack/prefix/tensors.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

constexpr std::array sides{Word<PaddingSide>{PaddingSide::right, "right"},
                           Word<PaddingSide>{PaddingSide::left, "left"}};
constexpr std::array short_prefixes{Word<ShortPrefix>{ShortPrefix::error, "error"},
                                    Word<ShortPrefix>{ShortPrefix::pad, "pad"}};

PrefixGroups groups_of(const py::iterable& group_info) {
  std::vector<std::vector<std::int64_t>> groups;
  for (const py::handle group : group_info)
    groups.push_back(integers_of(group, "group_info[" + std::to_string(groups.size()) + "]"));
  return PrefixGroups(groups);
}

std::vector<std::vector<std::int64_t>> info_of(const PrefixGroups& groups) {
  std::vector<std::vector<std::int64_t>> info;
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    info.push_back({groups.prefix(g)});
    const RowRange suffixes = groups.suffixes_of(g);
    for (std::int64_t i = suffixes.begin; i < suffixes.end; ++i) info.back().push_back(groups.suffix(i));
  }
  return info;
}

/// [batch, width] booleans out of a mask of bytes.
py::array_t<bool> booleans_of(const std::vector<std::uint8_t>& mask, PaddedShape shape) {
  py::array_t<bool> booleans({shape.batch, shape.width});
  std::ranges::copy(mask, booleans.mutable_data());
  return booleans;
}

py::array_t<std::int64_t> indices_of(const TokenPlaces& places) {
  std::vector<std::int64_t> indices;
  indices.reserve(static_cast<std::size_t>(places.size()));
  for (const TokenRun& run : places.runs()) {
    for (std::int64_t i = 0; i < run.size; ++i)
      indices.push_back(run.row * places.shape().width + run.column + i);
  }
  return array_of(std::move(indices));
}

py::tuple maps_of(const TokenMap& map) {
  return py::make_tuple(map.source, map.target);
}

/// What a copy of rows needs to know of a tensor [batch, width, ...] or, with heads, [batch, heads, width,
/// ...].
RowFormat format_of(const py::array& rows, bool heads_first) {
  const py::ssize_t leading = heads_first ? 3 : 2;
  if (rows.ndim() < leading)
    throw InputError("values", "have " + std::to_string(rows.ndim()) + " dimensions; at least " +
                                   std::to_string(leading) + " are needed");
  return {row_bytes_of(rows, leading), heads_first ? rows.shape(1) : 1};
}

void move_places(const TokenPlaces& from, const TokenPlaces& to, const py::array& values,
                 const py::array& pad, py::array out, bool heads_first, bool same_rows) {
  const RowFormat format = format_of(values, heads_first);
  const auto source = bytes_of(values, "values");
  const auto pad_row = bytes_of(pad, "pad");
  const auto target = writable_bytes_of(out, "out");
  const py::gil_scoped_release release;
  if (same_rows) return convert_padding(from, to, format, source, pad_row, target);
  move_tokens(from, to, format, source, target);
  fill_padding(to, format, pad_row, target);
}

void group_tensors(const PrefixLayout& layout, const py::array& prefix, const py::array& suffix,
                   const py::array& pad, py::array out, bool heads_first) {
  const RowFormat format = format_of(prefix, heads_first);
  const auto of_prefix = bytes_of(prefix, "prefix");
  const auto of_suffix = bytes_of(suffix, "suffix");
  const auto pad_row = bytes_of(pad, "pad");
  const auto target = writable_bytes_of(out, "out");
  const py::gil_scoped_release release;
  group(layout, format, of_prefix, of_suffix, pad_row, target);
}

void concat_tensors(const PrefixLayout& layout, const py::array& prefix, const py::array& prefix_mask,
                    const py::array& suffix, const py::array& suffix_mask, const py::array& pad,
                    py::array out) {
  const RowFormat format = format_of(prefix, false);
  const MaskedRows of_prefix{mask_of(prefix_mask), bytes_of(prefix, "prefix")};
  const MaskedRows of_suffix{mask_of(suffix_mask), bytes_of(suffix, "suffix")};
  const auto pad_row = bytes_of(pad, "pad");
  const auto target = writable_bytes_of(out, "out");
  const py::gil_scoped_release release;
  concat_input(layout, of_prefix, of_suffix, format.row_bytes, pad_row, target);
}

void bind_groups(py::module_& module) {
  py::class_<PrefixGroups>(module, "PrefixGroups",
                           R"(The lengths of b prefix groups in tokens: PrefixGrouper's group_info.

One list a group: the prefix's length, then those of its suffixes. Suffixes are numbered through all groups. Raises
InputError when there is no group, a group has no suffix or a length is negative.)")
      .def(py::init(&groups_of), py::arg("group_info"))
      .def_static(
          "from_masks",
          [](const py::array& prefix, const py::array& suffix, py::handle group_sizes) {
            const std::vector<std::int64_t> sizes = integers_of(group_sizes, "group_sizes");
            return PrefixGroups::from_masks(mask_of(prefix), mask_of(suffix), sizes);
          },
          py::arg("prefix_mask").noconvert(), py::arg("suffix_mask").noconvert(), py::arg("group_sizes"),
          "The groups of padded prefixes [b, any] and suffixes [n, any]: bool masks, and how many suffixes "
          "each group has.")
      .def("__len__", &PrefixGroups::size)
      .def_property_readonly("num_suffixes", &PrefixGroups::num_suffixes)
      .def_property_readonly(
          "prefixes", [](const PrefixGroups& self) { return copy_of(self.prefixes()); },
          "Lengths of all prefixes: [b] int64.")
      .def_property_readonly(
          "suffixes", [](const PrefixGroups& self) { return copy_of(self.suffixes()); },
          "Lengths of all suffixes, group after group: [n] int64.")
      .def("to_lists", &info_of, "The group_info.")
      .def("__eq__", [](const PrefixGroups& a, const PrefixGroups& b) { return a == b; })
      .def("__eq__", [](const PrefixGroups&, const py::object&) { return false; })
      .def("__repr__",
           [](const PrefixGroups& self) {
             return "PrefixGroups(" + py::repr(py::cast(info_of(self))).cast<std::string>() + ")";
           })
      .def(py::pickle([](const PrefixGroups& self) { return info_of(self); },
                      [](const std::vector<std::vector<std::int64_t>>& info) { return PrefixGroups(info); }));
}

void bind_places(py::module_& module) {
  py::class_<TokenPlaces>(module, "TokenPlaces",
                          R"(Where tokens 0..n-1 stand in a padded [batch, width] tensor.

Two of them with equally many tokens are a copy, in either direction.)")
      .def_static(
          "of_mask", [](const py::array& mask) { return TokenPlaces(mask_of(mask)); },
          py::arg("mask").noconvert(), "Where a bool mask [batch, width] is set, row after row.")
      .def_static(
          "of_lengths",
          [](py::handle lengths, const py::object& width, const std::string& side) {
            const std::vector<std::int64_t> of_rows = integers_of(lengths, "lengths");
            const PaddingSide chosen = value_of(sides, side, "side");
            return width.is_none() ? padded_to_longest(of_rows, chosen)
                                   : TokenPlaces(of_rows, width.cast<std::int64_t>(), chosen);
          },
          py::arg("lengths"), py::kw_only(), py::arg("width") = py::none(), py::arg("side") = "right",
          "Dense rows of these lengths, padded on one side up to width, by default to the longest.")
      .def("__len__", &TokenPlaces::size)
      .def_property_readonly(
          "shape",
          [](const TokenPlaces& self) { return py::make_tuple(self.shape().batch, self.shape().width); },
          "(batch, width)")
      .def(
          "mask", [](const TokenPlaces& self) { return booleans_of(self.mask(), self.shape()); },
          "bool [batch, width]: where tokens stand.")
      .def("indices", &indices_of,
           "row * width + column of every token: [n] int64, for index_select and index_add on a flattened "
           "tensor.")
      .def("__eq__", [](const TokenPlaces& a, const TokenPlaces& b) { return a == b; })
      .def("__eq__", [](const TokenPlaces&, const py::object&) { return false; });
}

void bind_prefix_layout(py::module_& module) {
  py::class_<PrefixLayout>(module, "PrefixLayout",
                           R"(Shared-prefix tensors of b groups with n suffixes, after PrefixGrouper.

Where every token stands in the grouped tensor [b, s], ``[prefix | suffix 1 | ... | suffix G]`` a row; in the prefix tensor
[b, sp], left-padded; and in the suffix tensor [n, ss], right-padded. ``padding`` is the side of the grouped tensor's
padding; ``mask``, bool [b, s], gives the tokens' places instead.)")
      .def(py::init([](const PrefixGroups& groups, const std::string& padding, const py::object& mask) {
             return mask.is_none() ? PrefixLayout(groups, value_of(sides, padding, "padding"))
                                   : PrefixLayout(groups, mask_of(mask.cast<py::array>()));
           }),
           py::arg("groups"), py::kw_only(), py::arg("padding") = "right", py::arg("mask") = py::none())
      .def_property_readonly("groups", &PrefixLayout::groups)
      .def_property_readonly("grouped", &PrefixLayout::grouped, "TokenPlaces in the grouped tensor.")
      .def_property_readonly(
          "prefix", [](const PrefixLayout& self) { return maps_of(self.prefix()); },
          "TokenPlaces of the prefixes in the grouped tensor, and in the prefix tensor.")
      .def_property_readonly(
          "suffix", [](const PrefixLayout& self) { return maps_of(self.suffix()); },
          "TokenPlaces of the suffixes in the grouped tensor, and in the suffix tensor.")
      .def(
          "suffix_keys", [](const PrefixLayout& self) { return maps_of(self.suffix_keys()); },
          "What suffix attention attends to, [n, sp + ss]: places in the grouped tensor, and there.")
      .def(
          "split",
          [](const PrefixLayout& self, std::int64_t include_prefix_last, const std::string& short_prefix) {
            const PrefixSplit split =
                self.split(include_prefix_last, value_of(short_prefixes, short_prefix, "short_prefix"));
            return py::make_tuple(maps_of(split.prefix), maps_of(split.suffix));
          },
          py::arg("include_prefix_last") = 0, py::kw_only(), py::arg("short_prefix") = "error",
          "The last tokens of every prefix handed over to each of its suffixes: (prefix, suffix), each as "
          "above.")
      .def(
          "position_ids",
          [](const PrefixLayout& self, std::int64_t padding) {
            const PaddedShape shape = self.grouped().shape();
            py::array_t<std::int64_t> ids({shape.batch, shape.width});
            std::ranges::copy(self.position_ids(padding), ids.mutable_data());
            return ids;
          },
          py::arg("padding") = 0,
          "[b, s] int64: a prefix counts from 0, every suffix from its prefix's length.")
      .def("__eq__", [](const PrefixLayout& a, const PrefixLayout& b) { return a == b; })
      .def("__eq__", [](const PrefixLayout&, const py::object&) { return false; });
}

}  // namespace

void bind_prefix_groups(py::module_& module) {
  bind_groups(module);
  bind_places(module);
  bind_prefix_layout(module);
  module.def("move_places", &move_places, py::arg("source"), py::arg("target"), py::arg("values").noconvert(),
             py::arg("pad").noconvert(), py::arg("out").noconvert(), py::arg("heads_first"),
             py::arg("same_rows"));
  module.def("group", &group_tensors, py::arg("layout"), py::arg("prefix").noconvert(),
             py::arg("suffix").noconvert(), py::arg("pad").noconvert(), py::arg("out").noconvert(),
             py::arg("heads_first"));
  module.def("concat_input", &concat_tensors, py::arg("layout"), py::arg("prefix").noconvert(),
             py::arg("prefix_mask").noconvert(), py::arg("suffix").noconvert(),
             py::arg("suffix_mask").noconvert(), py::arg("pad").noconvert(), py::arg("out").noconvert());
}

}  // namespace evenkeel::python
