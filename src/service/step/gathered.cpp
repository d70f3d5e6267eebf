#include "service/step/gathered.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/activity.hpp"
#include "base/hash.hpp"
#include "base/sample_names_in_errors.hpp"
#include "exchange/gather/announcement.hpp"
#include "exchange/gather/field_agreement.hpp"
#include "exchange/gather/length_gather.hpp"
#include "exchange/gather/prefix_trees.hpp"
#include "exchange/gather/row_count_gather.hpp"
#include "plan/schedule/sample_summary.hpp"
#include "service/step/sample_checks.hpp"

namespace evenkeel {
namespace {

void add_tokens_if_empty(std::vector<FieldSpec>& fields) {
  if (fields.empty()) fields.push_back({std::string(input_ids_field), DType::int64, FieldKind::token, {}});
}

std::vector<FieldSpec> specs_of(std::span<const Column> columns) {
  std::vector<FieldSpec> specs;
  for (const Column& column : columns) specs.push_back(column.spec());
  return specs;
}

// Selects the cost model with which the pass is balanced: if the profile's cost is measured, the latest fit;
// otherwise, the configured cost. Collective if the profile's cost is measured.
void use_measured_cost(const StepContext& context, Gathered& gathered, GuardedWork& work) {
  context.times->begin_step(context.world(), gathered.pass.profile);
  work.run_on_replicated_data([&] {
    gathered.cost = context.cost_in_use(gathered.pass.profile);
    gathered.cost.apply_to(gathered.pass.settings.balance);
  });
}

// Starts a pass with the settings of `profile`. Both arguments must be replicated.
Pass make_pass(const StepContext& context, std::string_view profile) {
  PlanSettings settings = context.plan_settings(profile);
  const std::uint64_t cut = context.cut_hash(settings);
  return {std::string(profile), std::move(settings), context.derived_settings(profile), cut, {}, {}};
}

}  // namespace

std::vector<CarriedField> carried_fields_of(const StepContext& context, std::span<const FieldSpec> fields,
                                            const OwnRanges& ranges) {
  const Config& config = context.config;
  return carried_fields(fields, {config.fields, ranges.agree(context.world(), fields), config.mesh.pp,
                                 config.mesh.vpp, context.sends_messages});
}

std::pair<Gathered, RaggedBatch> gather_first_pass(const StepContext& context,
                                                   const std::function<RaggedBatch()>& read,
                                                   std::string_view profile, std::int64_t index,
                                                   GuardedWork& work) {
  const Config& config = context.config;
  const bool shares_prefixes = config.prefix != PrefixSharing::none;
  Stopwatch stopwatch;
  RaggedBatch mine;
  StepSamples samples;
  work([&] {
    mine = read();
    samples.names_in_errors = mine.names_in_errors();
    // Add names to errors before ranks agree on errors, since a rank that failed to read its samples does not
    // have their names.
    with_sample_names_in_errors(samples.names_in_errors, [&] {
      prepare_samples(mine, fields_as_read(config, mine), shares_prefixes);
      samples.left_out = apply_filter(config.filter, shares_prefixes, mine);
    });
  });
  const double read_seconds = stopwatch.lap();
  Phase::switch_to("gather lengths");
  Gathered gathered;
  std::vector<SampleSummary> summaries;
  std::optional<std::vector<FieldSpec>> fields;
  OwnRanges ranges;
  CallKey call;
  work.run_on_replicated_data([&] { gathered.pass = make_pass(context, profile); });
  work([&] {
    ranges = OwnRanges(mine, config.fields, context.sends_messages);
    summaries = shares_prefixes ? summaries_for_sharing(mine) : summaries_of(mine);
    fields = fields_of(mine);
    call.text = "makes step " + std::to_string(index) + profile_text(profile);
    call.words.front() = fnv1a_64(call.text);
  });
  // Ranks agree on errors here: if any rank could not read its samples, all ranks throw its error.
  GatheredLengths lengths = gather_lengths(context.world(), summaries, std::move(fields), work.error(), call);
  // All ranks have succeeded so far, so all of them make the collective calls below.
  samples.table = std::move(lengths.table);
  samples.table.set_row_counts(
      gather_row_counts(context.world(), samples.table, lengths.fields, mine, config.fields));
  samples.table.set_field_sums(
      gather_field_sums(context.world(), samples.table, lengths.fields, context.cost_fields, mine));
  add_tokens_if_empty(lengths.fields);
  gathered.index = index;
  use_measured_cost(context, gathered, work);
  if (config.prefix == PrefixSharing::trees)
    samples.trees = gather_prefix_trees(context.world(), samples.table, mine,
                                        gathered.pass.settings.predict_ahead, context.transport_settings());
  samples.fields = carried_fields_of(context, lengths.fields, ranges);
  gathered.samples = std::make_shared<const StepSamples>(std::move(samples));
  gathered.pass.seconds.read = read_seconds;
  gathered.pass.seconds.gather = gathered.pass.stopwatch.lap();
  return {std::move(gathered), std::move(mine)};
}

std::pair<Gathered, FieldsToAdd> gather_later_pass(const StepContext& context, const Step& before,
                                                   std::string_view profile, const RaggedBatch& mine,
                                                   GuardedWork& work) {
  Gathered gathered;
  FieldAgreementInput brought;
  OwnRanges ranges;
  work([&] { require_not_moved_from(before); });
  work.run_on_replicated_data([&] { gathered.pass = make_pass(context, profile); });
  work([&] {
    const LengthTable& table = before.record->table();
    brought.call = context.key_of("passes over", before, profile_text(profile));
    const WorldRank self = context.mesh.rank();
    const std::int64_t owned = std::ranges::count(table.entries(), self, &LengthEntry::owner);
    require_addable(table, context.config.fields, self, owned, mine);
    if (owned > 0) brought.fields = specs_of(mine.fields());
    ranges = OwnRanges(mine, context.config.fields, context.sends_messages);
  });
  std::vector<FieldSpec> fields = agree_on_fields(context.world(), std::move(brought), work.error());
  // All ranks have succeeded so far, so all of them make the collective calls below.
  gathered.index = before.index;
  gathered.samples = before.record->samples;
  use_measured_cost(context, gathered, work);
  return {std::move(gathered), FieldsToAdd{std::move(fields), std::move(ranges), mine}};
}

}  // namespace evenkeel
