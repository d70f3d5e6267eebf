#pragma once

#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <cstdint>
#include <vector>

#include "evenkeel/service/service_state.hpp"
#include "evenkeel/source/sample_stream.hpp"

namespace evenkeel {

// What data ranks tell trainers of a stream that only they have open.

struct StreamFigures {
  std::vector<StreamSource> sources;
  std::int64_t samples = 0;
  std::int64_t steps = 0;
};

struct StreamDescription {
  std::vector<SourceFingerprint> sources;
  std::uint64_t order = 0;
};

}  // namespace evenkeel

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, evenkeel::FilterCounts& counts, unsigned /*version*/) {
  archive& counts.samples& counts.taken& counts.dropped_too_long& counts.dropped_empty;
  archive& counts.truncated& counts.split& counts.pieces& counts.tokens_left_out;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::StreamSource& source, unsigned /*version*/) {
  archive& source.name& source.path& source.counts& source.left_out& source.undecided;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::StreamFigures& figures, unsigned /*version*/) {
  archive& figures.sources& figures.samples& figures.steps;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::SourceFingerprint& source, unsigned /*version*/) {
  archive& source.name& source.samples& source.bytes& source.digest;
  bool has_whole = source.whole.has_value();
  std::uint64_t whole = source.whole.value_or(0);
  archive& has_whole& whole;
  if (has_whole) source.whole = whole;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::DelayFigures::Ends& ends, unsigned /*version*/) {
  archive& ends.once& ends.every_micro_batch;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::DelayFigures& figures, unsigned /*version*/) {
  archive& figures.steps& figures.tokens& figures.samples& figures.sample_steps& figures.token_steps;
  archive& figures.longest;
  archive& figures.planned& figures.in_order;
}

template <class Archive>
void serialize(Archive& archive, evenkeel::StreamDescription& description, unsigned /*version*/) {
  archive& description.sources& description.order;
}

}  // namespace boost::serialization
