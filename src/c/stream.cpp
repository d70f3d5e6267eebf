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

// Any thread.
RaggedBatch read(evenkeel_stream& stream, std::int64_t step) {
  {
    auto handle = std::make_unique<evenkeel_step>();
    const std::lock_guard lock(stream.of_handles);
    stream.handles.insert_or_assign(step, std::move(handle));
  }
  return stream.samples->read(step);
}

// The handle of a step that was made; those of steps before, which failed, go.
std::unique_ptr<evenkeel_step> take_handle(evenkeel_stream& stream, std::int64_t step) {
  const std::lock_guard lock(stream.of_handles);
  auto taken = stream.handles.extract(step);
  stream.handles.erase(stream.handles.begin(), stream.handles.lower_bound(step));
  return std::move(taken.mapped());
}

// Collective.
void make_steps(std::string profile, evenkeel_stream& stream) {
  stream.service->require_same_sources(*stream.samples);
  const auto reader = [&stream](std::int64_t step) { return read(stream, step); };
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
    if (!next) return require(step, "step");
    std::unique_ptr<evenkeel_step> made = take_handle(*stream, next->index);
    require(step, "step");
    made->step = *std::move(next);
    *step = made.release();
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
