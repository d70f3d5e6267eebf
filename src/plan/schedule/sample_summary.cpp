#include "plan/schedule/sample_summary.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "base/hash.hpp"
#include "batch/mask.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"

namespace evenkeel {
namespace {

// Returns the rows of sample `i` that can carry loss, as a range of rows of the whole batch's mask. Excludes
// a response token that starts its sample, because nothing predicts it. With shared prefixes, only rows whose
// label is a response token can carry loss.
RowRange rows_with_loss(const RaggedBatch& batch, std::int64_t i, FieldKind kind, bool shared) {
  const SampleShape& sample = batch.samples()[static_cast<std::size_t>(i)];
  RowRange rows = batch.rows_of(kind, i);
  const bool of_responses = rule_of(kind).is_per_response_token();
  if (of_responses && sample.prompt == 0 && !rows.empty()) ++rows.begin;
  if (of_responses || !shared || rows.empty()) return rows;
  return {rows.begin + std::clamp<std::int64_t>(sample.prompt - 1, 0, rows.size() - 1), rows.end - 1};
}

// Returns summaries without prompt hashes. If the batch has a loss mask, the set rows of each sample are
// counted as its loss tokens.
std::vector<SampleSummary> summaries_without_hashes(const RaggedBatch& batch, bool shared) {
  std::vector<SampleSummary> lengths;
  lengths.reserve(batch.samples().size());
  for (const SampleShape& shape : batch.samples()) lengths.push_back({shape, -1, 0});
  const Column* mask = batch.find(loss_mask_field);
  if (mask == nullptr || mask->spec().rule().is_per_sample()) return lengths;
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    lengths[static_cast<std::size_t>(i)].loss_tokens =
        count_set(*mask, rows_with_loss(batch, i, mask->spec().kind, shared));
  }
  return lengths;
}

// Adds an 8-byte word to a hash, similarly to FNV-1a.
std::uint64_t add_to_hash(std::uint64_t hash, std::uint64_t word) noexcept {
  hash = (hash ^ word) * fnv1a_prime;
  return hash ^ hash >> 29;
}

// Hashes tokens in four interleaved lanes. Within a lane, each multiplication depends on the preceding one,
// but those of different lanes can overlap.
std::uint64_t hash_of(std::span<const std::int64_t> tokens) noexcept {
  constexpr std::size_t num_lanes = 4;
  std::array<std::uint64_t, num_lanes> lanes{fnv1a_basis, fnv1a_basis + 1, fnv1a_basis + 2, fnv1a_basis + 3};
  while (tokens.size() >= num_lanes) {
    for (std::size_t i = 0; i < num_lanes; ++i)
      lanes[i] = add_to_hash(lanes[i], static_cast<std::uint64_t>(tokens[i]));
    tokens = tokens.subspan(num_lanes);
  }
  std::uint64_t hash = fnv1a_basis;
  for (const std::uint64_t lane : lanes) hash = add_to_hash(hash, lane);
  for (const std::int64_t token : tokens) hash = add_to_hash(hash, static_cast<std::uint64_t>(token));
  return hash;
}

// Prefetches the tokens of a prompt. Prompts are not contiguous in memory, so the hardware prefetcher detects
// a new prompt too late.
void prefetch_tokens(std::span<const std::int64_t> tokens) noexcept {
  constexpr std::size_t tokens_of_line = 8;
  constexpr std::size_t farthest = 512;
  for (std::size_t i = 0; i < std::min(tokens.size(), farthest); i += tokens_of_line)
    __builtin_prefetch(&tokens[i]);
}

}  // namespace

std::vector<SampleSummary> summaries_of(const RaggedBatch& batch) {
  return summaries_without_hashes(batch, false);
}

std::vector<SampleSummary> summaries_for_sharing(const RaggedBatch& batch) {
  std::vector<SampleSummary> lengths = summaries_without_hashes(batch, true);
  if (batch.size() == 0) return lengths;
  const auto tokens = batch.at(input_ids_field).values<std::int64_t>();
  const auto prompt_of = [&](std::int64_t i) {
    return tokens.subspan(static_cast<std::size_t>(batch.rows_of(FieldKind::token, i).begin),
                          static_cast<std::size_t>(batch.samples()[static_cast<std::size_t>(i)].prompt));
  };
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    if (i + 1 < batch.size()) prefetch_tokens(prompt_of(i + 1));
    lengths[static_cast<std::size_t>(i)].prompt_hash = hash_of(prompt_of(i));
  }
  return lengths;
}

}  // namespace evenkeel
