#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/row_routes.hpp"
#include "pack/routes/cut_rows.hpp"

namespace evenkeel {
namespace {

struct SequenceRow {
  std::int64_t sequence = 0;
  std::int64_t row = 0;
};

/// All rows of a micro-batch that is cut over a CP x TP group, and the row of each row's preceding token.
class OrderedRows {
 public:
  OrderedRows(const PackedLayout& layout, const PrefixTree* tree, RowCut how, RowMember of)
      : cut(layout, how, of), layout_(layout), tree_(tree) {}

  const CutRows cut;

  /// Returns the row of the preceding token, in this sequence or, in a tree, in the nearest ancestor with
  /// tokens; nullopt if there is no such token.
  [[nodiscard]] std::optional<SequenceRow> find_preceding_row(SequenceRow at) const {
    if (at.row > 0) return SequenceRow{at.sequence, at.row - 1};
    for (std::int64_t s = parent_of(at.sequence); s >= 0; s = parent_of(s))
      if (layout_.length(s) > 0) return SequenceRow{s, layout_.length(s) - 1};
    return std::nullopt;
  }
  [[nodiscard]] std::int64_t num_tokens_of(const PlacedRun& run) const {
    return std::clamp(layout_.length(run.sequence) - run.rows.begin, std::int64_t{0}, run.rows.size());
  }

 private:
  [[nodiscard]] std::int64_t parent_of(std::int64_t sequence) const {
    return tree_ == nullptr ? -1 : tree_->segment(sequence).parent;
  }

  const PackedLayout& layout_;
  const PrefixTree* tree_;
};

/// Returns the index of each run among the runs of its member.
std::vector<std::int64_t> run_indexes_within_members(const CutRows& cut) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(cut.runs().size());
  std::vector<std::int64_t> next(static_cast<std::size_t>(cut.num_members()));
  for (const PlacedRun& run : cut.runs()) numbers.push_back(next[static_cast<std::size_t>(run.member)]++);
  return numbers;
}

std::vector<SequenceRun> find_runs_of_member(const OrderedRows& rows, RowMember member) {
  const std::vector<PlacedRun>& runs = rows.cut.runs();
  const std::vector<std::int64_t> numbers = run_indexes_within_members(rows.cut);
  std::vector<SequenceRun> found;
  for (const PlacedRun& run : runs) {
    if (run.member != member.number()) continue;
    SequenceRun& here = found.emplace_back(SequenceRun{
        run.sequence, {run.local, run.local + run.rows.size()}, run.rows.begin, rows.num_tokens_of(run)});
    if (here.tokens == 0) continue;
    const std::optional<SequenceRow> before = rows.find_preceding_row({run.sequence, run.rows.begin});
    if (!before) continue;
    const std::int64_t number = rows.cut.find_run_index(before->sequence, before->row);
    const PlacedRun& from = runs[static_cast<std::size_t>(number)];
    here.member_before = from.member;
    here.run_before = numbers[static_cast<std::size_t>(number)];
    here.row_before = from.local + before->row - from.rows.begin;
    here.sequence_before = before->sequence;
  }
  return found;
}

/// Throws InputError if `width` is below 1, or if (width - 1) * max_runs exceeds the range of Integer.
/// `max_runs` is the largest number of runs of any member, so all members throw the same error.
template <typename Integer>
void require_valid_width(std::int64_t width, std::int64_t max_runs) {
  const std::string where = "width of a convolution";
  if (width < 1) throw InputError(where, "is " + std::to_string(width) + "; it must be at least 1");
  if (width - 1 <= std::int64_t{std::numeric_limits<Integer>::max()} / std::max(max_runs, std::int64_t{1}))
    return;
  throw InputError(where, "is " + std::to_string(width) + "; with " + format_plain_count(max_runs, "run") +
                              " of rows, positions exceed int" + std::to_string(8 * sizeof(Integer)));
}

template <typename Integer>
RowRoute<Integer> make_halo_route(const OrderedRows& rows, RowMember member, std::int64_t width) {
  const std::vector<PlacedRun>& runs = rows.cut.runs();
  const std::vector<std::int64_t> numbers = run_indexes_within_members(rows.cut);
  require_valid_width<Integer>(width, numbers.empty() ? 0 : std::ranges::max(numbers) + 1);
  const int here = member.number();
  RouteSide sent(rows.cut.num_members());
  RouteSide received(rows.cut.num_members());
  struct TokenBefore {
    const PlacedRun* run;
    std::int64_t local;
  };
  std::vector<TokenBefore> tokens;  // tokens before one run, nearest first
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const PlacedRun& run = runs[r];
    if (rows.num_tokens_of(run) == 0) continue;
    tokens.clear();
    std::optional<SequenceRow> at = rows.find_preceding_row({run.sequence, run.rows.begin});
    for (; at && std::ssize(tokens) < width - 1; at = rows.find_preceding_row(*at)) {
      const PlacedRun& from = runs[static_cast<std::size_t>(rows.cut.find_run_index(at->sequence, at->row))];
      tokens.push_back({&from, from.local + at->row - from.rows.begin});
    }
    const std::int64_t end = (numbers[r] + 1) * (width - 1);  // end of the run's places in the received rows
    for (std::int64_t t = std::ssize(tokens); t-- > 0;) {
      const TokenBefore& token = tokens[static_cast<std::size_t>(t)];
      if (token.run->member == here) sent.add(run.member, token.local, 1);
      if (run.member == here) received.add(token.run->member, end - 1 - t, 1);
    }
  }
  RowRoute<Integer> route;
  sent.write_rows_and_counts(route.send_rows, route.send_counts);
  received.write_rows_and_counts(route.receive_rows, route.receive_counts);
  return route;
}

}  // namespace

