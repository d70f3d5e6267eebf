#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "c/borrowed_ranks.hpp"
#include "c/failures.hpp"
#include "c/handles.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel::c {
namespace {

/// A state as C hands it in.
struct SavedState {
  const char* text;
  std::int64_t bytes;
  bool accepts_changes;
};

// What may fail on this rank alone, before ranks communicate.
std::unique_ptr<evenkeel_service> prepare(MPI_Comm comm, const evenkeel_config* config,
                                          const SavedState* saved, std::optional<ServiceState>& from) {
  require(config, "config");
  auto service = std::make_unique<evenkeel_service>();
  service->ranks = boost::mpi::communicator(comm, boost::mpi::comm_attach);
  service->config = config->config;
  if (saved == nullptr) return service;
  require_list(saved->text, saved->bytes, "state");
  const std::string_view text(text_or_empty(saved->text), static_cast<std::size_t>(saved->bytes));
  from = parse_state(text, "the state");
  return service;
}

evenkeel_status make_service(MPI_Comm comm, const evenkeel_config* config, const SavedState* saved,
                             evenkeel_service** service) noexcept {
  return guarded([&] {
    if (service != nullptr) *service = nullptr;
    std::unique_ptr<evenkeel_service> made;
    std::optional<ServiceState> from;
    const std::optional<ErrorReport> error = try_locally([&] {
      require(service, "service");
      made = prepare(comm, config, saved, from);
    });
    if (error) {
      const Communicator ranks{BorrowedRanks(comm)};
      require_ranks_of_one_group(ranks);
      fail_together(ranks, error);  // the others begin to make a service with the same agreement
    }
    if (from) {
      const ChangedJob changed = saved->accepts_changes ? ChangedJob::accepted : ChangedJob::refused;
      made->service = std::make_shared<DataService>(made->ranks, made->config, *from, changed);
    } else {
      made->service = std::make_shared<DataService>(made->ranks, made->config);
    }
    *service = made.release();
  });
}

/// Collective: hands out what `collect` brings of this step and these results. What is wrong with arguments
/// goes in with the results, so that all ranks are told.
template <typename Collect>
evenkeel_status hand_out_results(const evenkeel_service* service, const evenkeel_step* step,
                                 const evenkeel_results* results, evenkeel_samples** samples,
                                 Collect&& collect) noexcept {
  return guarded([&] {
    if (samples != nullptr) *samples = nullptr;
    require(service, "service");
    std::unique_ptr<evenkeel_samples> made;
    StepResults none(0);
    const StepResults* given = results == nullptr ? &none : &results->results;
    const auto look = [&] {
      require(samples, "samples");
      require(step, "step");
      if (results != nullptr && results->wrong) throw_error(*results->wrong);
      made = std::make_unique<evenkeel_samples>();
    };
    if (const std::optional<ErrorReport> error = try_locally(look)) {
      none.fail(*error);
      given = &none;
    }
    const Step nothing;
    RaggedBatch home = collect(*service->service, step == nullptr ? nothing : step->step, *given);
    made->batch = std::move(home);
    *samples = made.release();
  });
}

}  // namespace
}  // namespace evenkeel::c

using namespace evenkeel;
using namespace evenkeel::c;

evenkeel_status evenkeel_service_create(MPI_Comm comm, const evenkeel_config* config,
                                        evenkeel_service** service) {
  return make_service(comm, config, nullptr, service);
}

evenkeel_status evenkeel_service_resume(MPI_Comm comm, const evenkeel_config* config, const char* state,
                                        int64_t bytes, int32_t accept_changes, evenkeel_service** service) {
  const SavedState saved{state, bytes, accept_changes != 0};
  return make_service(comm, config, &saved, service);
}

evenkeel_status evenkeel_service_get_place(const evenkeel_service* service, evenkeel_place* place) {
  return guarded([&] {
    require(place, "place");
    require(service, "service");
    const Mesh& mesh = service->service->mesh();
    const GridPoint& here = mesh.here();
    const GridPoint& sizes = mesh.grid().sizes();
    evenkeel_place found{};
    found.rank = mesh.rank().value();
    found.num_ranks = mesh.grid().num_ranks();
    found.tp = here.tp;
    found.cp = here.cp;
    found.dp = here.dp;
    found.pp = here.pp;
    found.tp_size = sizes.tp;
    found.cp_size = sizes.cp;
    found.dp_size = sizes.dp;
    found.pp_size = sizes.pp;
    found.reports_results = reports_results(mesh) ? 1 : 0;
    *place = found;
  });
}

evenkeel_status evenkeel_service_step(evenkeel_service* service, const evenkeel_samples* samples,
                                      const char* profile, evenkeel_step** step) {
  return guarded([&] {
    if (step != nullptr) *step = nullptr;
    require(service, "service");
    const auto read = [&] {
      require(step, "step");
      require(samples, "samples");
      return lent(*samples);
    };
    Step made = service->service->step(DataService::Reader(std::ref(read)), text_or_empty(profile));
    *step = end_if_out_of_memory([&] { return new evenkeel_step{std::move(made), {}}; });
  });
}

evenkeel_status evenkeel_service_context(const evenkeel_service* service, const evenkeel_step* step,
                                         int64_t micro_batch, MPI_Comm* comm) {
  return guarded([&] {
    require(comm, "comm");
    require(service, "service");
    const MicroBatch& m = step->step.micro_batches[micro_batch_index(step, micro_batch)];
    *comm = service->service->mesh().context(m.context);
  });
}

evenkeel_status evenkeel_service_step_again(evenkeel_service* service, evenkeel_step* step,
                                            const char* profile, const evenkeel_samples* added) {
  return guarded([&] {
    require(service, "service");
    Step before;
    if (step != nullptr) {
      step->samples.clear();
      before = std::move(step->step);
    }
    DataService& maker = *service->service;
    const auto read = [added] { return lent(*added); };
    Step pass = added == nullptr
                    ? maker.step(std::move(before), text_or_empty(profile))
                    : maker.step(std::move(before), text_or_empty(profile), DataService::Reader(read));
    step->step = std::move(pass);  // all ranks have one, or none gets here
  });
}

evenkeel_status evenkeel_service_collect(const evenkeel_service* service, const evenkeel_step* step,
                                         const evenkeel_results* results, evenkeel_samples** samples) {
  return hand_out_results(service, step, results, samples,
                          [](const DataService& from, const Step& of, const StepResults& given) {
                            return from.collect(of, given);
                          });
}

evenkeel_status evenkeel_service_collect_on(const evenkeel_service* service, const evenkeel_step* step,
                                            const evenkeel_results* results, int32_t root,
                                            evenkeel_samples** samples) {
  return hand_out_results(service, step, results, samples,
                          [root](const DataService& from, const Step& of, const StepResults& given) {
                            return from.collect_on(of, given, root);
                          });
}

evenkeel_status evenkeel_service_report_time(const evenkeel_service* service, const evenkeel_step* step,
                                             int64_t micro_batch, double seconds) {
  return guarded([&] {
    require(service, "service");
    const std::size_t m = micro_batch_index(step, micro_batch);
    service->service->report_time(step->step, m, seconds);
  });
}

evenkeel_status evenkeel_service_state(const evenkeel_service* service, char** state, int64_t* bytes) {
  return guarded([&] {
    require(state, "state");
    *state = nullptr;
    require(service, "service");
    hand_out(to_text(service->service->state()), state, bytes);
  });
}

void evenkeel_service_destroy(evenkeel_service* service) {
  delete service;
}
