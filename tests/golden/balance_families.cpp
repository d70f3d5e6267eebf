#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "balance/groups/group_balance.hpp"
#include "balance/partition/lpt.hpp"
#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/cost/cost_model.hpp"
#include "golden/families.hpp"

namespace evenkeel::golden {

namespace {

std::vector<Cost> lengths_of(const json& input) {
  return input.at("seqlen_list").get<std::vector<Cost>>();
}

GroupSize group_size_of(const json& input) {
  return input.at("equal_size").get<bool>() ? GroupSize::equal : GroupSize::free;
}

/// Returns the checked result of the references: items ascending, and an error instead of an empty partition.
json sorted_and_checked(const Partition& partition) {
  const auto groups = partition.with_sorted_items().to_vectors();
  if (std::ranges::any_of(groups, [](const auto& group) { return group.empty(); })) {
    return {{"error", {{"type", "empty partition"}, {"message", "fewer items than partitions"}}}};
  }
  return groups;
}

json raw_and_sorted(const Partition& partition) {
  return {{"partitions_raw", partition.to_vectors()}, {"partitions_sorted", sorted_and_checked(partition)}};
}

json run_karmarkar_karp(const json& input) {
  return raw_and_sorted(karmarkar_karp(lengths_of(input), input.at("k"), group_size_of(input)));
}

json run_lpt(const json& input) {
  return raw_and_sorted(longest_processing_time(lengths_of(input), input.at("k"), group_size_of(input)));
}

/// These vectors contain an error in place of the partitions, not in place of the whole result.
template <typename Compute>
json partitions_or_error(Compute compute) {
  try {
    return compute().to_vectors();
  } catch (const Error& error) {
    return {{"error", {{"type", "evenkeel::Error"}, {"message", error.what()}}}};
  }
}

json run_lpt_with_max(const json& input) {
  return {{"partitions_raw", partitions_or_error([&] {
             return longest_processing_time_with_cap(lengths_of(input), input.at("k"),
                                                     input.at("max_token_len"));
           })}};
}

json run_balanced_bin_packing(const json& input) {
  return {{"partitions", partitions_or_error([&] {
             return balanced_bin_packing(lengths_of(input), input.at("max_capacity"));
           })}};
}

json run_group_balanced(const json& input) {
  std::vector<Cost> workloads = lengths_of(input);
  std::ranges::transform(workloads, workloads.begin(), CostModel::flops_7b());
  const auto uids = input.at("uid_list").get<std::vector<std::uint64_t>>();
  return {{"partitions", balance_whole_groups(workloads, uids, input.at("k")).to_vectors()}};
}

}  // namespace

std::map<std::string, Family> balance_families() {
  return {{"karmarkar_karp", run_karmarkar_karp},
          {"lpt", run_lpt},
          {"lpt_with_max", run_lpt_with_max},
          {"balanced_bin_packing", run_balanced_bin_packing},
          {"group_balanced", run_group_balanced}};
}

}  // namespace evenkeel::golden
