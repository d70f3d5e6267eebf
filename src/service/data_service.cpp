#include "evenkeel/service/data_service.hpp"

#include <functional>
#include <optional>
#include <utility>

#include "mesh/fail_together.hpp"
#include "service/state/resume_checks.hpp"
#include "service/step/step_maker.hpp"

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

/// All ranks take this memory before any of them communicates about the service.
struct DataService::Parts {
  std::optional<StepMaker> maker;
  const RaggedBatch no_fields;

  /// Collective over `world`.
  [[nodiscard]] static std::unique_ptr<Parts> make(const Communicator& world) {
    require_ranks_of_one_group(world);
    return together(world, [] { return std::make_unique<Parts>(); });
  }
  /// Begins a collective call, which without MPI also ends here.
  [[nodiscard]] StepMaker& called() {
    require_ranks_of_one_group(maker->mesh().world());
    return *maker;
  }
};

DataService::DataService(const Communicator& world, const Config& config) : parts_(Parts::make(world)) {
  parts_->maker.emplace(world, config);
}

DataService::DataService(const Communicator& world, const Config& config, const ServiceState& from,
                         ChangedJob changed)
    : DataService(world, config, Resumption{from, changed}) {}

DataService::DataService(const Communicator& world, const Config& config, const Resumption& from)
    : parts_(Parts::make(world)) {
  require_resumable(world, config, from);
  parts_->maker.emplace(world, config, from.state);
}

DataService::DataService(DataService&&) noexcept = default;
DataService& DataService::operator=(DataService&&) noexcept = default;
DataService::~DataService() = default;

const Mesh& DataService::mesh() const noexcept {
  return parts_->maker->mesh();
}

ServiceState DataService::state() const {
  return parts_->maker->state();
}

PlanSettings DataService::plan_settings(std::string_view profile) const {
  return parts_->maker->plan_settings(profile);
}

Step DataService::step(const Reader& read, std::string_view profile) {
  return parts_->called().first_pass(read, profile);
}

Step DataService::step(RaggedBatch mine, std::string_view profile) {
  const auto read = [&] { return std::move(mine); };
  return step(Reader(std::ref(read)), profile);
}

Step DataService::step(Step before, std::string_view profile, const RaggedBatch& added) {
  return parts_->called().later_pass(std::move(before), profile, added);
}

Step DataService::step(Step before, std::string_view profile, const Reader& added) {
  StepMaker& maker = parts_->called();
  GuardedWork work;
  RaggedBatch fields;
  work([&] { fields = added(); });
  return maker.later_pass(std::move(before), profile, fields, work);
}

Step DataService::step(Step before, std::string_view profile) {
  return step(std::move(before), profile, parts_->no_fields);
}

RaggedBatch DataService::collect(const Step& step, const StepResults& results) const {
  return parts_->called().collect(step, results);
}

RaggedBatch DataService::collect_on(const Step& step, const StepResults& results, int root) const {
  return parts_->called().collect_on(step, results, root);
}

void DataService::report_time(const Step& step, std::size_t micro_batch, double seconds) const {
  parts_->maker->report_time(step, micro_batch, seconds);
}

}  // namespace evenkeel
