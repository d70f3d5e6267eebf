// How sequences lie in a packed tensor and are cut (include/evenkeel/pack: cp_layout.hpp, packed_layout.hpp).

#include "bindings/layout.hpp"

#include <pybind11/stl.h>

#include <optional>
#include <string>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::python {
namespace py = pybind11;

CpRank checked_rank(CpGroup cp, int rank) {
  if (0 <= rank && rank < cp.size) return CpRank{rank};
  throw InputError("context-parallel rank",
                   std::to_string(rank) + " is outside 0.." + std::to_string(cp.size - 1));
}

CpGroup checked_group(int size, std::string_view layout) {
  if (size < 1) throw InputError("context-parallel size", std::to_string(size) + " is below 1");
  return {size, value_of(cp_layouts, layout, "layout")};
}

namespace {

std::string repr_of(CpGroup cp) {
  return "CpGroup(" + std::to_string(cp.size) + ", '" + std::string(word_of(cp_layouts, cp.layout)) + "')";
}

void bind_group(py::module_& module) {
  py::class_<CpGroup>(module, "CpGroup", R"(The ranks of context parallelism and how they cut a sequence.

'zigzag': 2 * size equal chunks, of which rank r takes chunks r and 2 * size - 1 - r (Megatron, Transformer Engine).
'contiguous': size equal chunks in order (Ulysses).)")
      .def(py::init(&checked_group), py::arg("size") = 1, py::arg("layout") = "zigzag")
      .def_readonly("size", &CpGroup::size)
      .def_property_readonly("layout", [](CpGroup self) { return word_of(cp_layouts, self.layout); })
      .def_property_readonly("chunks", &CpGroup::chunks, "Equal chunks that a sequence is cut into.")
      .def("__eq__", [](CpGroup a, CpGroup b) { return a == b; })
      .def("__eq__", [](CpGroup, const py::object&) { return false; })
      .def("__hash__", [](CpGroup self) { return py::hash(py::make_tuple(self.size, int(self.layout))); })
      .def("__repr__", &repr_of)
      .def(
          py::pickle([](CpGroup self) { return py::make_tuple(self.size, word_of(cp_layouts, self.layout)); },
                     [](const py::tuple& state) {
                       return checked_group(state[0].cast<int>(), state[1].cast<std::string>());
                     }));
}

PackedLayout packed_layout(py::handle lengths, std::optional<std::int64_t> alignment, CpArgument cp, int tp,
                           const py::object& aligned_lengths) {
  const std::vector<std::int64_t> values = integers_of(lengths, "lengths");
  const std::int64_t multiple = alignment ? *alignment : sequence_alignment(tp, cp.group);
  if (aligned_lengths.is_none()) return {values, multiple, cp.group};
  return {values, integers_of(aligned_lengths, "aligned_lengths"), multiple, cp.group};
}

std::vector<std::int64_t> lengths_of(const PackedLayout& layout) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < layout.size(); ++i) lengths.push_back(layout.length(i));
  return lengths;
}

std::vector<std::int64_t> aligned_lengths_of(const PackedLayout& layout) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < layout.size(); ++i) lengths.push_back(layout.aligned_length(i));
  return lengths;
}

