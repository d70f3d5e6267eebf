#include "evenkeel/pack/packed_micro_batch.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "evenkeel/base/assertions.hpp"
#include "pack/micro_batch/derived_columns.hpp"

namespace evenkeel {
namespace {

bool is_filler(const SampleShape& sample) noexcept {
  return sample.id == filler_sample;
}

std::vector<std::int64_t> lengths_of(std::span<const SampleShape> samples) {
  std::vector<std::int64_t> lengths;
  for (const SampleShape& sample : samples) lengths.push_back(sample.length());
  return lengths;
}

/// Adds a root segment of `tokens` filler tokens, and a sample that consists of this segment.
PrefixTree add_filler_root(const PrefixTree& tree, std::int64_t tokens) {
  std::vector<TreeNode> nodes;
  for (const TreeSegment& segment : tree.segments()) nodes.push_back({segment.parent, segment.rows.size()});
  std::vector<std::int64_t> ends(tree.sample_ends().begin(), tree.sample_ends().end());
  ends.push_back(std::ssize(nodes));
  nodes.push_back({-1, tokens});
  return {nodes, std::move(ends)};
}

}  // namespace

bool PackedMicroBatch::empty() const noexcept {
  return std::ranges::all_of(samples, is_filler);
}

// Only filler with tokens counts. The micro-batch may also contain samples without tokens, and padding
// sequences, which are fillers without tokens.
bool PackedMicroBatch::has_filler() const noexcept {
  return std::ranges::any_of(samples, [](const SampleShape& s) { return is_filler(s) && s.length() > 0; });
}

std::int64_t PackedMicroBatch::rows_of(FieldKind kind) const noexcept {
  EVENKEEL_PRECONDITION(cheap, !is_counted(kind), name_of(kind));
  const FieldRule& rule = rule_of(kind);
  if (rule.is_per_sample()) return static_cast<std::int64_t>(samples.size());
  return shared && rule.is_per_response_token() ? shared->predictions() : layout.local_rows();
}

std::int64_t PackedMicroBatch::num_tokens() const noexcept {
  // If there is filler, it is the only sample with tokens.
  if (shared) return has_filler() ? 0 : layout.num_tokens();
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
  if (sequences.shape) {
    EVENKEEL_PRECONDITION(cheap, !padded, sequences.padded_length);
    layout = layout.with_shape(*sequences.shape);
    samples.resize(static_cast<std::size_t>(layout.size()), {filler_sample, 0, 0, 0});
  }
  return {std::move(layout), sequences.padded_length, cp_rank, std::move(samples), {},
          std::nullopt,      sequences.shape};
}

PackedMicroBatch lay_out_shared(std::vector<SampleShape> samples, const PrefixTree& tree,
                                const SequenceLayout& sequences, CpRank cp_rank) {
  const PrefixTree filled = tree.num_rows() > 0 ? tree : add_filler_root(tree, sequences.alignment);
  if (filled.num_samples() > std::ssize(samples))
    samples.push_back({filler_sample, 0, sequences.alignment, 0});
  PackedTreeLayout layout(filled, sequences.alignment, sequences.cp);
  SharedSequences shared{layout, {}, {}};
  std::int64_t group = -1;
  for (std::int64_t s = 0; s < filled.size(); ++s) {
    const TreeSegment& segment = filled.segment(s);
    const bool ends_here = segment.subtree_end == s + 1;
    shared.segment_sample.push_back(ends_here ? samples[static_cast<std::size_t>(segment.first_sample)].id
                                              : filler_sample);
    shared.segment_group.push_back(segment.parent == -1 ? ++group : group);
  }
  PackedMicroBatch micro_batch{layout.segments(), 0, cp_rank, std::move(samples), {}, std::move(shared)};
  const SampleRows predictions = Predictions(micro_batch, 0).samples;
  micro_batch.shared->prediction_offsets.assign(predictions.offsets().begin(), predictions.offsets().end());
  return micro_batch;
}

std::string prediction_field_name(std::string_view field, std::int64_t ahead) {
  return std::string(field) + "@" + std::to_string(ahead);
}

std::string field_name_at_depth(std::string_view field, std::int64_t ahead) {
  return ahead == 0 ? std::string(field) : prediction_field_name(field, ahead);
}

void complete_fields(PackedMicroBatch& micro_batch, std::span<const FieldSpec> brought,
                     std::span<const std::int64_t> halo, const DerivedFieldSettings& options) {
  std::vector<ColumnDescription> present;
  for (const Column& column : micro_batch.fields) present.push_back(ColumnDescription::from_column(column));
  const DerivedColumns derived(micro_batch, present, brought, options);
  derived.add_prediction_rows(micro_batch);
  derived.add_remaining_columns(micro_batch, halo);
}

}  // namespace evenkeel
