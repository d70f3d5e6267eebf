#pragma once

#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <boost/serialization/version.hpp>
#include <cstdint>
#include <vector>

#include "base/id_range.hpp"
#include "evenkeel/batch/field.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/step_plan.hpp"

// Boost.Serialization of samples and plans, for messages between ranks of one job. When the members of a type
// change, increment its version.

BOOST_CLASS_VERSION(evenkeel::SampleShape, 1)
BOOST_CLASS_VERSION(evenkeel::LengthEntry, 1)
BOOST_CLASS_VERSION(evenkeel::FieldSpec, 1)
BOOST_CLASS_VERSION(evenkeel::MicroBatchPlan, 4)
BOOST_CLASS_VERSION(evenkeel::DpRankPlan, 1)
BOOST_CLASS_VERSION(evenkeel::StepPlan, 1)

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, evenkeel::SampleShape& shape, unsigned /*version*/) {
  archive& shape.id;
  archive& shape.group;
  archive& shape.prompt;
  archive& shape.response;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::LengthEntry& entry, unsigned /*version*/) {
  archive& entry.shape;
  archive& entry.owner;
  archive& entry.owner_index;
  archive& entry.loss_tokens;
  archive& entry.prompt_hash;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::FieldSpec& spec, unsigned /*version*/) {
  archive& spec.name;
  archive& spec.dtype;
  archive& spec.kind;
  archive& spec.trailing;
}

/// Writes or reads a list of ids as a list of numbers.
template <class Archive, typename I>
void serialize_ids(Archive& archive, std::vector<I>& ids) {
  std::vector<std::int64_t> numbers = evenkeel::numbers_of(ids);
  archive& numbers;
  if constexpr (Archive::is_loading::value) {
    ids.clear();
    for (const std::int64_t number : numbers) ids.emplace_back(number);
  }
}

template <class Archive>
void serialize(Archive& archive, evenkeel::MicroBatchPlan& plan, unsigned version) {
  serialize_ids(archive, plan.entries);
  archive& plan.tokens;
  archive& plan.aligned_tokens;
  archive& plan.cost;
  archive& plan.padded_length;
  serialize_ids(archive, plan.units);
  std::int64_t mini_batch = plan.mini_batch.value();
  archive& mini_batch;
  plan.mini_batch = evenkeel::MiniBatchId{mini_batch};
  if (version < 2) return;
  archive& plan.context.first;
  archive& plan.context.size;
  if (version < 3) return;
  bool has_shape = plan.shape.has_value();
  archive& has_shape;
  evenkeel::PackedShape shape = plan.shape.value_or(evenkeel::PackedShape{});
  archive& shape.rows& shape.sequences& shape.max_seqlen;
  if (version >= 4) archive& shape.cp;
  plan.shape = has_shape ? std::optional(shape) : std::nullopt;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::DpRankPlan& plan, unsigned /*version*/) {
  archive& plan.lower_bound;
  archive& plan.needed;
  archive& plan.micro_batches;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::StepPlan& plan, unsigned /*version*/) {
  archive& plan.counts;
  archive& plan.ranks;
}

}  // namespace boost::serialization
