#include "data_ranks/hosted/passes.hpp"

#include <algorithm>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

// A node of a map, which is put into another one without memory.
template <typename Map>
typename Map::node_type node_of() {
  Map alone;
  alone.try_emplace(0);
  return alone.extract(alone.begin());
}

}  // namespace

HostedPasses::ServiceRoom HostedPasses::room_for_service() {
  return node_of<Services>();
}

HostedPasses::PassRoom HostedPasses::room_for_pass() {
  return node_of<std::map<std::uint64_t, Hosted>>();
}

void HostedPasses::open(std::uint64_t service, ServiceRoom room) {
  const std::lock_guard lock(mutex_);
  room.key() = service;
  services_.insert(std::move(room));
}

void HostedPasses::add(Step pass, PassRoom room) {
  {
    const std::lock_guard lock(mutex_);
    const StepOrigin& origin = pass.record->origin;
    Passes& passes = services_.at(origin.service);
    room.key() = origin.serial;
    pass.micro_batches.clear();
    room.mapped().pass = std::move(pass);
    passes.of.insert(std::move(room));
  }
  added_.notify_all();
}

void HostedPasses::drop_before(std::uint64_t service, std::uint64_t first) {
  const std::lock_guard lock(mutex_);
  const auto found = services_.find(service);
  if (found == services_.end()) return;
  Passes& passes = found->second;
  passes.first_kept = std::max(passes.first_kept, first);
  passes.of.erase(passes.of.begin(), passes.of.lower_bound(passes.first_kept));
}

void HostedPasses::close(std::uint64_t service) {
  const std::lock_guard lock(mutex_);
  services_.erase(service);
}

void HostedPasses::close_if_empty(std::uint64_t service) {
  const std::lock_guard lock(mutex_);
  const auto found = services_.find(service);
  if (found != services_.end() && found->second.of.empty()) services_.erase(found);
}

HostedPasses::Hosted* HostedPasses::look_up(const StepOrigin& origin) {
  const auto service = services_.find(origin.service);
  if (service == services_.end()) return nullptr;
  const auto found = service->second.of.find(origin.serial);
  return found == service->second.of.end() ? nullptr : &found->second;
}

Step HostedPasses::find(const StepOrigin& origin) {
  std::unique_lock lock(mutex_);
  const auto service = services_.find(origin.service);
  if (origin.serial == 0 || service == services_.end()) return {};
  // Another thread of this rank has taken part in making it, and may be about to add it.
  added_.wait(lock, [&] { return look_up(origin) != nullptr || origin.serial < service->second.first_kept; });
  const Hosted* const hosted = look_up(origin);
  return hosted == nullptr ? Step{} : hosted->pass;
}

void HostedPasses::keep_results(const StepOrigin& origin, RaggedBatch results, ResultsRoom room) {
  const std::lock_guard lock(mutex_);
  Hosted* const hosted = look_up(origin);
  if (hosted == nullptr) return;
  room.front() = std::move(results);
  hosted->results.splice(hosted->results.end(), room);
}

RaggedBatch HostedPasses::results_of(const StepOrigin& origin, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  const std::lock_guard lock(mutex_);
  const Hosted* const hosted = look_up(origin);
  if (hosted == nullptr || hosted->results.empty()) {
    throw InputError("added fields", "are for a step from which nothing was collected",
                     "With data ranks, add what was collected from the step: its samples are there");
  }
  RaggedBatch found({hosted->results.back().samples().begin(), hosted->results.back().samples().end()});
  for (const std::string& name : names) {
    const Column* newest = nullptr;
    for (const RaggedBatch& results : hosted->results) {
      if (const Column* const column = results.find(name)) newest = column;
    }
    if (newest == nullptr) {
      throw InputError("added field '" + name + "'", "was not collected from the step",
                       "With data ranks, add what was collected from the step: its samples are there");
    }
    found.add_field(Column(*newest));
  }
  return found;
}

}  // namespace evenkeel
