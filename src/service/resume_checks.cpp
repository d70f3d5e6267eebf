#include "service/resume_checks.hpp"

#include <string>
#include <vector>

#include "base/hash.hpp"
#include "evenkeel/base/error.hpp"
#include "mesh/fail_together.hpp"
#include "service/equal_on_ranks.hpp"

namespace evenkeel {
namespace {

void require_equal_states(const boost::mpi::communicator& comm, const ServiceState& from) {
  const auto given = [&] {
    return std::vector<ConfigSetting>{{"the state's next step", std::to_string(from.next_step)},
                                      {"the state's checksum", std::to_string(fnv1a_64(to_text(from)))}};
  };
  require_equal_on_ranks(comm, together(comm, given),
                         "Go on from the same state on every rank: read it on one rank and broadcast it");
}

}  // namespace

void require_resumable(const boost::mpi::communicator& comm, const Config& config, const ServiceState& from,
                       ChangedJob changed) {
  require_equal_states(comm, from);
  if (changed == ChangedJob::accepted) return;
  fail_together(comm, try_on_replicated_data([&] {
                  ServiceState now = from;  // but for the settings
                  now.settings = list_settings(config);
                  require_same_job(from, now, "the state to go on from");
                }));
}

}  // namespace evenkeel
