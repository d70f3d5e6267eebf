// Lengths to micro-batches as MindSpeed-RL, verl and ROLL make them, and as many more of them as their caps
// need.

#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>

#include "bindings/drop_in/drop_in.hpp"
#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "plan/micro_batches/padded_batching.hpp"
#include "plan/reference/micro_batches.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

using Numbers = std::vector<std::int64_t>;

/// What a micro-batch may hold, and what each sample takes of it.
struct Promise {
  Numbers sizes;
  BinLimits limits;
};

Promise promise_of(const Numbers& lengths, const MindSpeedBatching& batching) {
  constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
  return {lengths, {batching.max_tokens, batching.max_samples.value_or(unlimited)}};
}

Promise promise_of(const Numbers& lengths, const VerlBatching& batching) {
  return {lengths, {batching.max_tokens}};
}

Promise promise_of(const Numbers& lengths, const RollPacking& batching) {
  Promise promise{lengths, {batching.max_tokens}};
  for (std::int64_t& size : promise.sizes) size = align_up(size, batching.alignment);
  return promise;
}

void require_each_fits(const Promise& promise) {
  for (std::size_t i = 0; i < promise.sizes.size(); ++i) {
    if (promise.sizes[i] <= promise.limits.max_size) continue;
    throw LimitError("sample " + std::to_string(i),
                     "takes " + std::to_string(promise.sizes[i]) + " tokens; a micro-batch holds " +
                         std::to_string(promise.limits.max_size),
                     "Raise the cap or shorten the sample");
  }
}

bool is_kept(const Promise& promise, const Partition& micro_batches) {
  for (const std::int64_t size : group_sums(micro_batches, promise.sizes)) {
    if (size > promise.limits.max_size) return false;
  }
  for (std::int64_t m = 0; m < micro_batches.size(); ++m) {
    if (std::ssize(micro_batches[m]) > promise.limits.max_items) return false;
  }
  return true;
}

/// One system's micro-batches for the samples of one DP rank. Counts that ranks agree on are passed in and
/// out.
template <typename Batching>
class MicroBatches {
 public:
  MicroBatches(py::handle lengths, const Batching& batching)
      : lengths_(whole_numbers(lengths, "lengths")), batching_(batching) {}

  /// How many this rank asks for.
  [[nodiscard]] std::int64_t count() const { return reference_count(lengths_, batching_); }
  /// What ranks agree on from the largest count among them.
  [[nodiscard]] std::int64_t agreed(std::int64_t largest) const { return agreed_count(largest, batching_); }
  [[nodiscard]] Partition of(std::int64_t count) const {
    return reference_micro_batches(lengths_, count, batching_);
  }

  /// The smallest agreed count from `count` on with which every micro-batch keeps the cap. Throws LimitError
  /// for a sample that is above it. As many as there are samples are always enough.
  [[nodiscard]] std::int64_t kept_count(std::int64_t count) const {
    const Promise promise = promise_of(lengths_, batching_);
    require_each_fits(promise);
    count = agreed(count);
    if (is_kept(promise, of(count))) return count;
    count = agreed(std::max(count + 1, min_bins_lower_bound(promise.sizes, promise.limits)));
    while (count < std::ssize(lengths_) && !is_kept(promise, of(count))) count = agreed(count + 1);
    return count;
  }

 private:
  Numbers lengths_;
  Batching batching_;
};

template <typename Batching>
py::class_<MicroBatches<Batching>> bind(py::module_& module, const char* name) {
  using Bound = MicroBatches<Batching>;
  const py::call_guard<py::gil_scoped_release> release;
  return py::class_<Bound>(module, name)
      .def("count", &Bound::count, release)
      .def("agreed", &Bound::agreed, py::arg("largest"))
      .def("kept_count", &Bound::kept_count, py::arg("count"), release)
      .def(
          "of",
          [](const Bound& self, std::int64_t count) {
            Partition micro_batches;
            {
              const py::gil_scoped_release unlocked;
              micro_batches = self.of(count);
            }
            return lists_of(micro_batches);
          },
          py::arg("count"));
}

/// The shards of the DP ranks; [begin, end) of each micro-batch in every shard; their padded lengths; tokens
/// with padding.
py::tuple padded_batches(py::handle seqlens, int dp, std::int64_t max_tokens, std::int64_t length_round,
                         std::int64_t count_multiple) {
  const Numbers lengths = whole_numbers(seqlens, "attention_mask");
  PaddedBatchingSettings settings;
  settings.dp = dp;
  settings.max_tokens = max_tokens;
  settings.length_round = length_round;
  settings.count_multiple = count_multiple;
  settings.widen_empty_samples = false;
  PaddedBatches batches;
  {
    const py::gil_scoped_release release;
    batches = plan_padded_batches(lengths, settings);
  }
  py::list positions;
  py::list padded_lengths;
  for (const PaddedMicroBatch& micro_batch : batches.micro_batches) {
    positions.append(list_of(std::array{micro_batch.positions.begin, micro_batch.positions.end}));
    padded_lengths.append(micro_batch.padded_length);
  }
  return py::make_tuple(lists_of(batches.shards), positions, padded_lengths, batches.padded_tokens());
}

}  // namespace

void bind_drop_in_micro_batches(py::module_& module) {
  bind<MindSpeedBatching>(module, "MindSpeedMicroBatches")
      .def(py::init([](py::handle lengths, std::int64_t max_tokens, std::optional<std::int64_t> max_samples) {
             return MicroBatches<MindSpeedBatching>(lengths, {max_tokens, max_samples});
           }),
           py::arg("lengths"), py::arg("max_tokens"), py::arg("max_samples"));
  bind<VerlBatching>(module, "VerlMicroBatches")
      .def(py::init([](py::handle lengths, std::int64_t max_tokens, std::int64_t min_count,
                       std::int64_t multiple_of, bool pipeline_order) {
             return MicroBatches<VerlBatching>(lengths, {max_tokens, min_count, multiple_of, pipeline_order});
           }),
           py::arg("lengths"), py::arg("max_tokens"), py::arg("min_count"), py::arg("multiple_of"),
           py::arg("pipeline_order"));
  bind<RollPacking>(module, "RollMicroBatches")
      .def(py::init([](py::handle lengths, std::int64_t max_tokens, std::int64_t min_count,
                       std::int64_t multiple_of, std::int64_t alignment) {
             return MicroBatches<RollPacking>(lengths, {max_tokens, min_count, multiple_of, alignment});
           }),
           py::arg("lengths"), py::arg("max_tokens"), py::arg("min_count"), py::arg("multiple_of"),
           py::arg("alignment"));
  module.def("padded_batches", &padded_batches, py::arg("lengths"), py::arg("dp_size"), py::arg("max_tokens"),
             py::arg("length_round"), py::arg("count_multiple"));
}

}  // namespace evenkeel::python
