#include "bench/steps/prefetch_bench.hpp"

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <chrono>
#include <functional>
#include <thread>

#include "bench/machine.hpp"
#include "bench/measurement.hpp"
#include "bench/steps/stand_in.hpp"

namespace evenkeel::bench {
namespace {

/// Trains on `rounds` steps after the warm-up. Returns how many seconds the slowest rank waited for each.
std::vector<double> waits(const boost::mpi::communicator& world, const TransferJob& job, std::int64_t depth,
                          int rounds, const std::function<void()>& compute) {
  DataService service = job.service_ahead(depth);
  Steps steps = service.steps([&](std::int64_t) { return job.mine(); }, warm_up + rounds);
  std::vector<double> waits;
  while (const std::optional<Step> step = steps.next()) {
    waits.push_back(boost::mpi::all_reduce(world, step->waited_seconds, boost::mpi::maximum<double>()));
    compute();
    world.barrier();
  }
  waits.erase(waits.begin(), waits.begin() + warm_up);
  return waits;
}

}  // namespace

Table prefetch_table(const boost::mpi::communicator& world, const TransferJob& job,
                     const TransferOptions& options) {
  Table table("prefetch", "Steps made ahead: what the trainer waits (slowest rank of each step)",
              {{"compute", "compute"},
               {"cores", "cores a rank may use"},
               {"depth", "steps ahead"},
               {"data_ms", "data work, ms", 3},
               {"compute_ms", "compute, ms", 3},
               {"wait_ms_median", "wait, ms, median", 3},
               {"wait_ms_max", "most", 3},
               {"share", "wait, % of the step", 2}});
  const double data_work = median(waits(world, job, 0, options.rounds, [] {}));
  const double compute = compute_of_data_work * data_work;
  for (const auto& [name, run] : stand_ins) {
    const std::vector<double> waited =
        waits(world, job, options.prefetch, options.rounds, [&, work = run] { work(Seconds(compute)); });
    const double middle = median(waited);
    table.add({name, usable_cores(), options.prefetch, data_work * 1e3, compute * 1e3, middle * 1e3,
               std::ranges::max(waited) * 1e3, middle / (middle + compute) * 100});
  }
  return table;
}

}  // namespace evenkeel::bench
