#include "evenkeel/service/data_service.hpp"

#include <functional>
#include <utility>

#include "mesh/fail_together.hpp"
#include "service/any_service.hpp"

// Its constructors are in the room above that chooses what it does (data_ranks/choice.cpp).
namespace evenkeel {
namespace {

// Every collective call begins here: without MPI it ends here, too.
AnyService& called(AnyService& service) {
  require_ranks_of_one_group(service.mesh().everyone());
  return service;
}

}  // namespace

PhaseSeconds& PhaseSeconds::operator+=(const PhaseSeconds& other) noexcept {
  read += other.read;
  gather += other.gather;
  plan += other.plan;
  agree += other.agree;
  exchange += other.exchange;
  pack += other.pack;
  return *this;
}

DataService::DataService(DataService&&) noexcept = default;
DataService& DataService::operator=(DataService&&) noexcept = default;
DataService::~DataService() = default;

const Mesh& DataService::mesh() const noexcept {
  return service_->mesh();
}

ServiceState DataService::state() const {
  return service_->state();
}

PlanSettings DataService::plan_settings(std::string_view profile) const {
  return service_->plan_settings(profile);
}

Step DataService::step(const Reader& read, std::string_view profile) {
  return called(*service_).first_pass(read, profile);
}

Step DataService::step(RaggedBatch mine, std::string_view profile) {
  const auto read = [&] { return std::move(mine); };
  return step(Reader(std::ref(read)), profile);
}

Step DataService::step(Step before, std::string_view profile, const RaggedBatch& added) {
  return called(*service_).later_pass(std::move(before), profile, added, {});
}

Step DataService::step(Step before, std::string_view profile, const Reader& added) {
  AnyService& service = called(*service_);
  GuardedWork work;
  RaggedBatch fields;
  work([&] { fields = added(); });
  return service.later_pass(std::move(before), profile, fields, work);
}

Step DataService::step(Step before, std::string_view profile) {
  return step(std::move(before), profile, service_->no_fields());
}

RaggedBatch DataService::collect(const Step& step, const StepResults& results) const {
  return called(*service_).collect(step, results);
}

RaggedBatch DataService::collect_on(const Step& step, const StepResults& results, int root) const {
  return called(*service_).collect_on(step, results, root);
}

void DataService::report_time(const Step& step, std::size_t micro_batch, double seconds) const {
  service_->report_time(step, micro_batch, seconds);
}

}  // namespace evenkeel
