// Who makes a stream, a service or a prefetcher need not know of data ranks: here it is chosen whether they
// are called.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "data_ranks/called/service.hpp"
#include "data_ranks/called/steps.hpp"
#include "data_ranks/called/stream.hpp"
#include "data_ranks/data_line.hpp"
#include "evenkeel/service/data_service.hpp"
#include "evenkeel/service/prefetcher.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "mesh/fail_together.hpp"
#include "service/ahead/prefetcher_parts.hpp"
#include "service/plain_service.hpp"
#include "source/reading_stream.hpp"

namespace evenkeel {
namespace {

bool has_data_ranks(const Config& config) {
  return config.mesh.data_ranks > 0;
}

std::unique_ptr<AnyStream> make_stream(const Communicator& comm, const Config& config,
                                       std::span<const std::string> profiles, std::int64_t most_steps) {
  const Communicator everyone = DataLine::ranks(comm, config);
  if (has_data_ranks(config)) return CalledStream::make(everyone, profiles, most_steps);
  return open_stream(everyone, config, profiles, most_steps);
}

std::unique_ptr<AnyService> make_service(const Communicator& world, const Config& config,
                                         const Resumption* from) {
  const Communicator everyone = DataLine::ranks(world, config);
  if (has_data_ranks(config)) return CalledService::make(everyone, config, from);
  return PlainService::make(everyone, config, from);
}

std::unique_ptr<PrefetcherParts> make_prefetcher(const Communicator& world, const Config& config,
                                                 StepsWanted wanted, const Resumption* from) {
  const Communicator everyone = DataLine::ranks(world, config);
  GuardedWork work;
  if (has_data_ranks(config)) CalledSteps::call_for_prefetcher(wanted, from, work);
  std::unique_ptr<PrefetcherParts> parts;
  work([&] {
    std::unique_ptr<AroundSteps> around;
    if (has_data_ranks(config)) around = std::make_unique<CalledSteps>();
    if (!around) around = std::make_unique<AroundSteps>();
    parts = std::make_unique<PrefetcherParts>(std::move(around));
  });
  work.agree(everyone);
  parts->begin(everyone, config, std::move(wanted), from);
  return parts;
}

/// Collective: a state with the stream's sources, which are described whatever the state to resume from has,
/// since ranks have not compared that yet.
ServiceState sources_of(SampleStream& samples, ChangedJob changed) {
  ServiceState now;
  if (changed == ChangedJob::refused) samples.describe(now);
  return now;
}

}  // namespace

SampleStream::SampleStream(const Communicator& comm, const Config& config,
                           std::span<const std::string> profiles, std::int64_t most_steps)
    : stream_(make_stream(comm, config, profiles, most_steps)) {}

DataService::DataService(const Communicator& world, const Config& config)
    : service_(make_service(world, config, nullptr)) {}

DataService::DataService(const Communicator& world, const Config& config, const ServiceState& from,
                         ChangedJob changed) {
  const Resumption resumption{from, changed};
  service_ = make_service(world, config, &resumption);
}

DataService::DataService(const Communicator& world, const Config& config, const ServiceState& from,
                         SampleStream& samples, ChangedJob changed) {
  const ServiceState sources = sources_of(samples, changed);
  const Resumption resumption{from, changed, &sources};
  service_ = make_service(world, config, &resumption);
}

Prefetcher::Prefetcher(const Communicator& world, const Config& config, std::int64_t steps, Reader read,
                       std::string profile)
    : parts_(make_prefetcher(world, config, {steps, std::move(read), std::move(profile)}, nullptr)) {}

Prefetcher::Prefetcher(const Communicator& world, const Config& config, std::int64_t steps, Reader read,
                       const ServiceState& from, ChangedJob changed, std::string profile) {
  const Resumption resumption{from, changed};
  parts_ = make_prefetcher(world, config, {steps, std::move(read), std::move(profile)}, &resumption);
}

Prefetcher::Prefetcher(const Communicator& world, const Config& config, std::int64_t steps, Reader read,
                       const ServiceState& from, SampleStream& samples, ChangedJob changed,
                       std::string profile) {
  const ServiceState sources = sources_of(samples, changed);
  const Resumption resumption{from, changed, &sources};
  parts_ = make_prefetcher(world, config, {steps, std::move(read), std::move(profile)}, &resumption);
}

}  // namespace evenkeel
