// Also defines the members of DataService that take a SampleStream, since the module `service` does not know
// SampleStream.
#include "evenkeel/source/sample_stream.hpp"

#include <cstdint>
#include <string>
#include <utility>

#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/service/data_service.hpp"
#include "mesh/fail_together.hpp"
#include "source/arriving/arriving_stream.hpp"
#include "source/plain_stream.hpp"

namespace evenkeel {
namespace {

std::unique_ptr<ReadingStream> make_stream(const Communicator& comm, const Config& config) {
  if (config.sources.empty() && config.source.kind == SourceKind::stream)
    return std::make_unique<ArrivingStream>(comm, config);
  return std::make_unique<PlainStream>(comm, config);
}

}  // namespace

SampleStream::SampleStream(const Communicator& comm, const Config& config,
                           std::span<const std::string> profiles) {
  require_ranks_of_one_group(comm);
  stream_ = run_together(comm, [&] { return make_stream(comm, config); });
  stream_->open(config, profiles);
}

SampleStream::SampleStream(SampleStream&&) noexcept = default;
SampleStream& SampleStream::operator=(SampleStream&&) noexcept = default;
SampleStream::~SampleStream() = default;

const std::vector<StreamSource>& SampleStream::sources() const noexcept {
  return stream_->sources();
}

std::int64_t SampleStream::num_samples() const noexcept {
  return stream_->num_samples();
}

std::int64_t SampleStream::num_steps() const noexcept {
  return stream_->num_steps();
}

RaggedBatch SampleStream::read(std::int64_t step) {
  return stream_->read(step);
}

DelayFigures SampleStream::delay_figures() {
  return stream_->delay_figures();
}

void SampleStream::publish(std::int64_t version) {
  stream_->publish(version);
}

void SampleStream::report_saved_before(std::int64_t next_step) {
  stream_->report_saved_before(next_step);
}

ArrivalFigures SampleStream::arrival_figures() {
  return stream_->arrival_figures();
}

void SampleStream::stop_waiting() noexcept {
  stream_->stop_waiting();
}

void SampleStream::resume_waiting() noexcept {
  stream_->resume_waiting();
}

void SampleStream::describe(ServiceState& state) {
  stream_->describe(state);
}

void DataService::require_same_sources(SampleStream& samples) {
  if (!has_unchecked_sources()) return;
  ServiceState now;
  samples.describe(now);
  require_sources(now);
}

Steps DataService::steps(SampleStream& samples, std::string profile) {
  require_same_sources(samples);
  return steps([&samples](std::int64_t step) { return samples.read(step); }, samples.num_steps(),
               std::move(profile));
}

}  // namespace evenkeel
