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

WatchdogSettings settings_of(double seconds, evenkeel_watchdog_function report,
                             evenkeel_watchdog_function terminate, void* context) {
  WatchdogSettings settings = default_watchdog_settings(seconds);
  if (report != nullptr)
    settings.report = [=](const WatchdogReport& found) { report(found.text().c_str(), context); };
  if (terminate != nullptr)
    settings.terminate = [=](const WatchdogReport& found) { terminate(found.message.c_str(), context); };
  return settings;
}

}  // namespace
}  // namespace evenkeel::c

using namespace evenkeel;
using namespace evenkeel::c;

evenkeel_status evenkeel_watchdog_create(const evenkeel_ranks* ranks, double seconds,
                                         evenkeel_watchdog_function report,
                                         evenkeel_watchdog_function terminate, void* context,
                                         evenkeel_watchdog** watchdog) {
  return run_guarded_over_mpi([&] {
    if (watchdog != nullptr) *watchdog = nullptr;
    require(ranks, "ranks");
    require_ranks_of_one_group(ranks->ranks);
    WatchdogSettings settings;
    auto made = run_together(ranks->ranks, [&] {
      require(watchdog, "watchdog");
      settings = settings_of(seconds, report, terminate, context);
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
