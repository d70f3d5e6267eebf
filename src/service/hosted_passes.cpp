#include "service/hosted_passes.hpp"

#include <algorithm>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

Step without_micro_batches(const Step& pass) {
  Step copy;
  copy.index = pass.index;
  copy.profile = pass.profile;
  copy.record = pass.record;
  return copy;
}

}  // namespace

void HostedPasses::add(const Step& pass) {
  {
    const std::lock_guard lock(mutex_);
    const StepOrigin& origin = pass.record->origin;
    services_[origin.service].of[origin.serial].pass = without_micro_batches(pass);
  }
  added_.notify_all();
}

void HostedPasses::drop_before(std::uint64_t service, std::uint64_t first) {
  const std::lock_guard lock(mutex_);
  Passes& passes = services_[service];
  passes.first_kept = std::max(passes.first_kept, first);
  passes.of.erase(passes.of.begin(), passes.of.lower_bound(passes.first_kept));
}

HostedPasses::Hosted* HostedPasses::look_up(const StepOrigin& origin) {
  Passes& passes = services_[origin.service];
  const auto found = passes.of.find(origin.serial);
  return found == passes.of.end() ? nullptr : &found->second;
}

Step HostedPasses::find(const StepOrigin& origin) {
  if (origin.serial == 0) return {};
  std::unique_lock lock(mutex_);
  // Another thread of this rank has taken part in making it, and may be about to add it.
  added_.wait(lock, [&] {
    return look_up(origin) != nullptr || origin.serial < services_[origin.service].first_kept;
  });
  const Hosted* const hosted = look_up(origin);
  return hosted == nullptr ? Step{} : hosted->pass;
}

void HostedPasses::keep_results(const StepOrigin& origin, const RaggedBatch& results) {
  const std::lock_guard lock(mutex_);
  if (Hosted* const hosted = look_up(origin)) hosted->results.push_back(results);
}

RaggedBatch HostedPasses::results_of(const StepOrigin& origin, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  const std::lock_guard lock(mutex_);
  const Hosted* const hosted = look_up(origin);
  if (hosted == nullptr || hosted->results.empty()) {
    throw InputError("added fields", "are of a step of which nothing was collected",
                     "With data ranks, add what was collected of the step: its samples are there");
  }
  RaggedBatch found({hosted->results.back().samples().begin(), hosted->results.back().samples().end()});
  for (const std::string& name : names) {
    const Column* newest = nullptr;
    for (const RaggedBatch& results : hosted->results) {
      if (const Column* const column = results.find(name)) newest = column;
    }
    if (newest == nullptr) {
      throw InputError("added field '" + name + "'", "was not collected of the step",
                       "With data ranks, add what was collected of the step: its samples are there");
    }
    std::ranges::copy(newest->bytes(), found.add_field(newest->spec()).bytes().begin());
  }
  return found;
}

}  // namespace evenkeel
