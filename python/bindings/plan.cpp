// Planning a step for all DP ranks (include/evenkeel/plan).

#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "bindings/planned_step.hpp"
#include "bindings/samples.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "plan/assign/dp_assignment.hpp"

namespace evenkeel::python {
namespace py = pybind11;

namespace {

using Numbers = std::vector<std::int64_t>;

std::vector<SharedGroup> trees_of(const LengthTable& table, const std::vector<Numbers>& tokens,
                                  std::int64_t ahead) {
  require_one_a_sample(tokens.size(), table, "tokens");
  std::vector<std::span<const std::int64_t>> views(tokens.begin(), tokens.end());
  for (std::size_t i = 0; i < views.size(); ++i) {
    const std::int64_t length = table.entries()[i].shape.length();
    if (std::ssize(views[i]) != length)
      throw InputError("tokens[" + std::to_string(i) + "]", "has " + std::to_string(views[i].size()) +
                                                                " tokens; the sample's length is " +
                                                                std::to_string(length));
  }
  return prefix_trees(table, views, ahead);
}

Grid grid_of(const Config& config, std::optional<int> ranks) {
  if (ranks) return config.grid(*ranks);
  const MeshSettings& mesh = config.mesh;
  if (!mesh.dp)
    throw ConfigError("mesh.dp", "is auto, and nobody said how many ranks there are",
                      "Set mesh.dp, or pass ranks");
  return {{mesh.tp, mesh.cp, *mesh.dp, mesh.pp}, mesh.order};
}

std::shared_ptr<PlannedStep> plan_samples(const Samples& samples, const Config& config,
                                          const std::string& profile, std::int64_t step,
                                          std::optional<int> ranks) {
  LengthTable table = table_of(samples);
  PlanSettings settings = config.plan_settings(grid_of(config, ranks).sizes(), profile);
  settings.validate();
  std::vector<SharedGroup> trees;
  if (settings.sharing == PrefixSharing::trees) {
    if (samples.tokens.empty() && table.size() > 0)
      throw InputError("tokens",
                       "are missing: prefix.share is tree, and lengths cannot tell what samples share",
                       "Pass each sample's tokens");
    trees = trees_of(table, samples.tokens, settings.predict_ahead);
  }
  return std::make_shared<PlannedStep>(std::move(table), std::move(settings), config.profile(profile).loss,
                                       step, std::move(trees));
}

std::shared_ptr<PlannedStep> planned(py::handle prompts, py::handle responses, const py::object& groups,
                                     const py::object& loss_tokens, const py::object& tokens,
                                     const Config& config, const std::string& profile, std::int64_t step,
                                     std::optional<int> ranks) {
  Samples samples = samples_from(prompts, responses, groups, loss_tokens);
  if (!tokens.is_none()) {
    for (const py::handle of_sample : tokens)
      samples.tokens.push_back(
          integers_of(of_sample, "tokens[" + std::to_string(samples.tokens.size()) + "]"));
  }
  const py::gil_scoped_release release;
  return plan_samples(samples, config, profile, step, ranks);
}

std::vector<RankOfStep> ranks_of(const std::shared_ptr<PlannedStep>& step) {
  std::vector<RankOfStep> ranks;
  for (std::size_t r = 0; r < step->plan().ranks.size(); ++r) ranks.push_back({step, r});
  return ranks;
}

std::vector<MicroBatchOfStep> micro_batches_of(const RankOfStep& rank) {
  std::vector<MicroBatchOfStep> micro_batches;
  for (std::size_t m = 0; m < rank.plan().micro_batches.size(); ++m)
    micro_batches.push_back({rank.of, rank.rank, m});
  return micro_batches;
}

py::array_t<std::int64_t> samples_of(const RankOfStep& rank) {
  Numbers samples;
  for (const MicroBatchPlan& m : rank.plan().micro_batches) {
    for (const EntryId entry : m.entries) samples.push_back(entry.value());
  }
  return array_of(std::move(samples));
}

/// The DP rank of every sample.
py::array_t<std::int64_t> owners_of(const PlannedStep& step) {
  Numbers owners(static_cast<std::size_t>(step.table.size()));
  for (std::size_t r = 0; r < step.plan().ranks.size(); ++r) {
    for (const MicroBatchPlan& m : step.plan().ranks[r].micro_batches) {
      for (const EntryId entry : m.entries) owners[entry.index()] = static_cast<std::int64_t>(r);
    }
  }
  return array_of(std::move(owners));
}

std::int64_t lower_bound_of(const PlannedStep& step) {
  std::int64_t bound = 0;
  for (const DpRankPlan& rank : step.plan().ranks) bound = std::max(bound, rank.lower_bound);
  return bound;
}

py::dict quality_of(const PlannedStep& step) {
  const std::vector<std::int64_t>& speeds = step.settings.balance.speeds;
  const StepBalance balance = step_balance(step.plan(), speeds);
  const StepWaiting waiting = step_waiting(balance);
  py::dict figures;
  figures["dp_max_over_mean_before"] = max_over_mean(unbalanced_dp_costs(step.table, step.settings), speeds);
  figures["dp_max_over_mean"] = balance.dp_max_over_mean;
  figures["micro_batch_max_over_mean"] = balance.micro_batch_max_over_mean;
  figures["step_max_over_mean"] = balance.step_max_over_mean;
  figures["waiting_once"] = waiting.once;
  figures["waiting_every_micro_batch"] = waiting.every_micro_batch;
  return figures;
}

std::string text_of(const PlannedStep& step) {
  return "StepPlan(" + std::to_string(step.table.size()) + " samples on " +
         std::to_string(step.plan().ranks.size()) + " DP ranks, " +
         std::to_string(step.plan().num_micro_batches()) + " micro-batches each)";
}

void bind_micro_batch(py::module_& module) {
  py::class_<MicroBatchOfStep>(module, "MicroBatchPlan",
                               R"(One micro-batch of a plan: which samples, and how much of everything.

Empty ones have no samples. They exist so that all DP ranks have the same number, weigh nothing, and are laid out as one
filler sequence.)")
      .def_property_readonly(
          "samples", [](const MicroBatchOfStep& self) { return integers_of_ids(self.plan().entries); },
          "Positions in the lengths handed in, in packed order: int64.")
      .def_property_readonly("dp_rank", [](const MicroBatchOfStep& self) { return self.rank; })
      .def_property_readonly(
          "index", [](const MicroBatchOfStep& self) { return self.index; },
          "Its place among the micro-batches of its DP rank.")
      .def_property_readonly(
          "tokens", [](const MicroBatchOfStep& self) { return self.plan().tokens; },
          "True tokens, shared ones once.")
      .def_property_readonly(
          "aligned_tokens", [](const MicroBatchOfStep& self) { return self.plan().aligned_tokens; },
          "Tokens after alignment or padding: what micro_batch.max_tokens limits.")
      .def_property_readonly(
          "cost", [](const MicroBatchOfStep& self) { return self.plan().cost; },
          "In units of the cost model.")
      .def_property_readonly(
          "padded_length", [](const MicroBatchOfStep& self) { return self.plan().padded_length; },
          "Of every sequence over the whole CP group; 0: each is aligned alone.")
      .def_property_readonly(
          "mini_batch", [](const MicroBatchOfStep& self) { return self.plan().mini_batch.value(); },
          "The optimizer update that it belongs to.")
      .def_property_readonly(
          "context",
          [](const MicroBatchOfStep& self) {
            return std::pair(self.plan().context.first.value(), self.plan().context.size);
          },
          "Who runs it: the first place, dp * cp's size + cp, and how many; with mesh.cp: flexible DP ranks.")
      .def_property_readonly("empty", [](const MicroBatchOfStep& self) { return self.plan().empty(); })
      .def_property_readonly(
          "token_weights",
          [](const MicroBatchOfStep& self) {
            return copy_of(std::span<const double>(self.loss().token_weights));
          },
          "For each sample: the weight of each of its loss tokens, so that the un-split loss of the "
          "mini-batch is the sum "
          "of weight * loss over all tokens of all micro-batches: float64.")
      .def_property_readonly(
          "scale", [](const MicroBatchOfStep& self) { return self.loss().scale; },
          "Multiply that sum by this, and the trainer's own means over micro-batches and DP ranks give "
          "the un-split loss exactly.")
      .def_property_readonly(
          "mean_weight", [](const MicroBatchOfStep& self) { return self.loss().mean_weight; },
          "For trainers that insist on local means: multiply the micro-batch's own mean by this instead.")
      .def_property_readonly(
          "prompt_lengths",
          [](const MicroBatchOfStep& self) {
            Numbers prompts;
            for (const EntryId entry : self.plan().entries)
              prompts.push_back(self.of->table[entry].shape.prompt);
            return array_of(std::move(prompts));
          },
          "Prompt tokens of each sample: int64.")
      .def(
          "tree",
          [](const MicroBatchOfStep& self) -> std::optional<PackedTreeLayout> {
            std::optional<SharedSequences> shared = self.of->layout_of(self.plan()).shared;
            return shared ? std::optional(std::move(shared->tree)) : std::nullopt;
          },
          "The PackedTreeLayout of its samples where they share prefixes, whose segments are its layout; "
          "else None.")
      .def(
          "layout", [](const MicroBatchOfStep& self) { return self.of->layout_of(self.plan()).layout; },
          py::call_guard<py::gil_scoped_release>(),
          "The PackedLayout of its tensors: a sequence a sample, or the segments of samples that share "
          "prefixes; one "
          "filler sequence where it has no token.")
      .def("__len__", [](const MicroBatchOfStep& self) { return self.plan().entries.size(); })
      .def("__repr__", [](const MicroBatchOfStep& self) {
        return "MicroBatchPlan(" + std::to_string(self.plan().entries.size()) + " samples, " +
               std::to_string(self.plan().tokens) + " tokens)";
      });
}

void bind_rank(py::module_& module) {
  py::class_<RankOfStep>(module, "DpRankPlan",
                         "The share of one DP rank in a step, over all its mini-batches.")
      .def_property_readonly("dp_rank", [](const RankOfStep& self) { return self.rank; })
      .def_property_readonly("micro_batches", &micro_batches_of,
                             "Its MicroBatchPlans, mini-batch after mini-batch.")
      .def_property_readonly("samples", &samples_of, "Its samples in the order of its micro-batches: int64.")
      .def_property_readonly("tokens", [](const RankOfStep& self) { return self.plan().tokens(); })
      .def_property_readonly("aligned_tokens",
                             [](const RankOfStep& self) { return self.plan().aligned_tokens(); })
      .def_property_readonly("cost", [](const RankOfStep& self) { return self.plan().cost(); })
      .def_property_readonly(
          "lower_bound", [](const RankOfStep& self) { return self.plan().lower_bound; },
          "No packing of its samples under the limits has fewer micro-batches.")
      .def("__len__", [](const RankOfStep& self) { return self.plan().micro_batches.size(); })
      .def("__getitem__",
           [](const RankOfStep& self, std::int64_t m) {
             const std::int64_t size = std::ssize(self.plan().micro_batches);
             return MicroBatchOfStep{self.of, self.rank,
                                     static_cast<std::size_t>(checked_index(m, size, "micro-batch"))};
           })
      .def("__repr__", [](const RankOfStep& self) {
        return "DpRankPlan(dp_rank " + std::to_string(self.rank) + ", " +
               std::to_string(self.plan().micro_batches.size()) + " micro-batches, " +
               std::to_string(self.plan().tokens()) + " tokens)";
      });
}

}  // namespace

void bind_plan(py::module_& module) {
  bind_micro_batch(module);
  bind_rank(module);
  using Step = PlannedStep;
  py::class_<Step, std::shared_ptr<Step>>(module, "StepPlan", R"(A whole step: every DP rank's micro-batches.

``plan[r]`` is the share of DP rank r, ``len(plan)`` the number of DP ranks. Two plans are equal when every micro-batch
holds the same samples in the same order.)")
      .def("__len__", [](const Step& self) { return self.plan().ranks.size(); })
      .def("__getitem__",
           [](const std::shared_ptr<Step>& self, std::int64_t r) {
             const std::int64_t size = std::ssize(self->plan().ranks);
             return RankOfStep{self, static_cast<std::size_t>(checked_index(r, size, "DP rank"))};
           })
      .def_property_readonly(
          "ranks", [](const std::shared_ptr<Step>& self) { return ranks_of(self); }, "The DpRankPlans.")
      .def_property_readonly("num_samples", [](const Step& self) { return self.table.size(); })
      .def_property_readonly("num_tokens", [](const Step& self) { return self.table.num_tokens(); })
      .def_property_readonly(
          "num_micro_batches", [](const Step& self) { return self.plan().num_micro_batches(); },
          "Micro-batches of each DP rank.")
      .def_property_readonly(
          "counts", [](const Step& self) { return self.plan().counts; }, "The same by mini-batch: a list.")
      .def_property_readonly("lower_bound", &lower_bound_of,
                             "No plan with these shares has fewer micro-batches a DP rank.")
      .def_property_readonly(
          "alignment", [](const Step& self) { return self.settings.alignment(); },
          "Tokens that each sequence is rounded up to a multiple of.")
      .def_property_readonly(
          "cp", [](const Step& self) { return self.settings.cp; }, "The CpGroup.")
      .def_property_readonly("step", [](const Step& self) { return self.step; })
      .def_property_readonly("dp_rank_of_sample", &owners_of, "[num_samples] int64.")
      .def_property_readonly(
          "quality", &quality_of,
          "How even it is, as a dict. *_max_over_mean: 1 is perfect; waiting_*: the share of the step "
          "that an average DP rank waits for the slowest, 0 is perfect.")
      .def_property_readonly(
          "hash", [](const Step& self) { return plan_hash(self.plan()); },
          "64 bits, equal for equal plans on every machine.")
      .def("__eq__", [](const Step& a, const Step& b) { return a.plan() == b.plan(); })
      .def("__eq__", [](const Step&, const py::object&) { return false; })
      .def("__hash__", [](const Step& self) { return py::hash(py::int_(plan_hash(self.plan()))); })
      .def("__repr__", &text_of);
  module.def("plan", &planned, py::arg("prompts"), py::arg("responses"), py::arg("groups"),
             py::arg("loss_tokens"), py::arg("tokens"), py::arg("config"), py::arg("profile"),
             py::arg("step"), py::arg("ranks"));
}

}  // namespace evenkeel::python
