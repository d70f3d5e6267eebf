#include "evenkeel/pack/packed_micro_batch.hpp"

#include <algorithm>
#include <utility>

#include "evenkeel/pack/derived_fields.hpp"
#include "evenkeel/pack/pack_rows.hpp"

namespace evenkeel {
namespace {

bool is_filler(const SampleShape& sample) noexcept {
  return sample.id == filler_sample;
}

// Filler only exists where there is nothing else, so all rows of such a micro-batch are filler rows.
bool only_filler_rows(const PackedMicroBatch& micro_batch) noexcept {
  return std::ranges::any_of(micro_batch.samples, is_filler);
}

std::vector<std::int64_t> lengths_of(std::span<const SampleShape> samples) {
  std::vector<std::int64_t> lengths;
  for (const SampleShape& sample : samples) lengths.push_back(sample.length());
  return lengths;
}

Column& add_token_field(PackedMicroBatch& micro_batch, std::string_view name, DType dtype) {
  return micro_batch.fields.emplace_back(FieldSpec{std::string(name), dtype, FieldKind::token, {}},
                                         micro_batch.layout.local_rows());
}

void fill_pad_tokens(PackedMicroBatch& micro_batch, std::int64_t pad_token) {
  Column& tokens = *micro_batch.find(input_ids_field);
  if (only_filler_rows(micro_batch)) {
    std::ranges::fill(tokens.values<std::int64_t>(), pad_token);
  } else {
    fill_pad_rows(micro_batch.layout, micro_batch.cp_rank, std::as_bytes(std::span(&pad_token, 1)),
                  tokens.bytes());
  }
}

void add_labels(PackedMicroBatch& micro_batch, std::span<const std::int64_t> halo, std::int64_t label_pad) {
  const std::span<std::int64_t> labels =
      add_token_field(micro_batch, labels_field, DType::int64).values<std::int64_t>();
  if (only_filler_rows(micro_batch)) {
    std::ranges::fill(labels, label_pad);
    return;
  }
  const Column& tokens = *micro_batch.find(input_ids_field);
  derive_labels(micro_batch.layout, micro_batch.cp_rank, tokens.values<std::int64_t>(), halo, label_pad,
                labels);
}

void add_loss_mask(PackedMicroBatch& micro_batch) {
  std::vector<std::int64_t> prompts;
  for (const SampleShape& sample : micro_batch.samples) prompts.push_back(sample.prompt);
  derive_loss_mask(micro_batch.layout, micro_batch.cp_rank, prompts,
                   add_token_field(micro_batch, loss_mask_field, DType::float32).values<float>());
}

}  // namespace

bool PackedMicroBatch::empty() const noexcept {
  return std::ranges::all_of(samples, is_filler);
}

std::int64_t PackedMicroBatch::num_tokens() const noexcept {
  std::int64_t tokens = 0;
  for (const SampleShape& sample : samples) tokens += is_filler(sample) ? 0 : sample.length();
  return tokens;
}

const Column* PackedMicroBatch::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find_if(fields, [&](const Column& c) { return c.spec().name == name; });
  return found == fields.end() ? nullptr : &*found;
}

Column* PackedMicroBatch::find(std::string_view name) noexcept {
  return const_cast<Column*>(std::as_const(*this).find(name));
}

PackedMicroBatch lay_out(std::vector<SampleShape> samples, const SequenceLayout& sequences, CpRank cp_rank) {
  const bool padded = sequences.padded_length > 0;
  const bool has_rows =
      padded ? !samples.empty()
             : std::ranges::any_of(samples, [](const SampleShape& s) { return s.length() > 0; });
  if (!has_rows) {
    samples.push_back({filler_sample, 0, padded ? sequences.padded_length : sequences.alignment, 0});
  }
  const std::vector<std::int64_t> lengths = lengths_of(samples);
  PackedLayout layout =
      padded ? PackedLayout(lengths, std::vector<std::int64_t>(lengths.size(), sequences.padded_length),
                            sequences.alignment, sequences.cp)
             : PackedLayout(lengths, sequences.alignment, sequences.cp);
  return {std::move(layout), sequences.padded_length, cp_rank, std::move(samples), {}};
}

void complete_fields(PackedMicroBatch& micro_batch, std::span<const std::int64_t> halo,
                     const DerivedFieldOptions& options) {
  if (micro_batch.find(position_ids_field) == nullptr) {
    derive_position_ids(
        micro_batch.layout, micro_batch.cp_rank,
        add_token_field(micro_batch, position_ids_field, DType::int64).values<std::int64_t>());
  }
  if (micro_batch.find(input_ids_field) == nullptr) return;
  fill_pad_tokens(micro_batch, options.pad_token);
  if (micro_batch.find(labels_field) == nullptr) add_labels(micro_batch, halo, options.label_pad);
  if (micro_batch.find(loss_mask_field) == nullptr) add_loss_mask(micro_batch);
}

}  // namespace evenkeel
