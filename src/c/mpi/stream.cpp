#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "c/mpi/failures.hpp"
#include "c/mpi/handles.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel::c {
namespace {

// Starts making the steps of a stream. Collective.
void start_steps(evenkeel_stream& stream) {
  stream.samples->resume_waiting();
  const auto reader = [&stream](std::int64_t step) { return stream.samples->read(step); };
  stream.steps.emplace(stream.service->steps(reader, stream.samples->num_steps(), stream.profile));
}

}  // namespace
}  // namespace evenkeel::c

using namespace evenkeel;
using namespace evenkeel::c;

evenkeel_status evenkeel_stream_create(const evenkeel_service* service, const char* const* profiles,
                                       int64_t num_profiles, evenkeel_stream** stream) {
  return run_guarded_over_mpi([&] {
    if (stream != nullptr) *stream = nullptr;
    require(service, "service");
    std::unique_ptr<evenkeel_stream> made;
    std::vector<std::string> passes;
    run_together(service->trainers(), [&] {
      require(stream, "stream");
      passes = texts_of(profiles, num_profiles, "profiles");
      made = std::make_unique<evenkeel_stream>();
      if (!passes.empty()) made->profile = passes.front();
    });
    made->service = service->service;
    made->trainers = service->trainers();
    made->samples.emplace(service->ranks, service->config, passes);
    made->service->require_same_sources(*made->samples);
    *stream = made.release();
  });
}

int64_t evenkeel_stream_num_steps(const evenkeel_stream* stream) {
  return stream == nullptr ? 0 : stream->samples->num_steps();
}

evenkeel_status evenkeel_stream_next(evenkeel_stream* stream, evenkeel_step** step) {
  return run_guarded_over_mpi([&] {
    if (step != nullptr) *step = nullptr;
    require(stream, "stream");
    if (!stream->steps) start_steps(*stream);
    std::optional<Step> next = stream->steps->next();
    require(step, "step");
    if (next) *step = abort_if_out_of_memory([&] { return new evenkeel_step(*std::move(next)); });
  });
}

evenkeel_status evenkeel_stream_stop(evenkeel_stream* stream) {
  return run_guarded_over_mpi([&] {
    require(stream, "stream");
    stream->samples->stop_waiting();
    stream->steps.reset();
  });
}

evenkeel_status evenkeel_stream_state(evenkeel_stream* stream, char** state, int64_t* bytes) {
  return run_guarded_over_mpi([&] {
    if (state != nullptr) *state = nullptr;
    require(stream, "stream");
    ServiceState now = run_together(stream->trainers, [&] {
      require(state, "state");
      return stream->service->state();
    });
    stream->samples->describe(now);
    copy_text_to_caller(to_text(now), state, bytes);
  });
}

evenkeel_status evenkeel_stream_publish(evenkeel_stream* stream, int64_t version) {
  return run_guarded_over_mpi([&] {
    require(stream, "stream");
    stream->samples->publish(version);
  });
}

evenkeel_status evenkeel_stream_report_saved_before(evenkeel_stream* stream, int64_t next_step) {
  return run_guarded_over_mpi([&] {
    require(stream, "stream");
    stream->samples->report_saved_before(next_step);
  });
}

void evenkeel_stream_destroy(evenkeel_stream* stream) {
  if (stream != nullptr) stream->samples->stop_waiting();
  delete stream;
}
