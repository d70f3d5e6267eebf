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

/// What is the same for sequences and for the segments of a tree.
template <typename Layout>
void bind_cuts(py::module_& module) {
  module.def(
      "sequence_runs",
      [](const Layout& layout, std::string_view cut, int cp_rank, int tp_rank, int tp) {
        return runs_of(
            sequence_runs(layout, value_of(row_cuts, cut, "cut"), member_of(cp_rank, tp_rank, tp)));
      },
      py::arg("layout"), py::arg("cut"), py::arg("cp_rank"), py::arg("tp_rank"), py::arg("tp"));
  module.def(
      "halo_route",
      [](const Layout& layout, std::string_view cut, std::int64_t width, int cp_rank, int tp_rank, int tp,
         std::string_view dtype) {
        const RowCut how = value_of(row_cuts, cut, "cut");
        return route_of(dtype, [&]<typename Integer>(Integer) {
          return halo_route<Integer>(layout, how, member_of(cp_rank, tp_rank, tp), width);
        });
      },
      py::arg("layout"), py::arg("cut"), py::arg("width"), py::arg("cp_rank"), py::arg("tp_rank"),
      py::arg("tp"), py::arg("dtype"));
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
  bind_cuts<PackedLayout>(module);
  bind_cuts<PackedTreeLayout>(module);
}

}  // namespace evenkeel::python
