#include "evenkeel/service/data_service.hpp"

#include <optional>
#include <utility>

#include "mesh/fail_together.hpp"
#include "service/resume_checks.hpp"
#include "service/step_maker.hpp"

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

// Its memory is taken before ranks communicate, on all of them or on none.
struct DataService::Parts {
  std::optional<StepMaker> maker;
};

DataService::DataService(const boost::mpi::communicator& world, const Config& config) {
  require_ranks_of_one_group(world);
  parts_ = together(world, [] { return std::make_unique<Parts>(); });
  parts_->maker.emplace(world, config);
}

DataService::DataService(const boost::mpi::communicator& world, const Config& config,
                         const ServiceState& from, ChangedJob changed) {
  require_ranks_of_one_group(world);
  parts_ = together(world, [] { return std::make_unique<Parts>(); });
  require_resumable(world, config, from, changed);
  parts_->maker.emplace(world, config, from);
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
  return parts_->maker->first_pass(read, profile);
}

Step DataService::step(RaggedBatch mine, std::string_view profile) {
  const auto read = [&] { return std::move(mine); };
  return parts_->maker->first_pass(std::ref(read), profile);
}

Step DataService::step(Step before, std::string_view profile, const RaggedBatch& added) {
  return parts_->maker->later_pass(std::move(before), profile, added);
}

RaggedBatch DataService::collect(const Step& step, const StepResults& results) const {
  return parts_->maker->collect(step, results);
}

void DataService::report_time(const Step& step, std::size_t micro_batch, double seconds) const {
  parts_->maker->report_time(step, micro_batch, seconds);
}

}  // namespace evenkeel
