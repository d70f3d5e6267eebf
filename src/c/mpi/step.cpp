#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "c/failures.hpp"
#include "c/layouts.hpp"
#include "c/mpi/fields.hpp"
#include "c/mpi/handles.hpp"
#include "c/named_arrays.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel::c {
namespace {

const PackedMicroBatch& tensors_of(const evenkeel_step* step, std::int64_t micro_batch) {
  const std::size_t m = micro_batch_index(step, micro_batch);
  return step->step.micro_batches[m].tensors;
}

/// Returns the arena's copy of the values if there is one, otherwise the values.
template <typename Integer>
const Integer* find_in_arena(const MicroBatchArena& arena, std::string_view name,
                             std::span<const Integer> values) {
  const std::byte* const copy = arena.find_copy(name, std::as_bytes(values));
  return copy == nullptr ? values.data() : reinterpret_cast<const Integer*>(copy);
}

evenkeel_field with_offsets_in_arena(evenkeel_field field, const MicroBatchArena& arena) {
  if (field.offsets == nullptr) return field;
  const std::span offsets(field.offsets, static_cast<std::size_t>(field.num_samples) + 1);
  field.offsets = find_in_arena(arena, offsets_name(field.name), offsets);
  return field;
}

evenkeel_micro_batch view_of(const evenkeel_step& step, std::size_t index) {
  const MicroBatch& micro_batch = step.step.micro_batches[index];
  const PackedMicroBatch& tensors = micro_batch.tensors;
  const std::span<const evenkeel_sample> samples = step.samples[index];
  evenkeel_micro_batch view{};
  view.num_fields = std::ssize(tensors.fields);
  view.num_samples = std::ssize(samples);
  view.samples = samples.data();
  view.num_sequences = tensors.layout.size();
  view.cu_seqlens = find_in_arena(tensors.arena, "cu_seqlens", tensors.layout.cu_seqlens());
  view.cu_seqlens_padded =
      find_in_arena(tensors.arena, "cu_seqlens_padded", tensors.layout.cu_seqlens_padded());
  view.max_seqlen = tensors.layout.max_seqlen();
  view.empty = tensors.empty() ? 1 : 0;
  view.mini_batch = micro_batch.mini_batch.value();
  view.num_tokens = tensors.num_tokens();
  view.local_rows = tensors.layout.local_rows();
  view.padded_length = tensors.padded_length;
  view.scale = micro_batch.loss.scale;
  view.mean_weight = micro_batch.loss.mean_weight;
  view.alignment = tensors.layout.alignment();
  view.cp_layout = tensors.layout.cp().layout == CpLayout::zigzag ? EVENKEEL_ZIGZAG : EVENKEEL_CONTIGUOUS;
  view.is_shape = tensors.shape ? 1 : 0;
  view.shares_prefixes = tensors.shared ? 1 : 0;
  view.context_first = micro_batch.context.first.value();
  view.context_size = micro_batch.context.size;
  view.context_rank = micro_batch.context_rank.value();
  view.arena = tensors.arena.bytes().data();
  view.arena_bytes = std::ssize(tensors.arena.bytes());
  return view;
}

void put_result(StepResults& results, std::int64_t micro_batch, const evenkeel_field* field) {
  require_index(micro_batch, std::ssize(results.micro_batches()), "micro_batch", "micro-batches");
  CheckedField made = check_field(field);
  const auto m = static_cast<std::size_t>(micro_batch);
  if (!made.samples) {
    results.put(m, std::move(made.spec), made.bytes);
    return;
  }
  std::vector<std::int64_t> counts;
  counts.reserve(static_cast<std::size_t>(made.samples->size()));
  for (std::int64_t i = 0; i < made.samples->size(); ++i) counts.push_back((*made.samples)[i].size());
  results.put(m, std::move(made.spec), counts, made.bytes);
}

}  // namespace

std::size_t micro_batch_index(const evenkeel_step* step, std::int64_t micro_batch) {
  require(step, "step");
  require_index(micro_batch, std::ssize(step->step.micro_batches), "micro_batch", "micro-batches");
  return static_cast<std::size_t>(micro_batch);
}

}  // namespace evenkeel::c

using namespace evenkeel;
using namespace evenkeel::c;

void evenkeel_step::set_step(Step made) {
  step = std::move(made);
  samples.assign(step.micro_batches.size(), {});
  for (std::size_t m = 0; m < samples.size(); ++m)
    for (const SampleShape& shape : step.micro_batches[m].tensors.samples)
      samples[m].push_back(view_of(shape));
}

