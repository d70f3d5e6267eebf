#include "service/hosted_services.hpp"

#include <algorithm>
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

void throw_any(const GuardedWork& work) {
  if (work.error()) throw_error(*work.error());
}

}  // namespace

/// A prefetcher, and the samples that are read for it meanwhile.
struct HostedServices::HostedPrefetcher {
  std::unique_ptr<BatchesAhead> batches;
  std::unique_ptr<StepsAhead> steps;
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
        prefetchers_.at(call.service).steps->make();
        return;
      case DataCallKind::end_service:
        makers_.erase(call.service);
        return;
      case DataCallKind::end_prefetcher:
        prefetchers_.erase(call.service);
        return;
      case DataCallKind::open_stream:
      case DataCallKind::describe_stream:
      case DataCallKind::finish:
        break;
    }
  });
}

// Collective. The state of a new service, or of the one it goes on from, as the trainers have sent it.
ServiceState HostedServices::agree_on_state(const DataCall& call, const GuardedWork& before) const {
  GuardedWork work(before);
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
  const ServiceState from = agree_on_state(call, before);
  auto maker = std::make_unique<StepMaker>(everyone_, config_, from);
  const std::uint64_t number = maker->service();
  makers_.emplace(number, std::move(maker));
}

void HostedServices::make_prefetcher(const DataCall& call, const GuardedWork& before) {
  const ServiceState from = agree_on_state(call, before);
  HostedPrefetcher made;
  const std::int64_t depth = std::max<std::int64_t>(1, config_.exchange.prefetch);
  made.batches = std::make_unique<BatchesAhead>(from.next_step, call.number, depth, newest_reader_());
  const auto read = [batches = made.batches.get()](std::int64_t step) { return batches->take(step); };
  made.steps =
      std::make_unique<StepsAhead>(everyone_, config_, call.number, read, call.profile, from, &passes_);
  const std::uint64_t number = made.steps->maker().service();
  prefetchers_.emplace(number, std::move(made));
}

StepMaker& HostedServices::maker_of(std::uint64_t service) {
  return *makers_.at(service);
}

void HostedServices::first_pass(const DataCall& call, const GuardedWork& before) {
  StepMaker& maker = maker_of(call.service);
  const auto read = [&] {
    throw_any(before);
    return newest_reader_()(maker.next_step());
  };
  passes_.add(maker.first_pass(read, call.profile));
}

void HostedServices::later_pass(const DataCall& call, const GuardedWork& before) {
  GuardedWork work(before);
  Step pass = passes_.find(call.step);
  RaggedBatch added;
  work([&] { added = passes_.results_of(call.step, call.names); });
  passes_.add(maker_of(call.service).later_pass(std::move(pass), call.profile, added, work));
}

void HostedServices::collect(const DataCall& call, const GuardedWork& before) {
  const StepMaker& maker = maker_of(call.service);
  const Step pass = passes_.find(call.step);
  if (call.kind == DataCallKind::collect_on) {
    static_cast<void>(maker.collect_on(pass, StepResults(0), static_cast<int>(call.number), before));
  } else {
    passes_.keep_results(call.step, maker.collect(pass, StepResults(0), before));
  }
}

}  // namespace evenkeel
