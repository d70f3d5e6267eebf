#include "evenkeel/source/sample_stream.hpp"

#include "source/any_stream.hpp"

// Its constructor is in the room above that chooses who reads (data_ranks/choice.cpp).
namespace evenkeel {

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

DelayFigures SampleStream::delayed() {
  return stream_->delayed();
}

void SampleStream::publish(std::int64_t version) {
  stream_->publish(version);
}

void SampleStream::trained(std::int64_t next_step) {
  stream_->trained(next_step);
}

ArrivalFigures SampleStream::arrived() {
  return stream_->arrived();
}

void SampleStream::stop_waiting() noexcept {
  stream_->stop_waiting();
}

void SampleStream::wait_again() noexcept {
  stream_->wait_again();
}

void SampleStream::describe(ServiceState& state) {
  stream_->describe(state);
}

}  // namespace evenkeel