void bind_packed_layout(py::module_& module) {
  py::class_<PackedLayout>(module, "PackedLayout", R"(Where b sequences stand in one packed micro-batch.

They stand back to back, each aligned, each cut over the context-parallel ranks on its own. ``lengths`` are true lengths in
tokens; ``alignment`` is what each is rounded up to a multiple of, by default what tp and cp need: 2 * cp * tp for zigzag.
``cp`` is a CpGroup, or the size of a zigzag one. ``aligned_lengths`` gives each sequence's aligned length instead.

Raises InputError for a negative length or an alignment that the cut does not divide, LimitError above 2**31 - 1 rows.
A value: arrays it hands out are copies.)")
      .def(py::init(&packed_layout), py::arg("lengths"), py::kw_only(), py::arg("alignment") = py::none(),
           py::arg("cp") = CpGroup{}, py::arg("tp") = 1, py::arg("aligned_lengths") = py::none())
      .def("__len__", &PackedLayout::size)
      .def_property_readonly("cp", &PackedLayout::cp)
      .def_property_readonly("alignment", &PackedLayout::alignment, "In tokens.")
      .def_property_readonly(
          "lengths", [](const PackedLayout& self) { return array_of(lengths_of(self)); },
          "True lengths: [b] int64.")
      .def_property_readonly(
          "aligned_lengths", [](const PackedLayout& self) { return array_of(aligned_lengths_of(self)); },
          "Aligned lengths over the whole CP group: [b] int64.")
      .def_property_readonly(
          "cu_seqlens", [](const PackedLayout& self) { return copy_of(self.cu_seqlens()); },
          "Prefix sums of true lengths: [b + 1] int32.")
      .def_property_readonly(
          "cu_seqlens_padded", [](const PackedLayout& self) { return copy_of(self.cu_seqlens_padded()); },
          "Prefix sums of aligned lengths over the whole CP group: [b + 1] int32.")
      .def_property_readonly("max_seqlen", &PackedLayout::max_seqlen, "The longest aligned length.")
      .def_property_readonly("max_length", &PackedLayout::max_length, "The longest true length.")
      .def_property_readonly("num_rows", &PackedLayout::num_rows, "Rows over the whole CP group.")
      .def_property_readonly("num_tokens", &PackedLayout::num_tokens, "True tokens over the whole CP group.")
      .def_property_readonly("local_rows", &PackedLayout::local_rows, "Rows that each CP rank holds.")
      .def(
          "local_range",
          [](const PackedLayout& self, std::int64_t sequence) {
            const RowRange range = self.local_range(checked_index(sequence, self.size(), "sequence"));
            return py::slice(range.begin, range.end, 1);
          },
          py::arg("sequence"), "The rows of a sequence in each CP rank's tensors, as a slice.")
      .def("padded_to", &PackedLayout::padded_to, py::arg("rows"),
           "This layout made so many rows long: the last sequence's aligned length takes up the difference. "
           "Raises "
           "InputError where rows would be cut off or what is added is no multiple of the alignment.")
      .def(
          "runs",
          [](const PackedLayout& self, int cp_rank) {
            py::list runs;
            for (const PackedRun& run : packed_runs(self, checked_rank(self.cp(), cp_rank)))
              runs.append(py::make_tuple(run.index, run.sequence.begin, run.sequence.end, run.local));
            return runs;
          },
          py::arg("cp_rank") = 0,
          "Every run of true tokens of a CP rank as (sequence, begin, end, local row), in local order.")
      .def("__eq__", [](const PackedLayout& a, const PackedLayout& b) { return a == b; })
      .def("__eq__", [](const PackedLayout&, const py::object&) { return false; })
      .def("__repr__",
           [](const PackedLayout& self) {
             return "PackedLayout(" + std::to_string(self.size()) + " sequences, " +
                    std::to_string(self.num_tokens()) + " tokens in " + std::to_string(self.num_rows()) +
                    " rows, alignment " + std::to_string(self.alignment()) + ", " + repr_of(self.cp()) + ")";
           })
      .def(py::pickle(
          [](const PackedLayout& self) {
            return py::make_tuple(array_of(lengths_of(self)), array_of(aligned_lengths_of(self)),
                                  self.alignment(), self.cp());
          },
          [](const py::tuple& state) {
            return packed_layout(state[0], state[2].cast<std::int64_t>(),
                                 CpArgument{state[3].cast<CpGroup>()}, 1, state[1]);
          }));
}

}  // namespace

void bind_layout(py::module_& module) {
  bind_group(module);
  bind_packed_layout(module);
  module.def(
      "sequence_alignment",
      [](int tp, CpArgument cp, std::int64_t extra) { return sequence_alignment(tp, cp.group, extra); },
      py::arg("tp"), py::arg("cp"), py::arg("extra"));
  module.def(
      "cp_runs",
      [](std::int64_t aligned_length, CpArgument cp, int cp_rank) {
        std::vector<std::pair<std::int64_t, std::int64_t>> runs;
        for (const RowRange& run : cp_runs(aligned_length, cp.group, CpRank{cp_rank}))
          runs.emplace_back(run.begin, run.end);
        return runs;
      },
      py::arg("aligned_length"), py::arg("cp"), py::arg("cp_rank"));
  module.def(
      "partitioned_indices",
      [](py::handle cu_seqlens_padded, CpArgument cp, int cp_rank) {
        return array_of(partitioned_indices(small_integers_of(cu_seqlens_padded, "cu_seqlens_padded"),
                                            cp.group, CpRank{cp_rank}));
      },
      py::arg("cu_seqlens_padded"), py::arg("cp"), py::arg("cp_rank"));
  module.def(
      "cu_seqlens_on_cp_rank",
      [](py::handle cu_seqlens, py::handle cu_seqlens_padded, int cp_size, int cp_rank) {
        CuSeqlensOnRank found = cu_seqlens_on_cp_rank(
            small_integers_of(cu_seqlens, "cu_seqlens"),
            small_integers_of(cu_seqlens_padded, "cu_seqlens_padded"), cp_size, CpRank{cp_rank});
        return py::make_tuple(array_of(std::move(found.first)), array_of(std::move(found.second)),
                              array_of(std::move(found.both)));
      },
      py::arg("cu_seqlens"), py::arg("cu_seqlens_padded"), py::arg("cp_size"), py::arg("cp_rank"));
}

}  // namespace evenkeel::python
