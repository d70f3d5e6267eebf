#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "c/borrowed_ranks.hpp"
#include "c/failures.hpp"
#include "evenkeel/c/evenkeel.h"
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
  WatchdogSettings settings = ending_the_process(seconds);
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

evenkeel_status evenkeel_watchdog_create(MPI_Comm comm, double seconds, evenkeel_watchdog_function tells,
                                         evenkeel_watchdog_function ends, void* context,
                                         evenkeel_watchdog** watchdog) {
  return guarded([&] {
    if (watchdog != nullptr) *watchdog = nullptr;
    const Communicator ranks{BorrowedRanks(comm)};
    require_ranks_of_one_group(ranks);
    WatchdogSettings settings;
    auto made = together(ranks, [&] {
      require(watchdog, "watchdog");
      settings = settings_of(seconds, tells, ends, context);
      return std::make_unique<evenkeel_watchdog>();
    });
    made->watchdog.emplace(ranks, std::move(settings));
    *watchdog = made.release();
  });
}

void evenkeel_watchdog_tell_progress() {
  Watchdog::tell_progress();
}

void evenkeel_watchdog_destroy(evenkeel_watchdog* watchdog) {
  delete watchdog;
}
