#include <memory>
#include <optional>
#include <utility>

#include "c/mpi/failures.hpp"
#include "c/mpi/handles.hpp"
#include "evenkeel/c/evenkeel_mpi.h"
#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/watchdog/watchdog.hpp"
#include "mesh/fail_together.hpp"

struct evenkeel_watchdog {
  std::optional<evenkeel::Watchdog> watchdog;
};

namespace evenkeel::c {
namespace {

WatchdogSettings settings_of(double seconds, evenkeel_watchdog_function tells,
                             evenkeel_watchdog_function ends, void* context) {
  WatchdogSettings settings = process_ending_settings(seconds);
  if (tells != nullptr)
    settings.tells = [=](const WatchdogReport& report) { tells(report.text().c_str(), context); };
  if (ends != nullptr)
    settings.ends = [=](const WatchdogReport& report) { ends(report.message.c_str(), context); };
  return settings;
}

}  // namespace
}  // namespace evenkeel::c

using namespace evenkeel;
using namespace evenkeel::c;

evenkeel_status evenkeel_watchdog_create(const evenkeel_ranks* ranks, double seconds,
                                         evenkeel_watchdog_function tells, evenkeel_watchdog_function ends,
                                         void* context, evenkeel_watchdog** watchdog) {
  return run_guarded_over_mpi([&] {
    if (watchdog != nullptr) *watchdog = nullptr;
    require(ranks, "ranks");
    require_ranks_of_one_group(ranks->ranks);
    WatchdogSettings settings;
    auto made = run_together(ranks->ranks, [&] {
      require(watchdog, "watchdog");
      settings = settings_of(seconds, tells, ends, context);
      return std::make_unique<evenkeel_watchdog>();
    });
    made->watchdog.emplace(ranks->ranks, std::move(settings));
    *watchdog = made.release();
  });
}

void evenkeel_watchdog_record_progress() {
  Watchdog::record_progress();
}

void evenkeel_watchdog_destroy(evenkeel_watchdog* watchdog) {
  delete watchdog;
}
