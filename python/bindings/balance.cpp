// Partitions and bin packing (include/evenkeel/balance).

#include <pybind11/stl.h>

#include <array>
#include <limits>
#include <optional>
#include <string>

#include "balance/quality.hpp"
#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "bindings/words.hpp"
#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/balance/partition.hpp"
#include "evenkeel/plan/plan_quality.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

constexpr std::array algorithms{
    Word<BinPacking>{BinPacking::first_fit_decreasing, "first-fit-decreasing"},
    Word<BinPacking>{BinPacking::best_fit_decreasing, "best-fit-decreasing"},
    Word<BinPacking>{BinPacking::modified_first_fit_decreasing, "modified-first-fit-decreasing"},
};

GroupSize group_size_of(bool equal_count) {
  return equal_count ? GroupSize::equal : GroupSize::free;
}

Partition differenced(py::handle costs, std::int64_t k, bool equal_count) {
  const std::vector<Cost> values = integers_of(costs, "costs");
  const py::gil_scoped_release release;
  return karmarkar_karp(values, k, group_size_of(equal_count));
}

Cost sum_lower_bound(py::handle costs, std::int64_t k, bool equal_count) {
  const std::vector<Cost> values = integers_of(costs, "costs");
  const py::gil_scoped_release release;
  if (k < 1) throw InputError("k", std::to_string(k) + " groups; at least 1 is needed");
  return max_sum_lower_bound(values, k, group_size_of(equal_count));
}

/// What bins are asked to hold, as it comes from Python.
struct Bins {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> counts;
  BinLimits limits;

  Bins(py::handle item_sizes, std::optional<std::int64_t> max_size, std::optional<std::int64_t> max_items,
       const py::object& item_counts)
      : sizes(integers_of(item_sizes, "sizes")) {
    if (!item_counts.is_none()) counts = integers_of(item_counts, "counts");
    if (max_size) limits.max_size = at_least_one(*max_size, "max_size");
    if (max_items) limits.max_items = at_least_one(*max_items, "max_items");
  }
  [[nodiscard]] BinItems items() const { return {sizes, counts}; }

 private:
  static std::int64_t at_least_one(std::int64_t limit, const char* name) {
    if (limit < 1) throw InputError(name, std::to_string(limit) + " is below 1");
    return limit;
  }
};

Partition bins_packed(py::handle sizes, std::optional<std::int64_t> max_size,
                      std::optional<std::int64_t> max_items, const py::object& counts,
                      const std::string& algorithm) {
  const Bins bins(sizes, max_size, max_items, counts);
  const BinPacking chosen = value_of(algorithms, algorithm, "algorithm");
  const py::gil_scoped_release release;
  return pack_bins(bins.items(), bins.limits, chosen);
}

std::int64_t bins_lower_bound(py::handle sizes, std::optional<std::int64_t> max_size,
                              std::optional<std::int64_t> max_items, const py::object& counts) {
  const Bins bins(sizes, max_size, max_items, counts);
  const py::gil_scoped_release release;
  return min_bins_lower_bound(bins.items(), bins.limits);
}

Partition partition_of(const py::iterable& groups) {
  std::vector<std::vector<Item>> lists;
  for (const py::handle group : groups)
    lists.push_back(integers_of(group, "groups[" + std::to_string(lists.size()) + "]"));
  return Partition(lists);
}

std::vector<Cost> sums_of(const Partition& partition, py::handle costs) {
  const std::vector<Cost> values = integers_of(costs, "costs");
  for (const Item item : partition.items()) {
    if (item < 0 || item >= std::ssize(values))
      throw InputError("costs", "there are " + std::to_string(values.size()) + ", and none of item " +
                                    std::to_string(item));
  }
  return group_sums(partition, values);
}

std::vector<std::int64_t> offsets_of(const Partition& partition) {
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t g = 0; g < partition.size(); ++g)
    offsets.push_back(offsets.back() + std::ssize(partition[g]));
  return offsets;
}

