#include "stream/joint_steps.hpp"

#include <algorithm>
#include <unordered_map>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::stream {

std::vector<WaitingGroup> joint_groups(std::span<const std::vector<WaitingGroup>> of_ledgers,
                                       std::span<const std::string> names) {
  const JointArrivals arrivals(of_ledgers.size());
  std::unordered_map<GroupKey, std::size_t, GroupKeyHash> ledger_of;
  std::vector<WaitingGroup> joint;
  const auto longest = std::ranges::max_element(of_ledgers, {}, &std::vector<WaitingGroup>::size);
  const std::size_t most = longest == of_ledgers.end() ? 0 : longest->size();
  for (std::size_t turn = 0; turn < most; ++turn) {
    for (std::size_t ledger = 0; ledger < of_ledgers.size(); ++ledger) {
      if (turn >= of_ledgers[ledger].size()) continue;
      WaitingGroup& group = joint.emplace_back(of_ledgers[ledger][turn]);
      const auto [found, is_new] = ledger_of.try_emplace(group_key(group.uid), ledger);
      if (!is_new) {
        throw InputError("group " + to_text(group.uid),
                         "waits in " + names[found->second] + " and in " + names[ledger],
                         "Send all samples of a group to one buffer, and abort the group in the other one");
      }
      for (WaitingSample& sample : group.samples) sample.arrival = arrivals.number_of(ledger, sample.arrival);
    }
  }
  return joint;
}

std::vector<StepFormed> parts_of(const StepFormed& step, std::span<const WaitingGroup> groups,
                                 std::span<const std::int64_t> versions) {
  const JointArrivals arrivals(versions.size());
  std::unordered_map<GroupKey, std::size_t, GroupKeyHash> ledger_of;
  for (const WaitingGroup& group : groups) {
    EVENKEEL_PRECONDITION(cheap, !group.samples.empty(), to_text(group.uid));
    ledger_of[group_key(group.uid)] = arrivals.ledger_of(group.samples.front().arrival);
  }
  std::vector<StepFormed> parts;
  for (const std::int64_t version : versions) parts.push_back({step.step, version, {}, {}, {}});
  for (const FormedGroup& group : step.groups)
    parts[ledger_of.at(group_key(group.uid))].groups.push_back(group);
  for (const PassedOver& group : step.passed)
    parts[ledger_of.at(group_key(group.uid))].passed.push_back(group);
  for (const std::int64_t number : step.masked)
    parts[arrivals.ledger_of(number)].masked.push_back(arrivals.arrival_of(number));
  return parts;
}

FormedStep joint_step(std::span<const FormedStep> parts) {
  EVENKEEL_PRECONDITION(cheap, !parts.empty(), parts.size());
  const JointArrivals arrivals(parts.size());
  FormedStep step{parts.front().step, parts.front().version, {}, {}};
  for (std::size_t ledger = 0; ledger < parts.size(); ++ledger) {
    const FormedStep& part = parts[ledger];
    step.version = std::max(step.version, part.version);
    for (WaitingGroup group : part.groups) {
      for (WaitingSample& sample : group.samples) sample.arrival = arrivals.number_of(ledger, sample.arrival);
      step.groups.push_back(std::move(group));
    }
    for (const std::int64_t arrival : part.masked) step.masked.push_back(arrivals.number_of(ledger, arrival));
  }
  std::ranges::sort(step.masked);
  return step;
}

}  // namespace evenkeel::stream
