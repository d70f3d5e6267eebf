#include "job/hash_consumer.hpp"

#include <limits>
#include <vector>

#include "io/safetensors/safetensors.hpp"
#include "pack/derived_fields.hpp"
#include "source/dump/dump_folder.hpp"

namespace evenkeel {
namespace {

std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Derives positions from the layout, since samples may have their own position ids in any form.
std::vector<std::int64_t> positions_of(const PackedMicroBatch& micro_batch) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(micro_batch.layout.local_rows()));
  if (micro_batch.shared) {
    derive_position_ids(micro_batch.shared->tree, micro_batch.cp_rank, positions);
  } else {
    derive_position_ids(micro_batch.layout, micro_batch.cp_rank, positions);
  }
  return positions;
}

std::vector<std::int64_t> token_hashes(const PackedMicroBatch& micro_batch) {
  const auto tokens = micro_batch.find(input_ids_field)->values<std::int64_t>();
  const std::vector<std::int64_t> positions = positions_of(micro_batch);
  std::vector<std::int64_t> hashes(tokens.size());
  for (std::int64_t i = 0; i < micro_batch.layout.size(); ++i) {
    const RowRange rows = micro_batch.layout.local_range(i);
    const SampleId sample = micro_batch.samples[static_cast<std::size_t>(i)].id;
    for (auto row = static_cast<std::size_t>(rows.begin); row < static_cast<std::size_t>(rows.end); ++row) {
      hashes[row] = token_hash(tokens[row], sample, positions[row]);
    }
  }
  return hashes;
}

// Returns one hash per label: the hash of the token that its row predicts, at the position after the row.
std::vector<std::int64_t> response_hashes(const PackedMicroBatch& micro_batch) {
  const auto labels = micro_batch.find(labels_field)->values<std::int64_t>();
  const std::vector<std::int64_t> positions = positions_of(micro_batch);
  std::vector<std::int64_t> hashes(labels.size());
  if (!micro_batch.shared) {
    for (std::int64_t i = 0; i < micro_batch.layout.size(); ++i) {
      const RowRange rows = micro_batch.layout.local_range(i);
      const SampleId sample = micro_batch.samples[static_cast<std::size_t>(i)].id;
      for (auto row = static_cast<std::size_t>(rows.begin); row < static_cast<std::size_t>(rows.end); ++row)
        hashes[row] = token_hash(labels[row], sample, positions[row] + 1);
    }
    return hashes;
  }
  const auto rows = micro_batch.find(prediction_rows_field)->values<std::int64_t>();
  const std::vector<std::int64_t>& offsets = micro_batch.shared->prediction_offsets;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    for (auto p = static_cast<std::size_t>(offsets[i]); p < static_cast<std::size_t>(offsets[i + 1]); ++p)
      hashes[p] =
          token_hash(labels[p], micro_batch.samples[i].id, positions[static_cast<std::size_t>(rows[p])] + 1);
  }
  return hashes;
}

std::vector<std::int64_t> sample_hashes(const PackedMicroBatch& micro_batch) {
  std::vector<std::int64_t> hashes;
  for (const SampleShape& sample : micro_batch.samples)
    hashes.push_back(token_hash(sample.length(), sample.id, 0));
  return hashes;
}

}  // namespace

std::int64_t token_hash(std::int64_t token, SampleId sample, std::int64_t position) noexcept {
  const std::uint64_t hash =
      mix(mix(mix(static_cast<std::uint64_t>(token)) + static_cast<std::uint64_t>(sample.value())) +
          static_cast<std::uint64_t>(position));
  return static_cast<std::int64_t>(hash & std::numeric_limits<std::int64_t>::max());
}

StepResults hash_tokens(const Step& step) {
  StepResults results(step.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    const PackedMicroBatch& micro_batch = step.micro_batches[m].tensors;
    // Pipeline stages without tokens or labels do not have results to report.
    if (micro_batch.find(input_ids_field) == nullptr || micro_batch.find(labels_field) == nullptr) continue;
    // With shared prefixes, a row may belong to several samples, so there is no hash per token.
    if (!micro_batch.shared)
      results.put<std::int64_t>(m, "token_hash", FieldKind::token, token_hashes(micro_batch));
    results.put<std::int64_t>(m, "response_hash", FieldKind::response_token, response_hashes(micro_batch));
    results.put<std::int64_t>(m, "sample_hash", FieldKind::sample, sample_hashes(micro_batch));
  }
  return results;
}

void write_results(const std::filesystem::path& dir, std::int64_t step, const RaggedBatch& results) {
  std::vector<std::int64_t> sample_index;
  for (const SampleShape& sample : results.samples()) sample_index.push_back(sample.id.value());
  std::vector<TensorView> tensors{view_of("sample_index", std::span<const std::int64_t>(sample_index)),
                                  view_of("offsets", results.token_offsets())};
  for (const Column& column : results.fields()) tensors.push_back(view_of(column));
  write_safetensors(dir / (numbered_name("step-", step, 6) + ".safetensors"), tensors, {});
}

}  // namespace evenkeel
