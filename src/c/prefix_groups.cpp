#include <algorithm>
#include <string>
#include <vector>

#include "c/arrays.hpp"
#include "c/layouts.hpp"
#include "c/named_arrays.hpp"
#include "evenkeel/c/prefix.h"
#include "evenkeel/pack/prefix/layout.hpp"

namespace evenkeel::c {
namespace {

using Numbers = std::vector<std::int64_t>;

TokenPlaces places_of(const evenkeel_places* places, const char* name) {
  require(places, name);
  require_list(places->runs, places->num_runs, (std::string(name) + "->runs").c_str());
  std::vector<TokenRun> runs;
  runs.reserve(static_cast<std::size_t>(places->num_runs));
  for (std::int64_t i = 0; i < places->num_runs; ++i)
    runs.push_back({places->runs[3 * i], places->runs[3 * i + 1], places->runs[3 * i + 2]});
  return {{places->batch, places->width}, runs};
}

PrefixGroups groups_of(const evenkeel_prefix_groups& groups) {
  require_list(groups.offsets, groups.num_groups, "groups->offsets");
  std::vector<Numbers> info;
  for (std::int64_t g = 0; g < groups.num_groups; ++g) {
    const std::int64_t begin = groups.offsets[g];
    const std::int64_t end = groups.offsets[g + 1];
    if (begin < 0 || end < begin)
      throw InputError("groups->offsets[" + std::to_string(g) + "]",
                       "is " + std::to_string(begin) + ", and the next offset is " + std::to_string(end) +
                           "; offsets must not be negative or decrease");
    require_list(groups.lengths, end, "groups->lengths");
    info.emplace_back(groups.lengths + begin, groups.lengths + end);
  }
  return PrefixGroups(info);
}

PrefixLayout prefix_layout_of(const evenkeel_prefix_groups* groups) {
  require(groups, "groups");
  if (groups->mask != nullptr) return {groups_of(*groups), mask_of(groups->mask)};
  if (groups->side != EVENKEEL_PAD_RIGHT && groups->side != EVENKEEL_PAD_LEFT)
    throw WrongArgument("argument groups->side", "is " + std::to_string(groups->side) +
                                                     "; it must be EVENKEEL_PAD_RIGHT or EVENKEEL_PAD_LEFT");
  return PrefixLayout(groups_of(*groups),
                      groups->side == EVENKEEL_PAD_LEFT ? PaddingSide::left : PaddingSide::right);
}

void add_runs(evenkeel_arrays& arrays, const char* name, const TokenPlaces& places) {
  Numbers numbers;
  numbers.reserve(3 * places.runs().size());
  for (const TokenRun& run : places.runs()) numbers.insert(numbers.end(), {run.row, run.column, run.size});
  arrays.add(name, std::move(numbers), {std::ssize(places.runs()), 3});
}

}  // namespace
}  // namespace evenkeel::c

using namespace evenkeel;
using namespace evenkeel::c;

evenkeel_status evenkeel_places_of_mask(const evenkeel_mask* mask, evenkeel_arrays** arrays) {
  return create_arrays(arrays,
                       [&](evenkeel_arrays& made) { add_runs(made, "runs", TokenPlaces(mask_of(mask))); });
}

evenkeel_status evenkeel_move_tokens(const evenkeel_places* from, const evenkeel_places* to,
                                     int32_t within_rows, int64_t heads, int64_t row_bytes,
                                     const evenkeel_rows* source, const evenkeel_rows* target) {
  return run_guarded([&] {
    const TokenPlaces places = places_of(from, "from");
    const TokenPlaces others = places_of(to, "to");
    if (within_rows != 0) require_same_rows(places, others);
    move_tokens(places, others, {checked_row_bytes(row_bytes), heads}, bytes_of(source, "source"),
                bytes_of(target, "target"));
  });
}

evenkeel_status evenkeel_fill_padding(const evenkeel_places* tokens, int64_t heads, int64_t row_bytes,
                                      const evenkeel_rows* pad, const evenkeel_rows* target) {
  return run_guarded([&] {
    fill_padding(places_of(tokens, "tokens"), {checked_row_bytes(row_bytes), heads}, bytes_of(pad, "pad"),
                 bytes_of(target, "target"));
  });
}

evenkeel_status evenkeel_prefix_split(const evenkeel_prefix_groups* groups, int64_t include_prefix_last,
                                      int32_t pad_short, evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    const PrefixLayout layout = prefix_layout_of(groups);
    const PrefixSplit split =
        layout.split(include_prefix_last, pad_short != 0 ? ShortPrefix::pad : ShortPrefix::error);
    Numbers shapes;
    for (const TokenPlaces* places : {&layout.grouped(), &split.prefix.target, &split.suffix.target})
      shapes.insert(shapes.end(), {places->shape().batch, places->shape().width});
    made.add("shapes", std::move(shapes), {3, 2});
    add_runs(made, "grouped", layout.grouped());
    add_runs(made, "prefix_source", split.prefix.source);
    add_runs(made, "prefix", split.prefix.target);
    add_runs(made, "suffix_source", split.suffix.source);
    add_runs(made, "suffix", split.suffix.target);
  });
}

evenkeel_status evenkeel_prefix_position_ids(const evenkeel_prefix_groups* groups, int64_t padding,
                                             int64_t* ids) {
  return run_guarded([&] {
    const Numbers found = prefix_layout_of(groups).position_ids(padding);
    std::ranges::copy(found, array_of(ids, std::ssize(found), "ids").begin());
  });
}
