#include "evenkeel/service/data_service.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "mesh/fail_together.hpp"
#include "service/data_line.hpp"
#include "service/resume_checks.hpp"
#include "service/step_maker.hpp"

namespace evenkeel {
namespace {

StepOrigin origin_of(const Step& step) {
  return step.record ? step.record->origin : StepOrigin{};
}

std::vector<std::string> names_of(std::span<const Column> columns) {
  std::vector<std::string> names;
  for (const Column& column : columns) names.push_back(column.spec().name);
  return names;
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

// Its memory is taken before ranks communicate, on all of them or on none.
struct DataService::Parts {
  Parts() = default;
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    if (!maker || maker->mesh().data_ranks() == 0) return;
    GuardedWork work;  // there is nobody left to tell what goes wrong
    work([&] {
      const DataCall last = call(DataCallKind::end_service);
      DataLine::tell_of_end(last, maker->take_held(), work);
    });
  }

  static std::unique_ptr<Parts> make(const Communicator& world, const Config& config, const Resumption* from);
  // Every collective call begins here: without MPI it ends here, too.
  [[nodiscard]] DataCall call(DataCallKind kind) {
    require_ranks_of_one_group(maker->mesh().everyone());
    DataCall call;
    call.kind = kind;
    call.service = maker->service();
    call.held = maker->first_held();
    return call;
  }
  /// Where there are data ranks: calls them. What goes wrong is this rank's part of what is called.
  void tell(const DataCall& call, GuardedWork& work) const {
    if (maker->mesh().data_ranks() > 0) DataLine::tell(call, work);
  }

  std::optional<StepMaker> maker;
  const RaggedBatch nothing;  // which takes memory
};

// Collective over `world`.
std::unique_ptr<DataService::Parts> DataService::Parts::make(const Communicator& world, const Config& config,
                                                             const Resumption* from) {
  const Communicator everyone = DataLine::ranks(world, config);
  GuardedWork work;
  if (config.mesh.data_ranks > 0) {
    DataCall call;
    call.kind = DataCallKind::make_service;
    DataLine::tell_to_make(std::move(call), from, work);
  }
  std::unique_ptr<Parts> parts;
  work([&] { parts = std::make_unique<Parts>(); });
  work.agree(everyone);
  if (from != nullptr) require_resumable(everyone, config, from->state, from->changed);
  const ServiceState fresh;  // not a copy of `from`, which would take memory
  parts->maker.emplace(everyone, config, from == nullptr ? fresh : from->state);
  return parts;
}

DataService::DataService(const Communicator& world, const Config& config)
    : parts_(Parts::make(world, config, nullptr)) {}

DataService::DataService(const Communicator& world, const Config& config, const ServiceState& from,
                         ChangedJob changed) {
  const Resumption resumption{from, changed};
  parts_ = Parts::make(world, config, &resumption);
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
  GuardedWork told;
  DataCall call = parts_->call(DataCallKind::first_pass);
  told([&] { call.profile = profile; });
  parts_->tell(call, told);
  const auto read_what_was_told = [&] {
    if (told.error()) throw_error(*told.error());
    return read();
  };
  return parts_->maker->first_pass(std::ref(read_what_was_told), profile);
}

Step DataService::step(RaggedBatch mine, std::string_view profile) {
  const auto read = [&] { return std::move(mine); };
  return step(Reader(std::ref(read)), profile);
}

Step DataService::step(Step before, std::string_view profile, const RaggedBatch& added) {
  GuardedWork told;
  DataCall call = parts_->call(DataCallKind::later_pass);
  call.step = origin_of(before);
  told([&] {
    call.profile = profile;
    call.names = names_of(added.fields());
  });
  parts_->tell(call, told);
  return parts_->maker->later_pass(std::move(before), profile, added, told);
}

Step DataService::step(Step before, std::string_view profile) {
  return step(std::move(before), profile, parts_->nothing);
}

RaggedBatch DataService::collect(const Step& step, const StepResults& results) const {
  GuardedWork told;
  DataCall call = parts_->call(DataCallKind::collect);
  call.step = origin_of(step);
  parts_->tell(call, told);
  return parts_->maker->collect(step, results, told);
}

RaggedBatch DataService::collect_on(const Step& step, const StepResults& results, int root) const {
  GuardedWork told;
  DataCall call = parts_->call(DataCallKind::collect_on);
  call.step = origin_of(step);
  call.number = root;
  parts_->tell(call, told);
  return parts_->maker->collect_on(step, results, root, told);
}

void DataService::report_time(const Step& step, std::size_t micro_batch, double seconds) const {
  parts_->maker->report_time(step, micro_batch, seconds);
}

}  // namespace evenkeel
