#include "service/regroup.hpp"

#include <algorithm>
#include <unordered_map>

#include "evenkeel/base/assertions.hpp"

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
  if (column.spec().kind == FieldKind::sample) return {sequence, sequence + 1};
  return micro_batch.layout.local_range(sequence);
}

void add_missing_fields(std::span<const Column> like, PackedMicroBatch& micro_batch) {
  for (const Column& column : like) {
    if (micro_batch.find(column.spec().name) != nullptr) continue;
    const bool per_sample = column.spec().kind == FieldKind::sample;
    micro_batch.fields.emplace_back(column.spec(),
                                    per_sample ? micro_batch.layout.size() : micro_batch.layout.local_rows());
  }
}

void copy_sequence(const PackedMicroBatch& from, std::int64_t at, PackedMicroBatch& to, std::int64_t to_at) {
  for (const Column& source : from.fields) {
    Column& target = *to.find(source.spec().name);
    const RowRange rows = rows_of(from, source, at);
    const auto bytes = static_cast<std::size_t>(rows.size()) * source.row_bytes();
    std::copy_n(source.row(rows.begin), bytes, target.row(rows_of(to, target, to_at).begin));
  }
}

}  // namespace

void regroup(std::span<const PackedMicroBatch> from, std::span<const MicroBatchPlan> from_plan,
             std::span<PackedMicroBatch> to, std::span<const MicroBatchPlan> to_plan) {
  const auto places = places_of(from_plan);
  EVENKEEL_PRECONDITION(thorough, hold_the_same(from, places, to, to_plan), places.size());
  for (std::size_t m = 0; m < to.size(); ++m) {
    add_missing_fields(from.front().fields, to[m]);
    for (std::size_t i = 0; i < to_plan[m].entries.size(); ++i) {
      const Place& place = places.at(to_plan[m].entries[i]);
      copy_sequence(from[place.micro_batch], place.sequence, to[m], static_cast<std::int64_t>(i));
    }
  }
}

}  // namespace evenkeel
