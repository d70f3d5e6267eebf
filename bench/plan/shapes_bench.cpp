#include "bench/plan/shapes_bench.hpp"

#include <algorithm>
#include <vector>

#include "base/narrow.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "io/samples/lengths_file.hpp"
#include "plan/micro_batches/shape_choice.hpp"

namespace evenkeel::bench {
namespace {

struct ShapedJob {
  std::int64_t samples = 0;  ///< of a step
  std::int64_t cap = 0;
  const char* cost = "";
};

constexpr int ranks_of_shaped_jobs = 8;
constexpr std::int64_t numbers_of_shapes[] = {1, 2, 4, 8, 16};

PlanSettings settings_of_shaped(const ShapedJob& job) {
  PlanSettings settings;
  settings.dp = ranks_of_shaped_jobs;
  settings.balance.cost = job.cost == std::string("flops") ? CostModel::flops_7b() : CostModel::tokens();
  settings.micro_batch.max_tokens = job.cap;
  settings.micro_batch.max_samples = job.cap;
  return settings;
}

/// Returns the shapes that the micro-batches of each step need.
std::vector<PassNeeds> needs_of_steps(std::span<const FileLengths> lengths, const ShapedJob& job,
                                      const PlanSettings& settings) {
  std::vector<PassNeeds> steps;
  std::vector<LengthEntry> entries;
  for (const FileLengths& row : lengths) {
    if (row.prompt + row.response > job.cap) continue;
    const std::int64_t id = std::ssize(entries);
    entries.push_back({{SampleId{id}, 0, row.prompt, row.response},
                       WorldRank{0},
                       narrow<std::int32_t>(id, "samples"),
                       -1,
                       0});
    if (std::ssize(entries) < job.samples) continue;
    const LengthTable table(std::move(entries));
    entries.clear();
    PassNeeds& step = steps.emplace_back(PassNeeds{&settings, {}});
    const StepPlan plan = plan_step({table, settings, std::ssize(steps) - 1, {}});
    for (const DpRankPlan& rank : plan.ranks)
      for (const MicroBatchPlan& m : rank.micro_batches)
        step.needed.push_back(needed_shape(table, m, settings));
  }
  return steps;
}

/// Rows of padding per needed row, as with a service, on average and for the worst step.
struct ShapePadding {
  double of_all = 0;
  double worst = 0;
};

ShapePadding shape_padding_of(const std::vector<PassNeeds>& steps, PlanSettings settings, std::int64_t most) {
  settings.micro_batch.shapes = most;
  std::vector<PackedShape> shapes = initial_shapes(std::vector{settings});
  std::int64_t needed = 0;
  std::int64_t handed_out = 0;
  ShapePadding padding;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const PassNeeds step{&settings, steps[s].needed};
    if (may_add_shapes(static_cast<std::int64_t>(s))) {
      const std::vector<PackedShape> added = shapes_to_add(std::span(&step, 1), shapes);
      shapes.insert(shapes.end(), added.begin(), added.end());
    }
    std::int64_t rows = 0;
    std::int64_t rows_in_shapes = 0;
    for (const PackedShape& shape : step.needed) {
      rows += shape.rows;
      rows_in_shapes += smallest_fitting_shape(shape, shapes, settings).rows;
    }
    padding.worst =
        std::max(padding.worst, static_cast<double>(rows_in_shapes) / static_cast<double>(rows) - 1);
    needed += rows;
    handed_out += rows_in_shapes;
  }
  padding.of_all = static_cast<double>(handed_out) / static_cast<double>(needed) - 1;
  return padding;
}

}  // namespace

Table padding_to_few_shapes(const PlanOptions& options) {
  Table table("few_shapes",
              "Rows added to have few shapes, % of those needed: all steps of " +
                  options.lengths.filename().string() + ", dp 8",
              {{"samples", "samples a step"},
               {"cap", "cap"},
               {"cost", "balanced on"},
               {"steps", "steps"},
               {"fill", "rows / cap", 3},
               {"shapes_1", "1 shape", 2},
               {"shapes_2", "2", 2},
               {"shapes_4", "4", 2},
               {"shapes_8", "8", 2},
               {"shapes_16", "16", 2},
               {"worst_of_8", "worst step of 8", 2}});
  const std::vector<FileLengths> lengths = read_length_table(InputFile(options.lengths));
  for (const std::int64_t cap : {std::int64_t{32768}, std::int64_t{131072}}) {
    for (const std::int64_t samples : {256, 512, 1024}) {
      for (const char* cost : {"tokens", "flops"}) {
        const ShapedJob job{samples, cap, cost};
        const PlanSettings settings = settings_of_shaped(job);
        const std::vector<PassNeeds> steps = needs_of_steps(lengths, job, settings);
        std::vector<nlohmann::json> row{samples, cap, cost, steps.size()};
        double worst = 0;
        for (const std::int64_t most : numbers_of_shapes) {
          const ShapePadding padding = shape_padding_of(steps, settings, most);
          // a single shape is the cap
          if (most == 1) row.emplace_back(1 / (1 + padding.of_all));
          row.emplace_back(100 * padding.of_all);
          if (most == 8) worst = 100 * padding.worst;
        }
        row.emplace_back(worst);
        table.add(std::move(row));
      }
    }
  }
  return table;
}

}  // namespace evenkeel::bench
