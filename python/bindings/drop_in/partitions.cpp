// Numbers to lists of lists: partitions, bins, orders, and the figures about them.

#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "balance/groups/group_balance.hpp"
#include "balance/partition/lpt.hpp"
#include "bindings/drop_in/drop_in.hpp"
#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/cost/cost_model.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "plan/reference/micro_batches.hpp"
#include "plan/transfer/restore_order.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

using Numbers = std::vector<std::int64_t>;

/// compute(), with Python's lock released.
template <typename Compute>
auto without_lock(const Compute& compute) {
  const py::gil_scoped_release release;
  return compute();
}

/// Throws unless every group gets as many of the `n` values as the others.
void require_equal_groups(std::size_t n, std::int64_t k, GroupSize size) {
  if (size == GroupSize::free || k < 1 || static_cast<std::int64_t>(n) % k == 0) return;
  throw InputError("equal_size", std::to_string(n) + " values cannot be divided into " + std::to_string(k) +
                                     " groups of equal size");
}

using Partitioner = Partition (*)(std::span<const Cost>, std::int64_t, GroupSize);

template <Partitioner partition>
py::list partitioned(py::handle seqlen_list, std::int64_t k, bool equal_size, bool checked) {
  const Numbers costs = whole_numbers(seqlen_list, "seqlen_list");
  const GroupSize size = equal_size ? GroupSize::equal : GroupSize::free;
  if (checked && static_cast<std::int64_t>(costs.size()) < k)
    throw InputError("k_partitions", std::to_string(k) + " groups of " + std::to_string(costs.size()) +
                                         " values: some would be empty");
  require_equal_groups(costs.size(), k, size);
  return lists_of(without_lock([&] {
    Partition groups = partition(costs, k, size);
    return checked ? groups.with_sorted_items() : groups;
  }));
}

py::list partitioned_with_cap(py::handle seqlen_list, std::int64_t k, std::int64_t cap) {
  const Numbers costs = whole_numbers(seqlen_list, "seqlen_list");
  return lists_of(without_lock([&] { return longest_processing_time_with_cap(costs, k, cap); }));
}

py::list binned(py::handle seqlen_list, std::int64_t capacity) {
  const Numbers sizes = whole_numbers(seqlen_list, "seqlen_list");
  return lists_of(without_lock([&] { return balanced_bin_packing(sizes, capacity); }));
}

Numbers work_of(const Numbers& lengths) {
  Numbers work(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0)
      throw InputError("seqlen_list[" + std::to_string(i) + "]", std::to_string(lengths[i]) + " is below 0");
    work[i] = CostModel::flops_7b()(lengths[i]);
  }
  return work;
}

/// `keys` tell which lengths belong together; that many groups must be there at least.
py::list whole_groups(py::handle seqlen_list, py::handle keys, std::int64_t k, bool equal_groups) {
  const Numbers lengths = whole_numbers(seqlen_list, "seqlen_list");
  const Numbers numbers = whole_numbers(keys, "uid_list");
  const std::vector<std::uint64_t> groups(numbers.begin(), numbers.end());
  if (groups.size() != lengths.size())
    throw InputError("uid_list", "has " + std::to_string(groups.size()) + " entries for " +
                                     std::to_string(lengths.size()) + " lengths");
  const auto num_groups =
      static_cast<std::int64_t>(std::set<std::uint64_t>(groups.begin(), groups.end()).size());
  if (num_groups < k)
    throw InputError("k_partitions", std::to_string(k) + " groups of " + std::to_string(num_groups) +
                                         " uids: some would be empty");
  if (equal_groups) require_equal_groups(static_cast<std::size_t>(num_groups), k, GroupSize::equal);
  return lists_of(
      without_lock([&] { return balance_whole_groups(work_of(lengths), groups, k, GroupSize::equal); }));
}

py::list inverse(py::handle order) {
  const Numbers items = whole_numbers(order, "idx_map");
  return list_of(inverse_order(items));
}

py::list batch_balance(py::handle seqlens, int dp_size, std::optional<std::int64_t> mini_batch) {
  const Numbers lengths = whole_numbers(seqlens, "attention_mask");
  return lists_of(without_lock([&] { return roll_batch_balance(lengths, dp_size, mini_batch); }));
}

py::dict dict_of(const NamedMetrics& metrics) {
  py::dict named;
  for (const auto& [name, value] : metrics) named[py::str(name)] = value;
  return named;
}

py::dict balance_metrics(py::handle seqlen_list, const py::iterable& partitions, const std::string& prefix) {
  const Numbers lengths = whole_numbers(seqlen_list, "seqlen_list");
  const Partition partition = partition_of(partitions);
  if (partition.size() == 0) throw InputError("partitions", "there are none");
  for (const Item item : partition.items()) {
    if (item < 0 || item >= std::ssize(lengths))
      throw InputError("partitions", "has the item " + std::to_string(item) + " of " +
                                         std::to_string(lengths.size()) + " lengths");
  }
  return dict_of(seqlen_balance_metrics(lengths, partition, prefix));
}

py::dict batching_metrics(py::handle seqlens, std::int64_t actual_tokens, std::int64_t max_length,
                          const std::string& stage) {
  return dict_of(
      dynamic_batching_metrics(whole_numbers(seqlens, "attention_mask"), actual_tokens, max_length, stage));
}

}  // namespace

void bind_drop_in_partitions(py::module_& module) {
  module.def("karmarkar_karp", &partitioned<karmarkar_karp>, py::arg("seqlen_list"), py::arg("k_partitions"),
             py::arg("equal_size"), py::arg("checked"));
  module.def("longest_processing_time", &partitioned<longest_processing_time>, py::arg("seqlen_list"),
             py::arg("k_partitions"), py::arg("equal_size"), py::arg("checked"));
  module.def("longest_processing_time_with_cap", &partitioned_with_cap, py::arg("seqlen_list"),
             py::arg("k_partitions"), py::arg("max_token_len"));
  module.def("balanced_bin_packing", &binned, py::arg("seqlen_list"), py::arg("max_capacity"));
  module.def("balance_whole_groups", &whole_groups, py::arg("seqlen_list"), py::arg("keys"),
             py::arg("k_partitions"), py::arg("equal_groups"));
  module.def("inverse_order", &inverse, py::arg("idx_map"));
  module.def("roll_batch_balance", &batch_balance, py::arg("lengths"), py::arg("dp_size"),
             py::arg("mini_batch"));
  module.def("seqlen_balance_metrics", &balance_metrics, py::arg("seqlen_list"), py::arg("partitions"),
             py::arg("prefix"));
  module.def("dynamic_batching_metrics", &batching_metrics, py::arg("lengths"), py::arg("actual_tokens"),
             py::arg("max_length"), py::arg("stage"));
}

}  // namespace evenkeel::python
