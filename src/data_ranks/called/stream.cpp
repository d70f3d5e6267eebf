#include "data_ranks/called/stream.hpp"

#include <utility>

#include "data_ranks/data_line.hpp"
#include "data_ranks/stream_figures.hpp"
#include "evenkeel/base/error.hpp"
#include "mesh/fail_together.hpp"
#include "source/arrival_figures.hpp"
#include "transport/share_values.hpp"

// What data ranks do at the same time is in data_ranks/hosted/stream.cpp.
namespace evenkeel {

std::unique_ptr<CalledStream> CalledStream::make(const Communicator& everyone,
                                                 std::span<const std::string> profiles,
                                                 std::int64_t most_steps) {
  GuardedWork work;
  DataCall call;
  call.kind = DataCallKind::open_stream;
  call.number = most_steps;
  work([&] { call.names.assign(profiles.begin(), profiles.end()); });
  DataLine::tell(call, work);
  std::unique_ptr<CalledStream> stream;
  work([&] { stream = std::make_unique<CalledStream>(everyone); });
  work.agree(everyone);
  // The data ranks open it now.
  work.agree(everyone);
  StreamFigures figures;
  stream->first_data_rank_ = DataLine::first_data_rank();
  broadcast_value(everyone, figures, stream->first_data_rank_, work);
  work([&] {
    stream->sources_ = std::move(figures.sources);
    stream->num_samples_ = figures.samples;
    stream->num_steps_ = figures.steps;
  });
  work.agree(everyone);
  stream->number_ = DataLine::count_stream();
  return stream;
}

DelayFigures CalledStream::delayed() {
  require_newest("told of");
  DelayFigures figures;
  GuardedWork work;
  DataCall call;
  call.kind = DataCallKind::tell_delay;
  DataLine::tell(call, work);
  broadcast_value(everyone_, figures, first_data_rank_, work);
  work.agree(everyone_);
  return figures;
}

void CalledStream::describe(ServiceState& state) {
  require_newest("described");
  GuardedWork work;
  DataCall call;
  call.kind = DataCallKind::describe_stream;
  DataLine::tell(call, work);
  work.agree(everyone_);
  StreamDescription description;
  broadcast_value(everyone_, description, first_data_rank_, work);
  work([&] {
    state.sources = std::move(description.sources);
    state.order = description.order;
  });
  work.agree(everyone_);
}

ArrivalFigures CalledStream::arrived() {
  require_newest("asked for its samples");
  tell(DataCallKind::tell_arrivals, 0);
  ArrivalFigures figures;
  GuardedWork work;
  broadcast_value(everyone_, figures, first_data_rank_, work);
  work.agree(everyone_);
  return figures;
}

void CalledStream::publish(std::int64_t version) {
  require_newest("told of a version");
  tell(DataCallKind::publish_version, version);
}

void CalledStream::trained(std::int64_t next_step) {
  require_newest("told of steps");
  tell(DataCallKind::steps_trained, next_step);
}

void CalledStream::tell(DataCallKind kind, std::int64_t number) {
  GuardedWork work;
  DataCall call;
  call.kind = kind;
  call.number = number;
  DataLine::tell(call, work);
  work.agree(everyone_);
}

// Data ranks know the newest stream only.
void CalledStream::require_newest(std::string_view what) const {
  if (!DataLine::is_laid() || DataLine::is_newest_stream(number_)) return;
  throw InputError("stream", "cannot be " + std::string(what) + ": its data ranks have a newer one since",
                   "Ask for it before the next stream is made");
}

}  // namespace evenkeel
