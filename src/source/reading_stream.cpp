#include "source/reading_stream.hpp"

#include "mesh/fail_together.hpp"
#include "source/arriving/arriving_stream.hpp"
#include "source/plain_stream.hpp"

namespace evenkeel {

std::unique_ptr<ReadingStream> ReadingStream::make(const Communicator& readers, int num_ranks,
                                                   const Config& config) {
  if (config.sources.empty() && config.source.kind == SourceKind::stream)
    return std::make_unique<ArrivingStream>(readers, num_ranks, config);
  return std::make_unique<PlainStream>(readers, num_ranks, config);
}

void ReadingStream::describe(ServiceState& state) {
  GuardedWork work;
  work.in_any_case([&] { take_fingerprints(); });
  work([&] { tell_fingerprints(state); });
  work.agree(readers_);
}

std::unique_ptr<ReadingStream> open_stream(const Communicator& comm, const Config& config,
                                           std::span<const std::string> profiles, std::int64_t most_steps) {
  auto stream = together(comm, [&] { return ReadingStream::make(comm, comm.size(), config); });
  stream->open(config, profiles);
  stream->end_at(most_steps);
  return stream;
}

}  // namespace evenkeel
