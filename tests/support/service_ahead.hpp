#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "evenkeel/service/data_service.hpp"
#include "evenkeel/source/sample_stream.hpp"

namespace evenkeel::test {

/// A service and the steps that it makes ahead, for tests that only need these.
class ServiceAhead {
 public:
  ServiceAhead(const Communicator& world, const Config& config, std::int64_t steps, Steps::Reader read,
               std::string profile = {})
      : service_(world, config), steps_(service_.steps(std::move(read), steps, std::move(profile))) {}
  ServiceAhead(const Communicator& world, const Config& config, std::int64_t steps, Steps::Reader read,
               const ServiceState& from, ChangedJob changed = ChangedJob::refused, std::string profile = {})
      : service_(world, config, from, changed),
        steps_(service_.steps(std::move(read), steps, std::move(profile))) {}

  [[nodiscard]] bool in_background() const noexcept { return steps_.in_background(); }
  [[nodiscard]] std::optional<Step> next() { return steps_.next(); }
  bool progress() { return steps_.progress(); }
  [[nodiscard]] ServiceState state() const { return service_.state(); }
  void report_time(const Step& step, std::size_t micro_batch, double seconds) const {
    service_.report_time(step, micro_batch, seconds);
  }

 private:
  DataService service_;
  Steps steps_;
};

}  // namespace evenkeel::test
