#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "c/failures.hpp"
#include "c/layouts.hpp"
#include "c/named_arrays.hpp"
#include "evenkeel/c/pack.h"
#include "evenkeel/pack/row_routes.hpp"

namespace evenkeel::c {
namespace {

RowCut cut_of(std::int32_t cut, const char* name) {
  switch (cut) {
    case EVENKEEL_ZIGZAG:
      return RowCut::zigzag;
    case EVENKEEL_CONTIGUOUS:
      return RowCut::contiguous;
    case EVENKEEL_FLAT:
      return RowCut::flat;
    default:
      throw WrongArgument(name, "is " + std::to_string(cut) +
                                    "; it must be EVENKEEL_ZIGZAG, EVENKEEL_CONTIGUOUS or EVENKEEL_FLAT");
  }
}

/// Stores the arrays of the route that make(Integer{}) returns. `dtype` selects the integer type.
template <typename Make>
evenkeel_status return_route(evenkeel_arrays** arrays, std::int32_t dtype, Make make) noexcept {
  return return_arrays(arrays, [&](evenkeel_arrays& made) {
    const auto add = [&](auto route) {
      const auto to_int32 = [](std::integral auto count) { return static_cast<std::int32_t>(count); };
      made.add("send_rows", std::move(route.send_rows));
      made.add("receive_rows", std::move(route.receive_rows));
      made.add_mapped("send_counts", route.send_counts, to_int32);
      made.add_mapped("receive_counts", route.receive_counts, to_int32);
    };
    if (dtype == EVENKEEL_INT32) return add(make(std::int32_t{}));
    if (dtype == EVENKEEL_INT64) return add(make(std::int64_t{}));
    throw WrongArgument("dtype",
                        "is " + std::to_string(dtype) + "; it must be EVENKEEL_INT32 or EVENKEEL_INT64");
  });
}

RowMember member_of(const evenkeel_member* member) {
  require(member, "member");
  return {CpRank{member->cp_rank}, {member->tp_rank, member->tp_size}};
}

/// Returns use(layout). The layout is that of sequences or, if there is a tree, of the tree's segments.
template <typename Use>
auto with_layout(const evenkeel_layout* layout, Use use) {
  require(layout, "layout");
  if (layout->tree != nullptr) return use(tree_layout_of(layout));
  return use(layout_of(layout));
}

}  // namespace
}  // namespace evenkeel::c

using namespace evenkeel;
using namespace evenkeel::c;

evenkeel_status evenkeel_layout_route(const evenkeel_layout* layout, int32_t from, int32_t to,
                                      const evenkeel_member* member, int32_t dtype,
                                      evenkeel_arrays** arrays) {
  return return_route(arrays, dtype, [&]<typename Integer>(Integer) {
    return row_route<Integer>(layout_of(layout), cut_of(from, "from"), cut_of(to, "to"), member_of(member));
  });
}

evenkeel_status evenkeel_layout_halo_route(const evenkeel_layout* layout, int32_t cut, int64_t width,
                                           const evenkeel_member* member, int32_t dtype,
                                           evenkeel_arrays** arrays) {
  return return_route(arrays, dtype, [&]<typename Integer>(Integer) {
    return with_layout(layout, [&](const auto& of) {
      return halo_route<Integer>(of, cut_of(cut, "cut"), member_of(member), width);
    });
  });
}

evenkeel_status evenkeel_layout_sequence_runs(const evenkeel_layout* layout, int32_t cut,
                                              const evenkeel_member* member, evenkeel_arrays** arrays) {
  return return_arrays(arrays, [&](evenkeel_arrays& made) {
    const std::vector<SequenceRun> runs = with_layout(
        layout, [&](const auto& of) { return sequence_runs(of, cut_of(cut, "cut"), member_of(member)); });
    made.add_mapped("sequence", runs, &SequenceRun::sequence);
    made.add_mapped("begin", runs, [](const SequenceRun& run) { return run.rows.begin; });
    made.add_mapped("end", runs, [](const SequenceRun& run) { return run.rows.end; });
    made.add_mapped("first", runs, &SequenceRun::first);
    made.add_mapped("tokens", runs, &SequenceRun::tokens);
    made.add_mapped("member_before", runs,
                    [](const SequenceRun& run) { return std::int64_t{run.member_before}; });
    made.add_mapped("run_before", runs, &SequenceRun::run_before);
    made.add_mapped("row_before", runs, &SequenceRun::row_before);
    made.add_mapped("sequence_before", runs, &SequenceRun::sequence_before);
  });
}
