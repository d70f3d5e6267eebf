// Rows in another cut, and what crosses cuts (include/evenkeel/pack/row_routes.hpp).

#include <pybind11/stl.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "bindings/words.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/row_routes.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

constexpr std::array row_cuts{
    Word<RowCut>{RowCut::zigzag, "zigzag"},
    Word<RowCut>{RowCut::contiguous, "contiguous"},
    Word<RowCut>{RowCut::flat, "flat"},
};

/// One rank of the group, as arguments.
RowMember member_of(int cp_rank, int tp_rank, int tp) {
  return {CpRank{cp_rank}, {tp_rank, tp}};
}

template <typename Integer>
py::tuple arrays_of(RowRoute<Integer> route) {
  return py::make_tuple(array_of(std::move(route.send_rows)), array_of(std::move(route.send_counts)),
                        array_of(std::move(route.receive_rows)), array_of(std::move(route.receive_counts)));
}

/// make(Integer{}) with the integers of a dtype, without the GIL.
template <typename Make>
py::tuple route_of(std::string_view dtype, Make make) {
  const auto made = [&]<typename Integer>(Integer zero) {
    RowRoute<Integer> route;
    {
      const py::gil_scoped_release release;
      route = make(zero);
    }
    return arrays_of(std::move(route));
  };
  if (dtype == "int64") return made(std::int64_t{});
  if (dtype == "int32") return made(std::int32_t{});
  throw InputError("dtype", "is '" + std::string(dtype) + "'; it can be int32, int64");
}

py::dict runs_of(const std::vector<SequenceRun>& runs) {
  py::dict arrays;
  const auto add = [&](const char* name, auto part) {
    std::vector<std::int64_t> values;
    values.reserve(runs.size());
    for (const SequenceRun& run : runs) values.push_back(part(run));
    arrays[name] = array_of(std::move(values));
  };
  add("sequence", [](const SequenceRun& run) { return run.sequence; });
  add("begin", [](const SequenceRun& run) { return run.rows.begin; });
  add("end", [](const SequenceRun& run) { return run.rows.end; });
  add("first", [](const SequenceRun& run) { return run.first; });
  add("tokens", [](const SequenceRun& run) { return run.tokens; });
  add("member_before", [](const SequenceRun& run) { return std::int64_t{run.member_before}; });
  add("run_before", [](const SequenceRun& run) { return run.run_before; });
  add("row_before", [](const SequenceRun& run) { return run.row_before; });
  add("sequence_before", [](const SequenceRun& run) { return run.sequence_before; });
  return arrays;
}

/// use(layout) of sequences, or of the segments of a tree. (Not overloads: stubs are compared with one
/// signature.)
template <typename Use>
auto with_layout(const py::object& layout, Use use) {
  if (py::isinstance<PackedTreeLayout>(layout)) return use(layout.cast<const PackedTreeLayout&>());
  if (py::isinstance<PackedLayout>(layout)) return use(layout.cast<const PackedLayout&>());
  throw py::type_error("layout is neither a PackedLayout nor a PackedTreeLayout");
}

}  // namespace

void bind_routes(py::module_& module) {
  module.def(
      "row_route",
      [](const PackedLayout& layout, std::string_view from, std::string_view to, int cp_rank, int tp_rank,
         int tp, std::string_view dtype) {
        const RowCut before = value_of(row_cuts, from, "from_cut");
        const RowCut after = value_of(row_cuts, to, "to_cut");
        return route_of(dtype, [&]<typename Integer>(Integer) {
          return row_route<Integer>(layout, before, after, member_of(cp_rank, tp_rank, tp));
        });
      },
      py::arg("layout"), py::arg("from_cut"), py::arg("to_cut"), py::arg("cp_rank"), py::arg("tp_rank"),
      py::arg("tp"), py::arg("dtype"));
  module.def(
      "sequence_runs",
      [](const py::object& layout, std::string_view cut, int cp_rank, int tp_rank, int tp) {
        const RowCut how = value_of(row_cuts, cut, "cut");
        return with_layout(layout, [&](const auto& of) {
          return runs_of(sequence_runs(of, how, member_of(cp_rank, tp_rank, tp)));
        });
      },
      py::arg("layout"), py::arg("cut"), py::arg("cp_rank"), py::arg("tp_rank"), py::arg("tp"));
  module.def(
      "halo_route",
      [](const py::object& layout, std::string_view cut, std::int64_t width, int cp_rank, int tp_rank, int tp,
         std::string_view dtype) {
        const RowCut how = value_of(row_cuts, cut, "cut");
        return with_layout(layout, [&](const auto& of) {
          return route_of(dtype, [&]<typename Integer>(Integer) {
            return halo_route<Integer>(of, how, member_of(cp_rank, tp_rank, tp), width);
          });
        });
      },
      py::arg("layout"), py::arg("cut"), py::arg("width"), py::arg("cp_rank"), py::arg("tp_rank"),
      py::arg("tp"), py::arg("dtype"));
}

}  // namespace evenkeel::python
