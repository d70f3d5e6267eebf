#include "service/step/collected.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/activity.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "exchange/result_exchange.hpp"

namespace evenkeel {
namespace {

// Throws InputError if the rows or layers of a result are distributed over several ranks.
void require_whole_results(const Config& config, const StepResults& results) {
  for (const MicroBatchResults& of_micro_batch : results.micro_batches()) {
    for (const Column& column : of_micro_batch.fields) {
      const std::string& name = column.spec().name;
      if (cuts_rows(config.fields, name)) {
        throw InputError("result '" + name + "'",
                         "has rows that are split over context-parallel ranks, but results are collected "
                         "only from the first of them",
                         "Add that rank's rows under another name");
      }
      const auto field = config.fields.find(name);
      if (field == config.fields.end() || !field->second.layers) continue;
      throw InputError("result '" + name + "'",
                       "has layers that are split over pipeline stages, but results are collected only from "
                       "the last stage",
                       "Add the last stage's layers under another name");
    }
  }
}

// Sends a step's results to the owners of the samples. `where`, such as " on rank 3", is appended to the text
// of the CallKey. It distinguishes collect() from collect_on(), and calls of collect_on() with different
// roots.
RaggedBatch return_to_owners(const StepContext& context, const Step& step, const StepResults& results,
                             std::string_view where, const GuardedWork& error) {
  const Phase phase("collect results", step.index);
  PlanSettings settings;
  CallKey call;
  GuardedWork work(error);
  work.add(results.failure());
  work([&] { require_not_moved_from(step); });
  work.run_on_replicated_data([&] { settings = context.plan_settings(step.profile); });
  work([&] { call = context.key_of("collects", step, where); });
  if (reports_results(context.mesh)) {
    work.add(results.error());
    work([&] { require_whole_results(context.config, results); });
  }
  // If this rank's step was moved from, an empty record lets the rank take part until all ranks agree on the
  // error.
  StepRecord none;
  none.samples = std::make_shared<const StepSamples>();
  const StepRecord& record = step.record ? *step.record : none;
  const ResultTransfer transfer{record.table(), record.assignment, record.plan.micro_batches, settings};
  return return_results(context.mesh, transfer, results.micro_batches(), context.transport_settings(),
                        std::move(call), work.error());
}

}  // namespace

RaggedBatch collect(const StepContext& context, const Step& step, const StepResults& results,
                    const GuardedWork& error) {
  return return_to_owners(context, step, results, {}, error);
}

RaggedBatch collect_on(const StepContext& context, const Step& step, const StepResults& results, int root,
                       const GuardedWork& error) {
  const Phase phase("collect results", step.index);
  GuardedWork work(error);
  const int ranks = context.mesh.grid().num_ranks();
  work.run_on_replicated_data([&] {
    if (root >= 0 && root < ranks) return;
    throw InputError("rank to collect on", std::to_string(root) + " is not a rank of the mesh, which has " +
                                               format_plain_count(ranks, "rank") + ", numbered from 0");
  });
  std::string where;
  work([&] { where = " on rank " + std::to_string(root); });
  const RaggedBatch mine = return_to_owners(context, step, results, where, work);
  return gather_samples(context.world(), mine, root, context.transport_settings());
}

}  // namespace evenkeel
