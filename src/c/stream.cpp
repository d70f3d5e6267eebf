#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "c/failures.hpp"
#include "c/handles.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel::c {
namespace {

// Collective.
void make_steps(std::string profile, evenkeel_stream& stream) {
  stream.service->require_same_sources(*stream.samples);
  const auto reader = [&stream](std::int64_t step) { return stream.samples->read(step); };
  stream.steps.emplace(stream.service->steps(reader, stream.samples->num_steps(), std::move(profile)));
}

}  // namespace
}  // namespace evenkeel::c

using namespace evenkeel;
using namespace evenkeel::c;

evenkeel_status evenkeel_stream_create(const evenkeel_service* service, const char* const* profiles,
                                       int64_t num_profiles, evenkeel_stream** stream) {
  return guarded([&] {
    if (stream != nullptr) *stream = nullptr;
    require(service, "service");
    std::unique_ptr<evenkeel_stream> made;
    std::vector<std::string> passes;
    std::string first;
    together(service->trainers(), [&] {
      require(stream, "stream");
      passes = texts_of(profiles, num_profiles, "profiles");
      if (!passes.empty()) first = passes.front();
      made = std::make_unique<evenkeel_stream>();
    });
    made->service = service->service;
    made->trainers = service->trainers();
    made->samples.emplace(service->ranks, service->config, passes);
    make_steps(std::move(first), *made);
    *stream = made.release();
  });
}

int64_t evenkeel_stream_num_steps(const evenkeel_stream* stream) {
  return stream == nullptr ? 0 : stream->samples->num_steps();
}

evenkeel_status evenkeel_stream_next(evenkeel_stream* stream, evenkeel_step** step) {
  return guarded([&] {
    if (step != nullptr) *step = nullptr;
    require(stream, "stream");
    std::optional<Step> next = stream->steps->next();
    require(step, "step");
    if (next) *step = end_if_out_of_memory([&] { return new evenkeel_step{*std::move(next), {}}; });
  });
}

evenkeel_status evenkeel_stream_state(evenkeel_stream* stream, char** state, int64_t* bytes) {
  return guarded([&] {
    if (state != nullptr) *state = nullptr;
    require(stream, "stream");
    ServiceState now = together(stream->trainers, [&] {
      require(state, "state");
      return stream->service->state();
    });
    stream->samples->describe(now);
    hand_out(to_text(now), state, bytes);
  });
}

evenkeel_status evenkeel_stream_publish(evenkeel_stream* stream, int64_t version) {
  return guarded([&] {
    require(stream, "stream");
    stream->samples->publish(version);
  });
}

evenkeel_status evenkeel_stream_trained(evenkeel_stream* stream, int64_t next_step) {
  return guarded([&] {
    require(stream, "stream");
    stream->samples->trained(next_step);
  });
}

void evenkeel_stream_destroy(evenkeel_stream* stream) {
  if (stream != nullptr) stream->samples->stop_waiting();
  delete stream;
}