double unevenness(py::handle work, const py::object& speeds) {
  const std::vector<Cost> values = integers_of(work, "work");
  const std::vector<std::int64_t> of_ranks =
      speeds.is_none() ? std::vector<std::int64_t>{} : integers_of(speeds, "speeds");
  if (!of_ranks.empty() && of_ranks.size() != values.size())
    throw InputError("speeds", "there are " + std::to_string(of_ranks.size()) + " for " +
                                   std::to_string(values.size()) + " ranks");
  for (const std::int64_t speed : of_ranks) {
    if (speed < 1) throw InputError("speeds", std::to_string(speed) + " is no speed; at least 1 is needed");
  }
  return max_over_mean(values, of_ranks);
}

py::list lists_of(const Partition& partition) {
  py::list lists(static_cast<std::size_t>(partition.size()));
  for (std::int64_t g = 0; g < partition.size(); ++g) {
    const std::span<const Item> items = partition[g];
    py::list list(items.size());
    for (std::size_t i = 0; i < items.size(); ++i)
      PyList_SET_ITEM(list.ptr(), static_cast<py::ssize_t>(i), PyLong_FromLongLong(items[i]));
    lists[static_cast<std::size_t>(g)] = std::move(list);
  }
  return lists;
}

void bind_partition(py::module_& module) {
  py::class_<Partition>(module, "Partition", R"(Items 0..n-1 in k groups; their order is part of the value.

``partition[g]`` is an int64 array of group g's items, ``len(partition)`` is k, and iterating goes through the groups.)")
      .def(py::init(&partition_of), py::arg("groups"), "From one list of items a group.")
      .def("__len__", &Partition::size)
      .def("__getitem__",
           [](const Partition& self, std::int64_t g) {
             return copy_of(self[checked_index(g, self.size(), "group")]);
           })
      .def("__eq__", [](const Partition& a, const Partition& b) { return a == b; })
      .def("__eq__", [](const Partition&, const py::object&) { return false; })
      .def("__repr__",
           [](const Partition& self) {
             return "Partition(" + std::to_string(self.num_items()) + " items in " +
                    std::to_string(self.size()) + " groups)";
           })
      .def_property_readonly(
          "items", [](const Partition& self) { return copy_of(self.items()); },
          "All items, group after group: [n] int64.")
      .def_property_readonly(
          "offsets", [](const Partition& self) { return array_of(offsets_of(self)); },
          "Where each group begins in items, and n: [k + 1] int64.")
      .def("to_lists", &lists_of, "The groups as lists of ints.")
      .def("sorted", &Partition::with_sorted_items, "The same groups, each one's items ascending.")
      .def(
          "sums", [](const Partition& self, py::handle costs) { return array_of(sums_of(self, costs)); },
          py::arg("costs"),
          "The sum of each group's costs: [k] int64. Raises InputError where an item has no cost.")
      .def(py::pickle([](const Partition& self) { return lists_of(self); },
                      [](const py::list& groups) { return partition_of(groups); }));
}

}  // namespace

void bind_balance(py::module_& module) {
  module.def(
      "integers",
      [](py::handle values, const std::string& name) { return array_of(integers_of(values, name)); },
      py::arg("values"), py::arg("name"));
  bind_partition(module);
  module.def("karmarkar_karp", &differenced, py::arg("costs"), py::arg("k"), py::arg("equal_count"));
  module.def("max_sum_lower_bound", &sum_lower_bound, py::arg("costs"), py::arg("k"), py::arg("equal_count"));
  module.def("pack_bins", &bins_packed, py::arg("sizes"), py::arg("max_size"), py::arg("max_items"),
             py::arg("counts"), py::arg("algorithm"));
  module.def("min_bins_lower_bound", &bins_lower_bound, py::arg("sizes"), py::arg("max_size"),
             py::arg("max_items"), py::arg("counts"));
  module.def("max_over_mean", &unevenness, py::arg("work"), py::arg("speeds"));
}

}  // namespace evenkeel::python
