// The weights of micro-batches in the loss (include/evenkeel/plan/loss.hpp), also of those that somebody else
// made.

#include <pybind11/stl.h>

#include <algorithm>
#include <string>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "bindings/samples.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel::python {
namespace py = pybind11;
namespace {

using Numbers = std::vector<std::int64_t>;
using NestedLists = std::vector<std::vector<Numbers>>;

/// Somebody's micro-batches, by DP rank, as a plan of one mini-batch. Throws InputError unless they hold
/// every sample once and all DP ranks have the same number of them.
StepPlan plan_of(const NestedLists& micro_batches, const LengthTable& table) {
  StepPlan plan;
  std::vector<bool> seen(static_cast<std::size_t>(table.size()), false);
  for (const std::vector<Numbers>& of_rank : micro_batches) {
    DpRankPlan& rank = plan.ranks.emplace_back();
    if (of_rank.size() != micro_batches.front().size())
      throw InputError("micro_batches",
                       "DP rank " + std::to_string(plan.ranks.size() - 1) + " has " +
                           std::to_string(of_rank.size()) + "; DP rank 0 has " +
                           std::to_string(micro_batches.front().size()),
                       "Fill up with empty ones");
    for (const Numbers& samples : of_rank) {
      MicroBatchPlan& m = rank.micro_batches.emplace_back();
      m.context.first = DataPlace{static_cast<int>(plan.ranks.size()) - 1};
      for (const std::int64_t sample : samples) {
        if (sample < 0 || sample >= table.size() || seen[static_cast<std::size_t>(sample)])
          throw InputError("micro_batches", "sample " + std::to_string(sample) +
                                                " is there twice, or is none of " +
                                                std::to_string(table.size()));
        seen[static_cast<std::size_t>(sample)] = true;
        m.entries.emplace_back(sample);
      }
    }
  }
  const auto missing = std::ranges::find(seen, false);
  if (missing != seen.end())
    throw InputError("micro_batches",
                     "sample " + std::to_string(missing - seen.begin()) + " is in none of them");
  plan.counts = {micro_batches.empty() ? 0 : std::ssize(micro_batches.front())};
  return plan;
}

std::vector<std::vector<MicroBatchLoss>> losses_of(const py::iterable& micro_batches, py::handle prompts,
                                                   py::handle responses, const py::object& groups,
                                                   const py::object& loss_tokens, const Config& config,
                                                   const std::string& profile) {
  NestedLists lists;
  for (const py::handle of_rank : micro_batches) {
    lists.emplace_back();
    for (const py::handle samples : of_rank)
      lists.back().push_back(integers_of(samples, "micro_batches[" + std::to_string(lists.size() - 1) + "][" +
                                                      std::to_string(lists.back().size()) + "]"));
  }
  const LengthTable table = table_of(samples_from(prompts, responses, groups, loss_tokens));
  const LossSettings settings = config.profile(profile).loss;
  const py::gil_scoped_release release;
  return step_losses(table, plan_of(lists, table), settings);
}

}  // namespace

void bind_losses(py::module_& module) {
  py::class_<MicroBatchLoss>(module, "MicroBatchLoss",
                             "The weights of one micro-batch in the loss of its mini-batch.")
      .def_property_readonly(
          "token_weights",
          [](const MicroBatchLoss& self) { return copy_of(std::span<const double>(self.token_weights)); },
          "For each sample: the weight of each of its loss tokens: float64.")
      .def_readonly("scale", &MicroBatchLoss::scale,
                    "Multiply the sum of weight * loss by this, and the trainer's own means over "
                    "micro-batches and DP ranks "
                    "give the un-split loss exactly.")
      .def_readonly(
          "mean_weight", &MicroBatchLoss::mean_weight,
          "For trainers that insist on local means: multiply the micro-batch's own mean by this instead.");
  module.def("losses_of", &losses_of, py::arg("micro_batches"), py::arg("prompts"), py::arg("responses"),
             py::arg("groups"), py::arg("loss_tokens"), py::arg("config"), py::arg("profile"));
}

}  // namespace evenkeel::python
