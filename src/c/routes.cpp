#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "c/failures.hpp"
#include "c/handles.hpp"

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
      throw WrongArgument(name, std::to_string(cut) + " is none of EVENKEEL_ZIGZAG, _CONTIGUOUS and _FLAT");
  }
}

const MicroBatch& micro_batch_of(const evenkeel_step* step, std::int64_t micro_batch) {
  const std::size_t m = micro_batch_index(step, micro_batch);
  return step->step.micro_batches[m];
}

/// make(Integer{}) with the type of the numbers that are asked for.
template <typename Make>
void create(evenkeel_route** route, std::int32_t dtype, Make make) {
  require(route, "route");
  *route = nullptr;
  auto made = std::make_unique<evenkeel_route>();
  if (dtype == EVENKEEL_INT32) {
    made->route = make(std::int32_t{});
  } else if (dtype == EVENKEEL_INT64) {
    made->route = make(std::int64_t{});
  } else {
    throw WrongArgument("dtype", std::to_string(dtype) + " is neither EVENKEEL_INT32 nor EVENKEEL_INT64");
  }
  std::visit(
      [&](const auto& of) {
        made->send_counts.assign(of.send_counts.begin(), of.send_counts.end());
        made->receive_counts.assign(of.receive_counts.begin(), of.receive_counts.end());
      },
      made->route);
  *route = made.release();
}

evenkeel_sequence_run view_of_run(const SequenceRun& run) {
  return {run.sequence,      run.rows.begin, run.rows.end,   run.first,          run.tokens,
          run.member_before, run.run_before, run.row_before, run.sequence_before};
}

}  // namespace
}  // namespace evenkeel::c

using namespace evenkeel;
using namespace evenkeel::c;

evenkeel_status evenkeel_route_create(const evenkeel_step* step, int64_t micro_batch, int32_t from,
                                      int32_t to, int32_t tp_rank, int32_t tp_size, int32_t dtype,
                                      evenkeel_route** route) {
  return guarded([&] {
    create(route, dtype, [&]<typename Integer>(Integer) -> RowRoute<Integer> {
      return micro_batch_of(step, micro_batch)
          .route<Integer>(cut_of(from, "from"), cut_of(to, "to"), {tp_rank, tp_size});
    });
  });
}

evenkeel_status evenkeel_route_create_halo(const evenkeel_step* step, int64_t micro_batch, int32_t cut,
                                           int64_t width, int32_t tp_rank, int32_t tp_size, int32_t dtype,
                                           evenkeel_route** route) {
  return guarded([&] {
    create(route, dtype, [&]<typename Integer>(Integer) -> RowRoute<Integer> {
      return micro_batch_of(step, micro_batch)
          .halo_route<Integer>(cut_of(cut, "cut"), width, {tp_rank, tp_size});
    });
  });
}

evenkeel_status evenkeel_route_get(const evenkeel_route* route, evenkeel_route_view* view) {
  return guarded([&] {
    require(view, "view");
    require(route, "route");
    std::visit(
        [&](const auto& of) {
          *view = {std::ssize(of.send_counts),  std::ssize(of.send_rows),    of.send_rows.data(),
                   route->send_counts.data(),   std::ssize(of.receive_rows), of.receive_rows.data(),
                   route->receive_counts.data()};
        },
        route->route);
  });
}

void evenkeel_route_destroy(evenkeel_route* route) {
  delete route;
}

evenkeel_status evenkeel_step_sequence_runs(const evenkeel_step* step, int64_t micro_batch, int32_t cut,
                                            int32_t tp_rank, int32_t tp_size, evenkeel_sequence_run* runs,
                                            int64_t room, int64_t* num_runs) {
  return guarded([&] {
    require(num_runs, "num_runs");
    require_list(runs, room, "runs");
    const std::vector<SequenceRun> found =
        micro_batch_of(step, micro_batch).sequence_runs(cut_of(cut, "cut"), {tp_rank, tp_size});
    *num_runs = std::ssize(found);
    std::ranges::transform(found.begin(), found.begin() + std::min(room, *num_runs), runs,
                           [](const SequenceRun& run) { return view_of_run(run); });
  });
}
