#include "data_ranks/hosted/stream.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "data_ranks/stream_figures.hpp"
#include "evenkeel/base/error.hpp"
#include "source/arrival_figures.hpp"
#include "transport/share_values.hpp"

// What trainers do at the same time is in data_ranks/called/stream.cpp.
namespace evenkeel {

ServedStream::ServedStream(const Communicator& everyone, const Config& config)
    : everyone_(everyone),
      first_data_rank_(DataLine::first_data_rank()),
      stream_(ReadingStream::make(DataLine::data_ranks(), everyone.size(), config)) {}

void ServedStream::open(const Config& config, const DataCall& call, std::int64_t most_steps) {
  GuardedWork work;
  work.in_any_case([&] { stream_->open(config, call.names); });
  work.agree(everyone_);
  StreamFigures figures;
  work([&] {
    figures = {stream_->sources(), stream_->num_samples(),
               std::min({stream_->num_steps(), call.number, most_steps})};
  });
  broadcast_value(everyone_, figures, first_data_rank_, work);
  stream_->end_at(figures.steps);
  work.agree(everyone_);
}

void ServedStream::describe() {
  const std::lock_guard lock(mutex_);
  GuardedWork work;
  work.in_any_case([&] { stream_->take_fingerprints(); });
  work.agree(everyone_);
  StreamDescription description;
  work([&] {
    ServiceState state;
    stream_->tell_fingerprints(state);
    description = {std::move(state.sources), state.order};
  });
  broadcast_value(everyone_, description, first_data_rank_, work);
  work.agree(everyone_);
}

void ServedStream::tell_delay() {
  const std::lock_guard lock(mutex_);
  DelayFigures figures = stream_->delayed();
  GuardedWork work;
  broadcast_value(everyone_, figures, first_data_rank_, work);
  work.agree(everyone_);
}

// What a buffer is told and asked goes by another way than what is read from it, which may take long.
void ServedStream::publish(std::int64_t version) {
  GuardedWork work;
  work.in_any_case([&] { stream_->publish(version); });
  work.agree(everyone_);
}

void ServedStream::trained(std::int64_t next_step) {
  GuardedWork work;
  work.in_any_case([&] { stream_->trained(next_step); });
  work.agree(everyone_);
}

void ServedStream::tell_arrivals() {
  GuardedWork work;
  ArrivalFigures figures;
  work.in_any_case([&] { figures = stream_->arrived(); });
  work.agree(everyone_);
  broadcast_value(everyone_, figures, first_data_rank_, work);
  work.agree(everyone_);
}

RaggedBatch ServedStream::read(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  if (step >= stream_->num_steps()) {
    throw InputError("step " + std::to_string(step),
                     "is none of the stream, which has " + std::to_string(stream_->num_steps()),
                     "Make no more steps than SampleStream::num_steps()");
  }
  return stream_->read(step);
}

}  // namespace evenkeel
