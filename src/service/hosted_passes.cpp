#include "service/hosted_passes.hpp"

#include <algorithm>
#include <utility>

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

void HostedPasses::add(const Step& pass) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const StepOrigin& origin = pass.record->origin;
    try {
      Step copy = without_micro_batches(pass);
      services_[origin.service].of[origin.serial].pass = std::move(copy);
    } catch (...) {
      has_lost_one_ = true;
    }
  }
  added_.notify_all();
}

void HostedPasses::drop_before(std::uint64_t service, std::uint64_t first) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = services_.find(service);
  if (found == services_.end()) return;
  Passes& passes = found->second;
  passes.first_kept = std::max(passes.first_kept, first);
  passes.of.erase(passes.of.begin(), passes.of.lower_bound(passes.first_kept));
}

HostedPasses::Hosted* HostedPasses::look_up(const StepOrigin& origin) noexcept {
  const auto service = services_.find(origin.service);
  if (service == services_.end()) return nullptr;
  const auto found = service->second.of.find(origin.serial);
  return found == service->second.of.end() ? nullptr : &found->second;
}

bool HostedPasses::is_settled(const StepOrigin& origin) noexcept {
  if (has_lost_one_ || look_up(origin) != nullptr) return true;
  const auto service = services_.find(origin.service);
  return service != services_.end() && origin.serial < service->second.first_kept;
}

Step HostedPasses::find(const StepOrigin& origin) {
  if (origin.serial == 0) return {};
  std::unique_lock lock(mutex_);
  // Another thread of this rank has taken part in making it, and may be about to add it.
  added_.wait(lock, [&] { return is_settled(origin); });
  const Hosted* const hosted = look_up(origin);
  if (hosted == nullptr) {
    throw LimitError("step", "is not kept on a data rank, which had no memory for it when it was made",
                     "Give data ranks more memory, or hold fewer steps");
  }
  return hosted->pass;
}

void HostedPasses::expect_results(const StepOrigin& origin) {
  const std::lock_guard lock(mutex_);
  if (Hosted* const hosted = look_up(origin)) hosted->results.reserve(hosted->results.size() + 1);
}

void HostedPasses::keep_results(const StepOrigin& origin, RaggedBatch results) noexcept {
  const std::lock_guard lock(mutex_);
  if (Hosted* const hosted = look_up(origin)) hosted->results.push_back(std::move(results));
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
