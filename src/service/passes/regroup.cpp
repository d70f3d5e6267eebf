#include "service/passes/regroup.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "pack/micro_batch/columns_to_come.hpp"

namespace evenkeel {
namespace {

struct Place {
  std::size_t micro_batch = 0;
  std::int64_t sequence = 0;
};

std::unordered_map<EntryId, Place> places_of(std::span<const MicroBatchPlan> plans) {
  std::unordered_map<EntryId, Place> places;
  for (std::size_t m = 0; m < plans.size(); ++m) {
    for (std::size_t i = 0; i < plans[m].entries.size(); ++i) {
      places[plans[m].entries[i]] = {m, static_cast<std::int64_t>(i)};
    }
  }
  return places;
}

/// Whether both sides hold the same entries, each as long in either layout.
bool hold_the_same(std::span<const PackedMicroBatch> from, const std::unordered_map<EntryId, Place>& places,
                   std::span<PackedMicroBatch> to, std::span<const MicroBatchPlan> to_plan) {
  std::size_t entries = 0;
  for (std::size_t m = 0; m < to.size(); ++m) {
    for (std::size_t i = 0; i < to_plan[m].entries.size(); ++i, ++entries) {
      const auto place = places.find(to_plan[m].entries[i]);
      if (place == places.end()) return false;
      const PackedLayout& source = from[place->second.micro_batch].layout;
      if (source.aligned_length(place->second.sequence) !=
          to[m].layout.aligned_length(static_cast<std::int64_t>(i)))
        return false;
    }
  }
  return entries == places.size();
}

RowRange rows_of(const PackedMicroBatch& micro_batch, const Column& column, std::int64_t sequence) {
  if (is_counted(column.spec().kind)) return column.samples()[sequence];
  if (column.spec().rule().is_per_sample()) return {sequence, sequence + 1};
  return micro_batch.layout.local_range(sequence);
}

/// What the samples of a micro-batch have in a counted field of `from`: the trainer may have left other
/// numbers of rows than samples brought.
ColumnToCome counted_column(std::span<const PackedMicroBatch> from, const FieldSpec& spec,
                            const std::unordered_map<EntryId, Place>& places, const PackedMicroBatch& to,
                            const MicroBatchPlan& to_plan) {
  std::vector<std::int64_t> counts(to.samples.size());
  for (std::size_t i = 0; i < to_plan.entries.size(); ++i) {
    const Place& place = places.at(to_plan.entries[i]);
    counts[i] = from[place.micro_batch].find(spec.name)->samples()[place.sequence].size();
  }
  return ColumnToCome::counted(spec, SampleRows::of_counts(counts));
}

/// Rows in common, of which the samples of a micro-batch keep theirs.
Column lent_column(std::span<PackedMicroBatch> from, const std::string& name,
                   const std::unordered_map<EntryId, Place>& places, const PackedMicroBatch& to,
                   const MicroBatchPlan& to_plan) {
  Column& first = *from.front().find(name);
  std::vector<RowRange> ranges(to.samples.size());
  for (std::size_t i = 0; i < to_plan.entries.size(); ++i) {
    const Place& place = places.at(to_plan.entries[i]);
    const Column& source = *std::as_const(from[place.micro_batch]).find(name);
    if (source.bytes().data() != std::as_const(first).bytes().data()) {
      throw InputError("field '" + name + "' of micro-batch " + std::to_string(place.micro_batch),
                       "was written to; its rows are shared by all micro-batches, and read-only",
                       "Write to a copy, or set fields." + name + ".share: none");
    }
    ranges[i] = source.samples()[place.sequence];
  }
  return first.lent_to(SampleRows::in_common(std::move(ranges), first.rows()));
}

/// The columns that a micro-batch will have, of the fields that micro-batches of `from` have: those with rows
/// in common are borrowed.
std::vector<ColumnToCome> columns_of(std::span<const PackedMicroBatch> from,
                                     const std::unordered_map<EntryId, Place>& places,
                                     const PackedMicroBatch& to, const MicroBatchPlan& plan) {
  std::vector<ColumnToCome> columns;
  for (const Column& column : from.front().fields) {
    const FieldSpec& spec = column.spec();
    if (column.samples().are_in_common()) continue;
    if (is_counted(spec.kind)) {
      columns.push_back(counted_column(from, spec, places, to, plan));
    } else {
      columns.push_back({spec, spec.rule().is_per_sample() ? to.layout.size() : to.layout.local_rows()});
    }
  }
  return columns;
}

void make_room_for_fields(std::span<PackedMicroBatch> from, const std::unordered_map<EntryId, Place>& places,
                          PackedMicroBatch& micro_batch, const MicroBatchPlan& plan) {
  const std::vector<ColumnToCome> columns = columns_of(from, places, micro_batch, plan);
  for (const Column& column : std::as_const(from.front().fields)) {
    const std::string& name = column.spec().name;
    if (column.samples().are_in_common()) {
      micro_batch.fields.push_back(lent_column(from, name, places, micro_batch, plan));
    } else if (micro_batch.find(name) == nullptr) {
      Column& added = micro_batch.fields.emplace_back(find(columns, name)->made_in(micro_batch.arena));
      if (!is_counted(column.spec().kind)) std::ranges::fill(added.bytes(), std::byte{0});
    }
  }
}

void copy_sequence(const PackedMicroBatch& from, std::int64_t at, PackedMicroBatch& to, std::int64_t to_at) {
  for (const Column& source : from.fields) {
    if (source.samples().are_in_common()) continue;
    Column& target = *to.find(source.spec().name);
    const RowRange rows = rows_of(from, source, at);
    const auto bytes = static_cast<std::size_t>(rows.size()) * source.row_bytes();
    std::copy_n(source.row(rows.begin), bytes, target.row(rows_of(to, target, to_at).begin));
  }
}

}  // namespace

void add_arenas(std::span<const PackedMicroBatch> from, std::span<const MicroBatchPlan> from_plan,
                std::span<PackedMicroBatch> to, std::span<const MicroBatchPlan> to_plan) {
  const auto places = places_of(from_plan);
  for (std::size_t m = 0; m < to.size(); ++m)
    to[m].arena = arena_for(to[m].layout, columns_of(from, places, to[m], to_plan[m]));
}

void regroup(std::span<PackedMicroBatch> from, std::span<const MicroBatchPlan> from_plan,
             std::span<PackedMicroBatch> to, std::span<const MicroBatchPlan> to_plan) {
  const auto places = places_of(from_plan);
  EVENKEEL_PRECONDITION(thorough, hold_the_same(from, places, to, to_plan), places.size());
  for (std::size_t m = 0; m < to.size(); ++m) {
    make_room_for_fields(from, places, to[m], to_plan[m]);
    for (std::size_t i = 0; i < to_plan[m].entries.size(); ++i) {
      const Place& place = places.at(to_plan[m].entries[i]);
      copy_sequence(from[place.micro_batch], place.sequence, to[m], static_cast<std::int64_t>(i));
    }
  }
}

}  // namespace evenkeel
