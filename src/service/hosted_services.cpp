#include "service/hosted_services.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "service/batches_ahead.hpp"
#include "service/resume_checks.hpp"
#include "service/step_maker.hpp"
#include "service/steps_ahead.hpp"

namespace evenkeel {
namespace {

// What all ranks throw together, the trainers handle. MpiError may be this rank's alone.
template <typename Work>
void leave_errors_to_trainers(Work&& work) {
  try {
    std::forward<Work>(work)();
  } catch (const MpiError&) {
    throw;
  } catch (const Error&) {
    return;
  }
}

}  // namespace

/// A prefetcher, and the samples that are read for it meanwhile.
struct HostedServices::HostedPrefetcher {
  std::optional<BatchesAhead> batches;
  GuardedWork reading;  // why there are none, maybe
  std::optional<StepsAhead> steps;
};

HostedServices::HostedServices(const boost::mpi::communicator& everyone, const Config& config,
                               std::function<Reader()> newest_reader)
    : everyone_(everyone), config_(config), newest_reader_(std::move(newest_reader)) {}

HostedServices::~HostedServices() = default;

void HostedServices::answer(const DataCall& call, const GuardedWork& before) {
  if (call.service != 0) passes_.drop_before(call.service, call.held);
  leave_errors_to_trainers([&] {
    switch (call.kind) {
      case DataCallKind::make_service:
        return make_service(call, before);
      case DataCallKind::make_prefetcher:
        return make_prefetcher(call, before);
      case DataCallKind::first_pass:
        return first_pass(call, before);
      case DataCallKind::later_pass:
        return later_pass(call, before);
      case DataCallKind::collect:
      case DataCallKind::collect_on:
        return collect(call, before);
      case DataCallKind::make_step:
        return prefetcher_of(call.service).steps->make();
      case DataCallKind::end_service:
        makers_.remove_if([&](const auto& maker) { return maker->service() == call.service; });
        return;
      case DataCallKind::end_prefetcher:
        prefetchers_.remove_if([&](const auto& p) { return p.steps->maker().service() == call.service; });
        return;
      case DataCallKind::open_stream:
      case DataCallKind::describe_stream:
      case DataCallKind::finish:
        break;
    }
  });
}

// Collective, as what constructors on trainers begin with. The state of a new service, or of the one that it
// goes on from, as the trainers have sent it.
ServiceState HostedServices::agree_on_state(const DataCall& call, GuardedWork& work) const {
  ServiceState from;
  work([&] {
    if (call.state) from = parse_state(*call.state, "the state to go on from");
  });
  work.agree(everyone_);
  if (call.state) {
    require_resumable(everyone_, config_, from,
                      call.accepts_changes ? ChangedJob::accepted : ChangedJob::refused);
  }
  return from;
}

void HostedServices::make_service(const DataCall& call, const GuardedWork& before) {
  GuardedWork work(before);
  std::list<std::optional<StepMaker>> made;
  work([&] { made.emplace_back(); });
  const ServiceState from = agree_on_state(call, work);
  made.front().emplace(everyone_, config_, from);
  makers_.splice(makers_.end(), made);
}

void HostedServices::make_prefetcher(const DataCall& call, const GuardedWork& before) {
  GuardedWork work(before);
  std::list<HostedPrefetcher> made;
  StepsAhead::Reader read;
  work([&] {
    made.emplace_back();
    read = [prefetcher = &made.front()](std::int64_t step) {
      if (prefetcher->reading.error()) throw_error(*prefetcher->reading.error());
      return prefetcher->batches->take(step);
    };
  });
  const ServiceState from = agree_on_state(call, work);
  made.front().reading([&] {
    const std::int64_t depth = std::max<std::int64_t>(1, config_.exchange.prefetch);
    made.front().batches.emplace(from.next_step, call.number, depth, newest_reader_());
  });
  made.front().steps.emplace(everyone_, config_, call.number, read, call.profile, from, &passes_);
  prefetchers_.splice(prefetchers_.end(), made);
}

StepMaker& HostedServices::maker_of(std::uint64_t service) {
  return **std::ranges::find(makers_, service, [](const auto& maker) { return maker->service(); });
}

HostedServices::HostedPrefetcher& HostedServices::prefetcher_of(std::uint64_t service) {
  return *std::ranges::find(prefetchers_, service, [](const auto& p) { return p.steps->maker().service(); });
}

void HostedServices::first_pass(const DataCall& call, const GuardedWork& before) {
  StepMaker& maker = maker_of(call.service);
  const auto read = [&] {
    if (before.error()) throw_error(*before.error());
    return newest_reader_()(maker.next_step());
  };
  passes_.add(maker.first_pass(std::ref(read), call.profile));
}

void HostedServices::later_pass(const DataCall& call, const GuardedWork& before) {
  GuardedWork work(before);
  Step pass;
  RaggedBatch added;
  work([&] {
    pass = passes_.find(call.step);
    added = passes_.results_of(call.step, call.names);
  });
  passes_.add(maker_of(call.service).later_pass(std::move(pass), call.profile, added, work));
}

void HostedServices::collect(const DataCall& call, const GuardedWork& before) {
  const StepMaker& maker = maker_of(call.service);
  GuardedWork work(before);
  Step pass;
  work([&] {
    pass = passes_.find(call.step);
    passes_.expect_results(call.step);
  });
  const StepResults nothing(0);
  if (call.kind == DataCallKind::collect_on) {
    static_cast<void>(maker.collect_on(pass, nothing, static_cast<int>(call.number), work));
  } else {
    passes_.keep_results(call.step, maker.collect(pass, nothing, work));
  }
}

}  // namespace evenkeel
