#include "evenkeel/source/sample_stream.hpp"

#include "mesh/fail_together.hpp"

namespace evenkeel {

// The communicator is the caller's: sources use it while they are opened, and for fingerprints.
SampleStream::SampleStream(const boost::mpi::communicator& comm, const Config& config)
    : comm_(comm),
      source_(open_source(comm, config.source, longest_sample(config))),
      schedule_(source_->num_samples(), config.batch) {}

RaggedBatch SampleStream::read(std::int64_t step) {
  return source_->read(schedule_.share_of(step, comm_.rank(), comm_.size()));
}

void SampleStream::describe(ServiceState& state) {
  if (fingerprints_.empty()) {
    SourceFingerprint fingerprint = source_->fingerprint(comm_);
    together(comm_, [&] { fingerprints_.push_back(std::move(fingerprint)); });
  }
  together(comm_, [&] { state.sources = fingerprints_; });
}

}  // namespace evenkeel
