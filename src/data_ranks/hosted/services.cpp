#include "data_ranks/hosted/services.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "data_ranks/hosted/batches_ahead.hpp"
#include "data_ranks/hosted/steps.hpp"
#include "evenkeel/base/error.hpp"
#include "service/ahead/steps_ahead.hpp"
#include "service/state/resume_checks.hpp"
#include "service/step/step_maker.hpp"

namespace evenkeel {
namespace {

void throw_any(const GuardedWork& work) {
  if (work.error()) throw_error(*work.error());
}

}  // namespace

/// A prefetcher, and the samples that are read for it meanwhile.
struct HostedServices::HostedPrefetcher {
  std::optional<BatchesAhead> batches;
  std::optional<HostedSteps> around;
  std::optional<StepsAhead> steps;  // last: its thread uses the others
};

HostedServices::HostedServices(const Communicator& everyone, const Config& config,
                               std::function<Reader()> newest_reader)
    : everyone_(everyone), config_(config), newest_reader_(std::move(newest_reader)) {}

HostedServices::~HostedServices() = default;

void HostedServices::let_go(const DataCall& call) {
  if (call.service != 0) passes_.drop_before(call.service, call.held);
  if (call.released != 0) passes_.close(call.released);
}

void HostedServices::answer(const DataCall& call, const GuardedWork& before) {
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
        passes_.close_if_empty(call.service);
        return;
      case DataCallKind::end_prefetcher:
        prefetchers_.erase(call.service);  // its thread may have added passes until now
        passes_.drop_before(call.service, call.held);
        passes_.close_if_empty(call.service);
        return;
      case DataCallKind::open_stream:
      case DataCallKind::describe_stream:
      case DataCallKind::tell_delay:
      case DataCallKind::tell_arrivals:
      case DataCallKind::stop_waiting:
      case DataCallKind::publish_version:
      case DataCallKind::steps_trained:
      case DataCallKind::finish:
        break;
    }
  });
}

void HostedServices::throw_lone_error() const {
  for (const auto& [service, prefetcher] : prefetchers_) prefetcher.steps->throw_lone_error();
}

// Collective. The state of a new service, or of the one it goes on from, as the trainers have sent it.
// `prepare` takes this rank's memory for what is made with it.
ServiceState HostedServices::agree_on_state(const DataCall& call, const GuardedWork& before,
                                            const std::function<void(const ServiceState&)>& prepare) const {
  GuardedWork work(before);
  ServiceState from;
  work([&] {
    if (call.state) from = parse_state(*call.state, "the state to resume from");
    prepare(from);
  });
  work.agree(everyone_);
  if (call.state) {
    // The trainers have compared the sources and report the differences.
    require_resumable(everyone_, config_,
                      {from, call.accepts_changes ? ChangedJob::accepted : ChangedJob::sources_elsewhere});
  }
  return from;
}

void HostedServices::make_service(const DataCall& call, const GuardedWork& before) {
  Makers made;
  HostedPasses::ServiceRoom room;
  const auto prepare = [&](const ServiceState& /*from*/) {
    made.try_emplace(0);
    room = HostedPasses::room_for_service();
  };
  const ServiceState from = agree_on_state(call, before, std::ref(prepare));
  Makers::node_type node = made.extract(made.begin());
  StepMaker& maker = node.mapped().emplace(everyone_, config_, from, AssignedBy::first_without_a_place);
  passes_.open(maker.service(), std::move(room));
  node.key() = maker.service();
  makers_.insert(std::move(node));
}

void HostedServices::make_prefetcher(const DataCall& call, const GuardedWork& before) {
  Prefetchers made;
  std::string profile;
  const auto prepare = [&](const ServiceState& from) {
    const std::int64_t depth = std::max<std::int64_t>(1, config_.exchange.prefetch);
    made[0].batches.emplace(from.next_step, call.number, depth, newest_reader_());
    made[0].around.emplace(passes_);
    profile = call.profile;
  };
  const ServiceState from = agree_on_state(call, before, std::ref(prepare));
  Prefetchers::node_type node = made.extract(made.begin());
  const auto read = [&batches = *node.mapped().batches](std::int64_t step) { return batches.take(step); };
  StepsAhead& steps = node.mapped().steps.emplace(
      everyone_, config_, StepsWanted{call.number, read, std::move(profile)}, from, *node.mapped().around);
  node.key() = steps.maker().service();
  prefetchers_.insert(std::move(node));
}

StepMaker& HostedServices::maker_of(std::uint64_t service) {
  return *makers_.at(service);
}

void HostedServices::first_pass(const DataCall& call, const GuardedWork& before) {
  StepMaker& maker = maker_of(call.service);
  HostedPasses::PassRoom room;
  const auto read = [&] {
    throw_any(before);
    room = HostedPasses::room_for_pass();
    return newest_reader_()(maker.next_step());
  };
  Step pass = maker.first_pass(std::ref(read), call.profile);
  passes_.add(std::move(pass), std::move(room));
}

void HostedServices::later_pass(const DataCall& call, const GuardedWork& before) {
  GuardedWork work(before);
  Step pass;
  std::optional<RaggedBatch> added;
  HostedPasses::PassRoom room;
  work([&] {
    pass = passes_.find(call.step);
    added = passes_.results_of(call.step, call.names);
    room = HostedPasses::room_for_pass();
  });
  pass = maker_of(call.service).later_pass(std::move(pass), call.profile, added ? *added : no_samples_, work);
  passes_.add(std::move(pass), std::move(room));
}

void HostedServices::collect(const DataCall& call, const GuardedWork& before) {
  const StepMaker& maker = maker_of(call.service);
  GuardedWork work(before);
  Step pass;
  HostedPasses::ResultsRoom room;
  work([&] {
    pass = passes_.find(call.step);
    room = HostedPasses::room_for_results();
  });
  if (call.kind == DataCallKind::collect_on) {
    static_cast<void>(maker.collect_on(pass, no_results_, static_cast<int>(call.number), work));
  } else {
    RaggedBatch results = maker.collect(pass, no_results_, work);
    passes_.keep_results(call.step, std::move(results), std::move(room));
  }
}

}  // namespace evenkeel
