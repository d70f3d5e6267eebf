#include <algorithm>
#include <numeric>

#include "evenkeel/pack/row_routes.hpp"
#include "pack/routes/cut_rows.hpp"
#include "pack/routes/route_side.hpp"

namespace evenkeel {

template <typename Integer>
RowRoute<Integer> row_route(const PackedLayout& layout, RowCut from, RowCut to, RowMember member,
                            RowRoute<Integer> spare) {
  const CutRows before(layout, from, member);
  const CutRows after(layout, to, member);
  const int here = member.number();
  RouteSide sent(before.members());
  RouteSide received(before.members());
  // Both list all rows in the order of the micro-batch: what they have in common is found in one walk.
  auto a = before.runs().begin();
  auto b = after.runs().begin();
  while (a != before.runs().end()) {
    const std::int64_t begin = std::max(a->rows.begin, b->rows.begin);
    const std::int64_t end = std::min(a->rows.end, b->rows.end);
    if (a->member == here) sent.add(b->member, a->local + begin - a->rows.begin, end - begin);
    if (b->member == here) received.add(a->member, b->local + begin - b->rows.begin, end - begin);
    const bool ends_a = a->rows.end == end;
    if (b->rows.end == end) ++b;
    if (ends_a) ++a;
  }
  sent.list(spare.send_rows, spare.send_counts);
  received.list(spare.receive_rows, spare.receive_counts);
  return spare;
}

template RowRoute<std::int32_t> row_route(const PackedLayout&, RowCut, RowCut, RowMember,
                                          RowRoute<std::int32_t>);
template RowRoute<std::int64_t> row_route(const PackedLayout&, RowCut, RowCut, RowMember,
                                          RowRoute<std::int64_t>);

}  // namespace evenkeel
