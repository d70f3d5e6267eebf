// What a DataService does with a SampleStream, which its own room does not know.
#include <cstdint>
#include <string>
#include <utility>

#include "evenkeel/service/data_service.hpp"
#include "evenkeel/source/sample_stream.hpp"

namespace evenkeel {

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
