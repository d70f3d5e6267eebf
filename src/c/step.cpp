#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "c/failures.hpp"
#include "c/fields.hpp"
#include "c/handles.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel::c {
namespace {

const PackedMicroBatch& tensors_of(const evenkeel_step* step, std::int64_t micro_batch) {
  return step->step.micro_batches[micro_batch_index(step, micro_batch)].tensors;
}

/// These values where the arena has a copy of them.
template <typename Integer>
const Integer* in_arena(const MicroBatchArena& arena, std::string_view name,
                        std::span<const Integer> values) {
  const std::byte* const copy = arena.find_copy(name, std::as_bytes(values));
  return copy == nullptr ? values.data() : reinterpret_cast<const Integer*>(copy);
}

evenkeel_field with_offsets_in_arena(evenkeel_field field, const MicroBatchArena& arena) {
  if (field.offsets == nullptr) return field;
  const std::span offsets(field.offsets, static_cast<std::size_t>(field.num_samples) + 1);
  field.offsets = in_arena(arena, offsets_name(field.name), offsets);
  return field;
}

std::span<const evenkeel_sample> samples_of(const evenkeel_step& step, std::size_t micro_batch) {
  if (step.samples.empty()) step.samples.resize(step.step.micro_batches.size());
  const std::vector<SampleShape>& shapes = step.step.micro_batches[micro_batch].tensors.samples;
  std::vector<evenkeel_sample>& views = step.samples[micro_batch];
  if (views.size() != shapes.size()) {
    std::vector<evenkeel_sample> made;
    made.reserve(shapes.size());
    for (const SampleShape& shape : shapes) made.push_back(view_of(shape));
    views = std::move(made);
  }
  return views;
}

evenkeel_micro_batch view_of(const evenkeel_step& step, std::size_t index) {
  const MicroBatch& micro_batch = step.step.micro_batches[index];
  const PackedMicroBatch& tensors = micro_batch.tensors;
  const std::span<const evenkeel_sample> samples = samples_of(step, index);
  evenkeel_micro_batch view{};
  view.num_fields = std::ssize(tensors.fields);
  view.num_samples = std::ssize(samples);
  view.samples = samples.data();
  view.num_sequences = tensors.layout.size();
  view.cu_seqlens = in_arena(tensors.arena, "cu_seqlens", tensors.layout.cu_seqlens());
  view.cu_seqlens_padded = in_arena(tensors.arena, "cu_seqlens_padded", tensors.layout.cu_seqlens_padded());
  view.max_seqlen = tensors.layout.max_seqlen();
  view.empty = tensors.empty() ? 1 : 0;
  view.mini_batch = micro_batch.mini_batch.value();
  view.num_tokens = tensors.num_tokens();
  view.local_rows = tensors.layout.local_rows();
  view.padded_length = tensors.padded_length;
  view.scale = micro_batch.loss.scale;
  view.mean_weight = micro_batch.loss.mean_weight;
  return view;
}

void put(StepResults& results, std::int64_t micro_batch, const evenkeel_field* field) {
  require_index(micro_batch, std::ssize(results.micro_batches()), "micro_batch", "micro-batches");
  GivenField made = given(field);
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

evenkeel_status evenkeel_step_get_info(const evenkeel_step* step, evenkeel_step_info* info) {
  return guarded([&] {
    require(info, "info");
    require(step, "step");
    const Step& made = step->step;
    *info = {made.index,       made.profile.c_str(), std::ssize(made.micro_batches),
             made.num_samples, made.num_tokens,      made.waited};
  });
}

evenkeel_status evenkeel_step_get_seconds(const evenkeel_step* step, evenkeel_seconds* seconds) {
  return guarded([&] {
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
  return guarded([&] {
    require(view, "view");
    const std::size_t m = micro_batch_index(step, micro_batch);
    *view = view_of(*step, m);
  });
}

evenkeel_status evenkeel_step_context_group(const evenkeel_step* step, int64_t micro_batch,
                                            evenkeel_context_group* group) {
  return guarded([&] {
    require(group, "group");
    const MicroBatch& m = step->step.micro_batches[micro_batch_index(step, micro_batch)];
    *group = {m.context.first.value(), m.context.size, m.tensors.cp_rank.value()};
  });
}

evenkeel_status evenkeel_step_field(const evenkeel_step* step, int64_t micro_batch, int64_t index,
                                    evenkeel_field* field) {
  return guarded([&] {
    require(field, "field");
    const PackedMicroBatch& tensors = tensors_of(step, micro_batch);
    *field = with_offsets_in_arena(field_at(tensors.fields, index), tensors.arena);
  });
}

evenkeel_status evenkeel_step_find_field(const evenkeel_step* step, int64_t micro_batch, const char* name,
                                         evenkeel_field* field) {
  return guarded([&] {
    require(field, "field");
    const PackedMicroBatch& tensors = tensors_of(step, micro_batch);
    *field = with_offsets_in_arena(
        field_named(tensors.fields, name, "micro-batch " + std::to_string(micro_batch)), tensors.arena);
  });
}

evenkeel_status evenkeel_step_arena(const evenkeel_step* step, int64_t micro_batch, const void** data,
                                    int64_t* bytes) {
  return guarded([&] {
    require(data, "data");
    require(bytes, "bytes");
    const std::span<const std::byte> block = tensors_of(step, micro_batch).arena.bytes();
    *data = block.data();
    *bytes = std::ssize(block);
  });
}

int64_t evenkeel_step_arena_offset(const evenkeel_step* step, int64_t micro_batch, const void* data,
                                   int64_t bytes) {
  if (data == nullptr || bytes < 0 || micro_batch < 0 || micro_batch >= evenkeel_step_num_micro_batches(step))
    return -1;
  const MicroBatchArena& arena =
      step->step.micro_batches[static_cast<std::size_t>(micro_batch)].tensors.arena;
  const auto offset = arena.offset_of({static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)});
  return offset ? static_cast<std::int64_t>(*offset) : -1;
}

void evenkeel_step_destroy(evenkeel_step* step) {
  delete step;
}

evenkeel_status evenkeel_results_create(const evenkeel_step* step, evenkeel_results** results) {
  return guarded([&] {
    require(results, "results");
    *results = nullptr;
    require(step, "step");
    *results = new evenkeel_results{StepResults(step->step.micro_batches.size()), {}};
  });
}

evenkeel_status evenkeel_results_put(evenkeel_results* results, int64_t micro_batch,
                                     const evenkeel_field* field) {
  return guarded([&] {
    require(results, "results");
    if (!results->wrong) {
      try {
        put(results->results, micro_batch, field);
      } catch (...) {
        results->wrong = report_current_exception();
        throw;
      }
      results->wrong = results->results.error();
    }
    if (results->wrong) throw_error(*results->wrong);
  });
}

void evenkeel_results_destroy(evenkeel_results* results) {
  delete results;
}