evenkeel_status evenkeel_step_get_info(const evenkeel_step* step, evenkeel_step_info* info) {
  return run_guarded([&] {
    require(info, "info");
    require(step, "step");
    const Step& made = step->step;
    *info = {made.index,         made.profile.c_str(), std::ssize(made.micro_batches),
             made.num_samples,   made.num_tokens,      made.num_loss_tokens,
             made.waited_seconds};
  });
}

evenkeel_status evenkeel_step_get_seconds(const evenkeel_step* step, evenkeel_seconds* seconds) {
  return run_guarded([&] {
    require(seconds, "seconds");
    require(step, "step");
    const PhaseSeconds& took = step->step.seconds;
    *seconds = {took.read, took.gather, took.plan, took.agree, took.exchange, took.pack};
  });
}

int64_t evenkeel_step_num_micro_batches(const evenkeel_step* step) {
  return step == nullptr ? 0 : std::ssize(step->step.micro_batches);
}

evenkeel_status evenkeel_step_micro_batch(const evenkeel_step* step, int64_t micro_batch,
                                          evenkeel_micro_batch* view) {
  return run_guarded([&] {
    require(view, "view");
    const std::size_t m = micro_batch_index(step, micro_batch);
    *view = view_of(*step, m);
  });
}

evenkeel_status evenkeel_step_details(const evenkeel_step* step, int64_t micro_batch,
                                      evenkeel_arrays** arrays) {
  return create_arrays(arrays, [&](evenkeel_arrays& made) {
    const std::size_t m = micro_batch_index(step, micro_batch);
    const MicroBatch& of = step->step.micro_batches[m];
    made.add("token_weights", of.loss.token_weights);
    for (std::size_t k = 0; k < of.loss.token_weights_ahead.size(); ++k)
      made.add("token_weights@" + std::to_string(k + 1), of.loss.token_weights_ahead[k]);
    if (!of.tensors.shared) return;
    add_tree_structure(made, of.tensors.shared->tree.tree());
    made.add("prediction_offsets", of.tensors.shared->prediction_offsets);
    if (of.tensors.shared->schedule) add_schedule(made, *of.tensors.shared->schedule, "schedule_");
  });
}

evenkeel_status evenkeel_step_find_field(const evenkeel_step* step, int64_t micro_batch, const char* name,
                                         evenkeel_field* field) {
  return run_guarded([&] {
    require(field, "field");
    const PackedMicroBatch& tensors = tensors_of(step, micro_batch);
    *field = with_offsets_in_arena(
        find_field_by_name(tensors.fields, name, "micro-batch " + std::to_string(micro_batch)),
        tensors.arena);
  });
}

evenkeel_status evenkeel_step_lend(evenkeel_step* step, int64_t micro_batch, evenkeel_field* fields,
                                   evenkeel_memory** memory) {
  return create_handle(memory, "memory", [&] {
    const std::size_t m = micro_batch_index(step, micro_batch);
    PackedMicroBatch& tensors = step->step.micro_batches[m].tensors;
    require_list(fields, std::ssize(tensors.fields), "fields");
    auto made = std::make_unique<evenkeel_memory>();
    made->blocks.push_back(tensors.arena.lend());
    for (Column& column : tensors.fields) {
      *fields++ = with_offsets_in_arena(view_of(std::as_const(column)), tensors.arena);
      made->blocks.push_back(column.lend());
    }
    return made.release();
  });
}

void evenkeel_step_destroy(evenkeel_step* step) {
  delete step;
}

evenkeel_status evenkeel_results_create(const evenkeel_step* step, evenkeel_results** results) {
  return create_handle(results, "results", [&] {
    require(step, "step");
    return new evenkeel_results{StepResults(step->step.micro_batches.size()), {}};
  });
}

evenkeel_status evenkeel_results_put(evenkeel_results* results, int64_t micro_batch,
                                     const evenkeel_field* field) {
  return run_guarded([&] {
    require(results, "results");
    if (!results->first_error) {
      try {
        put_result(results->results, micro_batch, field);
      } catch (...) {
        results->first_error = current_exception_report();
        throw;
      }
      results->first_error = results->results.error();
    }
    if (results->first_error) throw_error(*results->first_error);
  });
}

evenkeel_status evenkeel_results_fail(evenkeel_results* results, evenkeel_status status) {
  return run_guarded([&] {
    require(results, "results");
    ErrorReport report = report_of_status(status);
    if (!results->first_error) results->first_error = std::move(report);
  });
}

void evenkeel_results_destroy(evenkeel_results* results) {
  delete results;
}
