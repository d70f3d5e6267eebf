#include "service/step/step_maker.hpp"

#include <cmath>
#include <string>
#include <utility>

#include "base/activity.hpp"
#include "base/sample_names_in_errors.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "service/passes/later_pass.hpp"
#include "service/step/collected.hpp"
#include "service/step/exchanged.hpp"
#include "service/step/gathered.hpp"
#include "service/step/planned.hpp"

namespace evenkeel {

StepMaker::StepMaker(const Communicator& world, const Config& config, const ServiceState& from)
    : context_(world, config, from), shapes_(context_.first_shapes), next_step_(from.next_step) {}

ServiceState StepMaker::state() const {
  ServiceState state = state_at(next_step_);
  state.costs = context_.times->saved_costs();
  if (shapes_) state.shapes = *shapes_;
  return state;
}

ServiceState StepMaker::state_at(std::int64_t step) const {
  ServiceState state;
  state.next_step = step;
  state.mesh = context_.mesh.grid().sizes();
  state.settings = list_settings(context_.config);
  return state;
}

void StepMaker::report_time(const Step& step, std::size_t micro_batch, double seconds) const {
  require_not_moved_from(step);
  const std::string where = "time of micro-batch " + std::to_string(micro_batch);
  const std::vector<MicroBatchPlan>& plans = step.record->plan.micro_batches;
  if (micro_batch >= plans.size())
    throw InputError(where, "cannot be reported: " + name_of(step) + " has " +
                                format_plain_count(std::ssize(plans), "micro-batch", "micro-batches"));
  if (!std::isfinite(seconds) || seconds <= 0)
    throw InputError(where, "is " + std::to_string(seconds) + " seconds, which is not a valid time",
                     "Report a finite number of seconds above 0");
  const MicroBatchPlan& plan = plans[micro_batch];
  if (plan.empty() || !context_.times->is_measured(step.profile)) return;
  // Does not call StepContext::plan_settings(), since another thread may be fitting costs.
  const PlanSettings settings = context_.config.plan_settings(mesh().grid().sizes(), step.profile);
  context_.times->add(step.profile, make_observation(step.record->table(), step.record->assignment, plan,
                                                     settings, DpRank{mesh().here().dp}, seconds));
}

// Gives this pass the next number. All ranks have succeeded so far, so the number is the same on all ranks.
void StepMaker::assign_pass_number(Gathered& gathered) {
  gathered.origin = {context_.number, ++passes_, gathered.pass.cut};
}

Step StepMaker::make_first_pass(const std::function<RaggedBatch()>& read, std::string_view profile) {
  NamesInErrors names;
  const auto read_with_names = [&] {
    RaggedBatch mine = read();
    names = mine.names_in_errors();
    return mine;
  };
  const auto make = [&] {
    const Phase phase("read samples", next_step_);
    GuardedWork work;
    auto [gathered, mine] = gather_first_pass(context_, read_with_names, profile, next_step_, work);
    assign_pass_number(gathered);
    Planned planned = plan_pass(context_, std::move(gathered), work);
    planned = choose_shapes(context_, std::move(planned), shapes_, work);
    Step step = make_step(exchange_pass(context_, std::move(planned), std::move(mine), work));
    ++next_step_;
    shapes_ = step.record->shapes;
    return step;
  };
  return abort_if_out_of_memory([&] { return with_sample_names_in_errors(names, make); });
}

Step StepMaker::make_later_pass(Step before, std::string_view profile, const RaggedBatch& added,
                                const GuardedWork& error) {
  const NamesInErrors names = before.record ? before.record->samples->names_in_errors : nullptr;
  const auto make = [&] {
    const Phase phase("agree on fields", before.index);
    GuardedWork work(error);
    auto [gathered, fields] = gather_later_pass(context_, before, profile, added, work);
    assign_pass_number(gathered);
    Planned planned = plan_pass(context_, std::move(gathered), work);
    planned = with_shapes(std::move(planned), before.record->shapes, shapes_, work);
    ExchangedSamples passed = reuse_or_resend(context_, before, planned, work);
    return make_step(
        add_fields(context_, before, std::move(planned), std::move(passed), std::move(fields), work));
  };
  return abort_if_out_of_memory([&] { return with_sample_names_in_errors(names, make); });
}

RaggedBatch StepMaker::collect(const Step& step, const StepResults& results, const GuardedWork& error) const {
  return abort_if_out_of_memory([&] { return evenkeel::collect(context_, step, results, error); });
}

RaggedBatch StepMaker::collect_on(const Step& step, const StepResults& results, int root,
                                  const GuardedWork& error) const {
  return abort_if_out_of_memory([&] { return evenkeel::collect_on(context_, step, results, root, error); });
}

}  // namespace evenkeel
