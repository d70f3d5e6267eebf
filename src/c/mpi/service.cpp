#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "c/mpi/failures.hpp"
#include "c/mpi/handles.hpp"
#include "c/named_arrays.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel::c {
namespace {

/// A service's state that was passed from C.
struct SavedState {
  const char* text;
  std::int64_t bytes;
  bool accepts_changes;
};

ServiceState parse_saved_state(const SavedState& saved) {
  require_list(saved.text, saved.bytes, "state");
  return parse_state({text_or_empty(saved.text), static_cast<std::size_t>(saved.bytes)}, "the state");
}

// Creates the handle and, if `saved` is not null, parses the state into `from`. This work may fail on a
// single rank, so it is done before ranks communicate.
std::unique_ptr<evenkeel_service> prepare_service(const Communicator& ranks, const evenkeel_config* config,
                                                  const SavedState* saved,
                                                  std::optional<ServiceState>& from) {
  require(config, "config");
  auto service = std::make_unique<evenkeel_service>();
  service->ranks = ranks;
  service->config = config->config;
  if (saved != nullptr) from = parse_saved_state(*saved);
  return service;
}

evenkeel_status make_service(const evenkeel_ranks* ranks, const evenkeel_config* config,
                             const SavedState* saved, evenkeel_service** service) noexcept {
  return run_guarded_over_mpi([&] {
    if (service != nullptr) *service = nullptr;
    require(ranks, "ranks");
    std::unique_ptr<evenkeel_service> made;
    std::optional<ServiceState> from;
    const std::optional<ErrorReport> error = try_locally([&] {
      require(service, "service");
      made = prepare_service(ranks->ranks, config, saved, from);
    });
    if (error) {
      require_ranks_of_one_group(ranks->ranks);
      // The other ranks take part in this agreement when they begin to create their service.
      fail_together(ranks->ranks, error);
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

/// Returns all groups of places that may run a micro-batch together.
std::vector<ContextGroup> context_groups_of(const evenkeel_service& service) {
  const GridPoint& sizes = service.service->mesh().grid().sizes();
  const auto& mesh = service.config.mesh;
  if (mesh.flexible_cp) return context_groups(sizes.dp, mesh.max_cp.value_or(sizes.dp));
  std::vector<ContextGroup> groups;
  for (int dp = 0; dp < sizes.dp; ++dp) groups.push_back({DataPlace{dp * sizes.cp}, sizes.cp});
  return groups;
}

/// Collective: stores the samples that `collect` returns for this step and these results in *samples. If an
/// argument is invalid, passes failed results to `collect`, so all ranks get the error; only a null `service`
/// fails on this rank alone.
template <typename Collect>
evenkeel_status collect_results(const evenkeel_service* service, const evenkeel_step* step,
                                const evenkeel_results* results, evenkeel_samples** samples,
                                Collect&& collect) noexcept {
  return run_guarded_over_mpi([&] {
    if (samples != nullptr) *samples = nullptr;
    require(service, "service");
    std::unique_ptr<evenkeel_samples> made;
    StepResults none(0);
    const StepResults* given = results == nullptr ? &none : &results->results;
    const auto check_arguments = [&] {
      require(samples, "samples");
      require(step, "step");
      if (results != nullptr && results->first_error) throw_error(*results->first_error);
      made = std::make_unique<evenkeel_samples>();
    };
    if (const std::optional<ErrorReport> error = try_locally(check_arguments)) {
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

evenkeel_status evenkeel_service_create(const evenkeel_ranks* ranks, const evenkeel_config* config,
                                        evenkeel_service** service) {
  return make_service(ranks, config, nullptr, service);
}

evenkeel_status evenkeel_service_resume(const evenkeel_ranks* ranks, const evenkeel_config* config,
                                        const char* state, int64_t bytes, int32_t accept_changes,
                                        evenkeel_service** service) {
  const SavedState saved{state, bytes, accept_changes != 0};
  return make_service(ranks, config, &saved, service);
}

evenkeel_status evenkeel_service_get_place(const evenkeel_service* service, evenkeel_place* place) {
  return run_guarded_over_mpi([&] {
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
  return run_guarded_over_mpi([&] {
    if (step != nullptr) *step = nullptr;
    require(service, "service");
    const auto read = [&] {
      require(step, "step");
      require(samples, "samples");
      return make_borrowing_batch(*samples);
    };
    Step made = service->service->step(DataService::Reader(std::ref(read)), text_or_empty(profile));
    *step = abort_if_out_of_memory([&] { return new evenkeel_step(std::move(made)); });
  });
}

evenkeel_status evenkeel_service_context(const evenkeel_service* service, const evenkeel_step* step,
                                         int64_t micro_batch, MPI_Comm* comm) {
  return run_guarded_over_mpi([&] {
    require(comm, "comm");
    require(service, "service");
    const std::size_t m = micro_batch_index(step, micro_batch);
    *comm = service->service->mesh().context(step->step.micro_batches[m].context);
  });
}

evenkeel_status evenkeel_service_context_groups(const evenkeel_service* service, evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    require(service, "service");
    const Grid& grid = service->service->mesh().grid();
    const GridPoint& sizes = grid.sizes();
    std::vector<std::int32_t> ranks;
    std::vector<std::int64_t> offsets{0};
    for (const ContextGroup& group : context_groups_of(*service))
      for (int pp = 0; pp < sizes.pp; ++pp)
        for (int tp = 0; tp < sizes.tp; ++tp) {
          const int first = group.first.value();
          for (int place = first; place < first + group.size; ++place)
            ranks.push_back(grid.rank_of({tp, place % sizes.cp, place / sizes.cp, pp}).value());
          offsets.push_back(std::ssize(ranks));
        }
    made.add("ranks", std::move(ranks));
    made.add("offsets", std::move(offsets));
  });
}

evenkeel_status evenkeel_service_step_again(evenkeel_service* service, evenkeel_step* step,
                                            const char* profile, const evenkeel_samples* added) {
  return run_guarded_over_mpi([&] {
    require(service, "service");
    Step before;
    if (step != nullptr) {
      step->samples.clear();
      before = std::move(step->step);
    }
    DataService& maker = *service->service;
    const auto read = [added] { return make_borrowing_batch(*added); };
    Step pass = added == nullptr
                    ? maker.step(std::move(before), text_or_empty(profile))
                    : maker.step(std::move(before), text_or_empty(profile), DataService::Reader(read));
    abort_if_out_of_memory([&] { step->set_step(std::move(pass)); });  // either all ranks get here, or none
  });
}

evenkeel_status evenkeel_service_collect(const evenkeel_service* service, const evenkeel_step* step,
                                         const evenkeel_results* results, evenkeel_samples** samples) {
  return collect_results(service, step, results, samples,
                         [](const DataService& from, const Step& of, const StepResults& given) {
                           return from.collect(of, given);
                         });
}

evenkeel_status evenkeel_service_collect_on(const evenkeel_service* service, const evenkeel_step* step,
                                            const evenkeel_results* results, int32_t root,
                                            evenkeel_samples** samples) {
  return collect_results(service, step, results, samples,
                         [root](const DataService& from, const Step& of, const StepResults& given) {
                           return from.collect_on(of, given, root);
                         });
}

evenkeel_status evenkeel_service_report_time(const evenkeel_service* service, const evenkeel_step* step,
                                             int64_t micro_batch, double seconds) {
  return run_guarded_over_mpi([&] {
    require(service, "service");
    const std::size_t m = micro_batch_index(step, micro_batch);
    service->service->report_time(step->step, m, seconds);
  });
}

evenkeel_status evenkeel_service_state(const evenkeel_service* service, char** state, int64_t* bytes) {
  return run_guarded_over_mpi([&] {
    require(state, "state");
    *state = nullptr;
    require(service, "service");
    copy_text_to_caller(to_text(service->service->state()), state, bytes);
  });
}

evenkeel_status evenkeel_state_inspect(const char* state, int64_t bytes, int64_t* next_step,
                                       int32_t* has_sources) {
  return run_guarded([&] {
    require(next_step, "next_step");
    require(has_sources, "has_sources");
    const ServiceState found = parse_saved_state({state, bytes, false});
    *next_step = found.next_step;
    *has_sources = found.sources.empty() ? 0 : 1;
  });
}

void evenkeel_service_destroy(evenkeel_service* service) {
  delete service;
}
