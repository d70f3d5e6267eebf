#include "evenkeel/service/data_service.hpp"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "mesh/fail_together.hpp"
#include "service/ahead/steps_ahead.hpp"
#include "service/state/resume_checks.hpp"

namespace evenkeel {

PhaseSeconds& PhaseSeconds::operator+=(const PhaseSeconds& other) noexcept {
  read += other.read;
  gather += other.gather;
  plan += other.plan;
  agree += other.agree;
  exchange += other.exchange;
  pack += other.pack;
  return *this;
}

namespace {

std::unique_ptr<ServiceParts> make_parts(const Communicator& world) {
  require_ranks_of_one_group(world);
  return run_together(world, [] { return std::make_unique<ServiceParts>(); });
}

/// Returns the step maker of a service. Throws MpiError if MPI is not running. Every collective function of
/// DataService calls this first.
StepMaker& checked_maker(ServiceParts& parts) {
  require_ranks_of_one_group(parts.maker->mesh().world());
  return *parts.maker;
}

/// Throws ConfigError if sources were not compared, and InputError if this service cannot make steps ahead
/// now. `parts` must be equal on all ranks.
void require_free_for_steps(const ServiceParts& parts) {
  if (parts.unchecked_state) throw_unchecked_sources(*parts.unchecked_state);
  if (parts.makes_ahead)
    throw InputError("service", "already makes steps ahead, and can follow only one sequence of steps",
                     "Destroy these Steps, or stop the stream that makes them, first");
  if (parts.has_made_steps)
    throw InputError("service",
                     "has made steps from the trainer's samples, and can follow only one sequence of steps",
                     "Use another service for steps made ahead");
}

/// Throws ConfigError if sources were not compared, and InputError if this service makes or has made steps
/// ahead. `parts` must be equal on all ranks.
void require_free_for_samples(const ServiceParts& parts) {
  if (parts.unchecked_state) throw_unchecked_sources(*parts.unchecked_state);
  if (parts.ahead || parts.position)
    throw InputError("service",
                     std::string(parts.makes_ahead ? "makes" : "has made") +
                         " steps ahead, and can follow only one sequence of steps",
                     "Use another service for samples that the trainer brings");
}

}  // namespace

ServiceState ServiceParts::state() const {
  if (!ahead) return position.value_or(maker->state());
  ServiceState state = ahead->state();
  for (const auto& [profile, cost] : maker->state().costs)
    if (profile != ahead->profile()) state.costs.insert_or_assign(profile, cost);
  return state;
}

DataService::DataService(const Communicator& world, const Config& config) : parts_(make_parts(world)) {
  abort_if_out_of_memory([&] { parts_->maker.emplace(world, config); });
}

DataService::DataService(const Communicator& world, const Config& config, const ServiceState& from,
                         ChangedJob changed)
    : parts_(make_parts(world)) {
  require_resumable(world, config, from, changed);
  abort_if_out_of_memory([&] { parts_->maker.emplace(world, config, from); });
  if (changed == ChangedJob::refused && !from.sources.empty())
    fail_together(world, try_on_replicated_data([&] { parts_->unchecked_state = from; }));
}

DataService::DataService(DataService&&) noexcept = default;
DataService& DataService::operator=(DataService&&) noexcept = default;
DataService::~DataService() = default;

bool DataService::has_unchecked_sources() const noexcept {
  return parts_->unchecked_state.has_value();
}

void DataService::require_sources(const ServiceState& now) {
  fail_together(mesh().world(), try_on_replicated_data([&] {
                  ServiceState other = *parts_->unchecked_state;
                  other.sources = now.sources;
                  other.order = now.order;
                  require_same_job(*parts_->unchecked_state, other, state_to_resume_from);
                }));
  parts_->unchecked_state.reset();
}

Steps DataService::steps(Steps::Reader read, std::int64_t num_steps, std::string profile) {
  StepMaker& maker = checked_maker(*parts_);
  ServiceState from;
  fail_together(maker.mesh().world(), try_on_replicated_data([&] {
                  require_free_for_steps(*parts_);
                  from = parts_->state();
                  if (parts_->ahead) parts_->position = from;  // remains valid if making the new Steps fails
                }));
  abort_if_out_of_memory([&] {
    parts_->ahead.emplace(maker.mesh().world(), maker.config(),
                          StepsRequest{num_steps, std::move(read), std::move(profile)}, from);
  });
  parts_->makes_ahead = true;
  return Steps(*parts_);
}

const Mesh& DataService::mesh() const noexcept {
  return parts_->maker->mesh();
}

ServiceState DataService::state() const {
  return parts_->state();
}

PlanSettings DataService::plan_settings(std::string_view profile) const {
  return parts_->maker->plan_settings(profile);
}

Step DataService::step(const Reader& read, std::string_view profile) {
  StepMaker& maker = checked_maker(*parts_);
  const auto checked_read = [&] {
    require_free_for_samples(*parts_);
    return read();
  };
  Step step = maker.make_first_pass(std::ref(checked_read), profile);
  parts_->has_made_steps = true;
  return step;
}

Step DataService::step(RaggedBatch mine, std::string_view profile) {
  const auto read = [&] { return std::move(mine); };
  return step(Reader(std::ref(read)), profile);
}

Step DataService::step(Step before, std::string_view profile, const RaggedBatch& added) {
  return checked_maker(*parts_).make_later_pass(std::move(before), profile, added);
}

Step DataService::step(Step before, std::string_view profile, const Reader& added) {
  StepMaker& maker = checked_maker(*parts_);
  GuardedWork work;
  RaggedBatch fields;
  work([&] { fields = added(); });
  return maker.make_later_pass(std::move(before), profile, fields, work);
}

Step DataService::step(Step before, std::string_view profile) {
  return step(std::move(before), profile, parts_->no_fields);
}

RaggedBatch DataService::collect(const Step& step, const StepResults& results) const {
  return checked_maker(*parts_).collect(step, results);
}

RaggedBatch DataService::collect_on(const Step& step, const StepResults& results, int root) const {
  return checked_maker(*parts_).collect_on(step, results, root);
}

void DataService::report_time(const Step& step, std::size_t micro_batch, double seconds) const {
  parts_->maker->report_time(step, micro_batch, seconds);
  if (parts_->ahead) parts_->ahead->maker().report_time(step, micro_batch, seconds);
}

}  // namespace evenkeel