std::vector<SequenceRun> sequence_runs(const PackedLayout& layout, RowCut cut, RowMember member) {
  return find_runs_of_member({layout, nullptr, cut, member}, member);
}
std::vector<SequenceRun> sequence_runs(const PackedTreeLayout& layout, RowCut cut, RowMember member) {
  return find_runs_of_member({layout.segments(), &layout.tree(), cut, member}, member);
}

template <typename Integer>
RowRoute<Integer> halo_route(const PackedLayout& layout, RowCut cut, RowMember member, std::int64_t width) {
  return make_halo_route<Integer>({layout, nullptr, cut, member}, member, width);
}
template <typename Integer>
RowRoute<Integer> halo_route(const PackedTreeLayout& layout, RowCut cut, RowMember member,
                             std::int64_t width) {
  return make_halo_route<Integer>({layout.segments(), &layout.tree(), cut, member}, member, width);
}

template RowRoute<std::int32_t> halo_route(const PackedLayout&, RowCut, RowMember, std::int64_t);
template RowRoute<std::int64_t> halo_route(const PackedLayout&, RowCut, RowMember, std::int64_t);
template RowRoute<std::int32_t> halo_route(const PackedTreeLayout&, RowCut, RowMember, std::int64_t);
template RowRoute<std::int64_t> halo_route(const PackedTreeLayout&, RowCut, RowMember, std::int64_t);

template <typename Integer>
RowRoute<Integer> row_route(const PackedLayout& layout, RowCut from, RowCut to, RowMember member,
                            RowRoute<Integer> spare) {
  const CutRows before(layout, from, member);
  const CutRows after(layout, to, member);
  const int here = member.number();
  RouteSide sent(before.num_members());
  RouteSide received(before.num_members());
  // Both cuts list all rows in the order of the micro-batch, so one pass over both lists finds the common
  // rows.
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
  sent.write_rows_and_counts(spare.send_rows, spare.send_counts);
  received.write_rows_and_counts(spare.receive_rows, spare.receive_counts);
  return spare;
}

template RowRoute<std::int32_t> row_route(const PackedLayout&, RowCut, RowCut, RowMember,
                                          RowRoute<std::int32_t>);
template RowRoute<std::int64_t> row_route(const PackedLayout&, RowCut, RowCut, RowMember,
                                          RowRoute<std::int64_t>);

}  // namespace evenkeel
