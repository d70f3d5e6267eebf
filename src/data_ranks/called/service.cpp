#include "data_ranks/called/service.hpp"

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "mesh/fail_together.hpp"
#include "service/step_record.hpp"

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

RaggedBatch require_none(RaggedBatch brought) {
  if (brought.size() == 0) return brought;
  throw InputError("samples",
                   std::to_string(brought.size()) + " were brought by a trainer, and data ranks read",
                   "Bring none, or set mesh.data_ranks to 0");
}

std::unique_ptr<CalledService> CalledService::make(const Communicator& everyone, const Config& config,
                                                   const Resumption* from) {
  GuardedWork work;
  DataCall call;
  call.kind = DataCallKind::make_service;
  DataLine::tell_to_make(std::move(call), from, work);
  std::unique_ptr<CalledService> service;
  work([&] { service = std::make_unique<CalledService>(); });
  work.agree(everyone);
  service->plain_.begin(everyone, config, from, AssignedBy::first_without_a_place);
  return service;
}

CalledService::~CalledService() {
  if (!plain_.has_begun()) return;
  GuardedWork work;  // there is nobody left to tell what goes wrong
  work([&] {
    require_ranks_of_one_group(mesh().everyone());
    const DataCall last = call(DataCallKind::end_service);
    DataLine::tell_of_end(last, std::move(held_), work);
  });
}

DataCall CalledService::call(DataCallKind kind) {
  DataCall call;
  call.kind = kind;
  call.service = plain_.maker().service();
  call.held = held_.first().value_or(plain_.maker().next_serial());
  return call;
}

Step CalledService::first_pass(const Reader& read, std::string_view profile) {
  GuardedWork told;
  DataCall call = this->call(DataCallKind::first_pass);
  HeldPasses::PassRoom room;
  told([&] {
    call.profile = profile;
    room = HeldPasses::room_for_pass();
  });
  DataLine::tell(call, told);
  const auto read_what_was_told = [&] {
    if (told.error()) throw_error(*told.error());
    return require_none(read());
  };
  Step pass = plain_.maker().first_pass(std::ref(read_what_was_told), profile);
  held_.add(pass.record->origin.serial, pass.record, std::move(room));
  return pass;
}

Step CalledService::later_pass(Step before, std::string_view profile, const RaggedBatch& added,
                               const GuardedWork& error) {
  GuardedWork told(error);
  DataCall call = this->call(DataCallKind::later_pass);
  call.step = origin_of(before);
  HeldPasses::PassRoom room;
  told([&] {
    call.profile = profile;
    call.names = names_of(added.fields());
    room = HeldPasses::room_for_pass();
  });
  DataLine::tell(call, told);
  Step pass = plain_.maker().later_pass(std::move(before), profile, added, told);
  held_.add(pass.record->origin.serial, pass.record, std::move(room));
  return pass;
}

RaggedBatch CalledService::collect(const Step& step, const StepResults& results) {
  GuardedWork told;
  DataCall call = this->call(DataCallKind::collect);
  call.step = origin_of(step);
  DataLine::tell(call, told);
  return plain_.maker().collect(step, results, told);
}

RaggedBatch CalledService::collect_on(const Step& step, const StepResults& results, int root) {
  GuardedWork told;
  DataCall call = this->call(DataCallKind::collect_on);
  call.step = origin_of(step);
  call.number = root;
  DataLine::tell(call, told);
  return plain_.maker().collect_on(step, results, root, told);
}

}  // namespace evenkeel
