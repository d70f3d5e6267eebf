// Constructors that resume a job and compare its sources with those of the state. They are here because the
// room `service` does not know streams.
#include <optional>
#include <string>
#include <utility>

#include "evenkeel/service/data_service.hpp"
#include "evenkeel/service/prefetcher.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "service/ahead/steps_ahead.hpp"
#include "service/state/resume_checks.hpp"

namespace evenkeel {
namespace {

/// Collective: a state with the stream's sources. They are described whatever the state to resume from has,
/// since ranks have not compared their states yet.
std::optional<ServiceState> sources_of(SampleStream& samples, ChangedJob changed) {
  ServiceState now;
  if (changed == ChangedJob::refused) samples.describe(now);
  return now;
}

}  // namespace

DataService::DataService(const Communicator& world, const Config& config, const ServiceState& from,
                         SampleStream& samples, ChangedJob changed)
    : DataService(world, config, Resumption{from, changed, sources_of(samples, changed)}) {}

Prefetcher::Prefetcher(const Communicator& world, const Config& config, std::int64_t steps, Reader read,
                       const ServiceState& from, SampleStream& samples, ChangedJob changed,
                       std::string profile)
    : Prefetcher(world, config, StepsWanted{steps, std::move(read), std::move(profile)},
                 Resumption{from, changed, sources_of(samples, changed)}) {}

}  // namespace evenkeel
