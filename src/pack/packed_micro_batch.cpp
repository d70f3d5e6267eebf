#include "evenkeel/pack/packed_micro_batch.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/pack/prefix/predictions.hpp"
#include "pack/derived_fields.hpp"
#include "pack/pack_rows.hpp"

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

std::vector<std::int64_t> prompts_of(std::span<const SampleShape> samples) {
  std::vector<std::int64_t> prompts;
  for (const SampleShape& sample : samples) prompts.push_back(sample.prompt);
  return prompts;
}

/// A field that its derivation writes whole.
Column& add_token_field(PackedMicroBatch& micro_batch, std::string_view name, DType dtype) {
  return micro_batch.fields.emplace_back(
      Column::unwritten({std::string(name), dtype, FieldKind::token, {}}, micro_batch.layout.local_rows()));
}

void fill_pad_tokens(PackedMicroBatch& micro_batch, std::int64_t pad_token) {
  Column& tokens = *micro_batch.find(input_ids_field);
  if (micro_batch.has_filler()) {
    std::ranges::fill(tokens.values<std::int64_t>(), pad_token);
  } else {
    fill_pad_rows(micro_batch.layout, micro_batch.cp_rank, std::as_bytes(std::span(&pad_token, 1)),
                  tokens.bytes());
  }
}

/// A field of the tokens `ahead` rows further on.
void add_tokens_ahead(PackedMicroBatch& micro_batch, std::string_view name, std::int64_t ahead,
                      std::span<const std::int64_t> halo, std::int64_t reach, std::int64_t pad) {
  const std::span<std::int64_t> values =
      add_token_field(micro_batch, name, DType::int64).values<std::int64_t>();
  if (micro_batch.has_filler()) {
    std::ranges::fill(values, pad);
    return;
  }
  const auto tokens = std::as_const(micro_batch).find(input_ids_field)->values<std::int64_t>();
  if (micro_batch.shared) {
    derive_tokens_ahead(micro_batch.shared->tree, micro_batch.cp_rank, tokens, halo, reach, ahead, pad,
                        values);
  } else {
    derive_tokens_ahead(micro_batch.layout, micro_batch.cp_rank, tokens, halo, reach, ahead, pad, values);
  }
}

void add_loss_mask(PackedMicroBatch& micro_batch, std::string_view name, std::int64_t ahead) {
  derive_loss_mask(micro_batch.layout, micro_batch.cp_rank, prompts_of(micro_batch.samples),
                   add_token_field(micro_batch, name, DType::float32).values<float>(), ahead);
}

void add_padding_mask(PackedMicroBatch& micro_batch) {
  Column& mask = add_token_field(micro_batch, padding_mask_field, DType::boolean);
  std::vector<std::uint8_t> values(static_cast<std::size_t>(mask.rows()), 1);
  if (!micro_batch.has_filler()) derive_padding_mask(micro_batch.layout, micro_batch.cp_rank, values);
  std::ranges::copy(std::as_bytes(std::span(values)), mask.bytes().begin());
}

/// One more root, of filler, with a sample of its own.
PrefixTree with_filler(const PrefixTree& tree, std::int64_t tokens) {
  std::vector<TreeNode> nodes;
  for (const TreeSegment& segment : tree.segments()) nodes.push_back({segment.parent, segment.rows.size()});
  std::vector<std::int64_t> ends(tree.sample_ends().begin(), tree.sample_ends().end());
  ends.push_back(std::ssize(nodes));
  nodes.push_back({-1, tokens});
  return {nodes, std::move(ends)};
}

void add_position_ids(PackedMicroBatch& micro_batch) {
  const std::span<std::int64_t> positions =
      add_token_field(micro_batch, position_ids_field, DType::int64).values<std::int64_t>();
  if (micro_batch.shared) {
    derive_position_ids(micro_batch.shared->tree, micro_batch.cp_rank, positions);
  } else {
    derive_position_ids(micro_batch.layout, micro_batch.cp_rank, positions);
  }
}

/// Fields with one row a prediction: of a depth ahead, each sample has its own number of them.
class PredictionFields {
 public:
  PredictionFields(PackedMicroBatch& micro_batch, std::int64_t ahead)
      : micro_batch_(micro_batch),
        ahead_(ahead),
        runs_(prediction_runs(micro_batch.shared->tree, prompts_of(micro_batch.samples), micro_batch.cp_rank,
                              ahead)) {
    std::vector<std::int64_t> counts(micro_batch.samples.size());
    for (const PredictionRun& run : runs_) counts[static_cast<std::size_t>(run.sample)] += run.rows.size();
    samples_ = SampleRows::of_counts(counts);
  }

  [[nodiscard]] const SampleRows& samples() const noexcept { return samples_; }

  void add_rows() {
    auto next = add(prediction_rows_field, DType::int64).values<std::int64_t>().begin();
    for (const PredictionRun& run : runs_) {
      std::iota(next, next + run.rows.size(), run.rows.begin);
      next += run.rows.size();
    }
  }
  // Nothing predicts filler.
  void add_labels(std::span<const std::int64_t> halo, std::int64_t reach) {
    const std::span<std::int64_t> labels = add(labels_field, DType::int64).values<std::int64_t>();
    if (micro_batch_.has_filler()) return;
    derive_labels(micro_batch_.shared->tree, prompts_of(micro_batch_.samples), micro_batch_.cp_rank,
                  micro_batch_.find(input_ids_field)->values<std::int64_t>(), halo, labels, reach, ahead_);
  }
  // Every prediction is of a response token.
  void add_mask() { std::ranges::fill(add(loss_mask_field, DType::float32).values<float>(), 1.0F); }

 private:
  Column& add(std::string_view name, DType dtype) {
    if (ahead_ == 0)
      return micro_batch_.fields.emplace_back(
          Column::unwritten({std::string(name), dtype, FieldKind::response_token, {}}, samples_.rows()));
    return micro_batch_.fields.emplace_back(
        Column::unwritten({name_ahead(name, ahead_), dtype, FieldKind::rows, {}}, samples_));
  }

  PackedMicroBatch& micro_batch_;
  std::int64_t ahead_;
  std::vector<PredictionRun> runs_;
  SampleRows samples_;
};

}  // namespace

bool PackedMicroBatch::empty() const noexcept {
  return std::ranges::all_of(samples, is_filler);
}

// Samples without tokens may stand beside it, and padding, which has no tokens.
bool PackedMicroBatch::has_filler() const noexcept {
  return std::ranges::any_of(samples, [](const SampleShape& s) { return is_filler(s) && s.length() > 0; });
}

std::int64_t PackedMicroBatch::rows_of(FieldKind kind) const noexcept {
  EVENKEEL_PRECONDITION(cheap, !is_counted(kind), name_of(kind));
  if (kind == FieldKind::sample) return static_cast<std::int64_t>(samples.size());
  return shared && kind == FieldKind::response_token ? shared->predictions() : layout.local_rows();
}

std::int64_t PackedMicroBatch::num_tokens() const noexcept {
  if (shared) return has_filler() ? 0 : layout.num_tokens();  // filler stands alone
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
  const PrefixTree filled = tree.num_rows() > 0 ? tree : with_filler(tree, sequences.alignment);
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
  PredictionFields predictions(micro_batch, 0);
  const auto offsets = predictions.samples().offsets();
  micro_batch.shared->prediction_offsets.assign(offsets.begin(), offsets.end());
  predictions.add_rows();
  return micro_batch;
}

std::string name_ahead(std::string_view field, std::int64_t ahead) {
  return std::string(field) + "@" + std::to_string(ahead);
}

void complete_fields(PackedMicroBatch& micro_batch, std::span<const FieldSpec> brought,
                     std::span<const std::int64_t> halo, const DerivedFieldSettings& options) {
  const auto is_missing = [&](std::string_view name) {
    return micro_batch.find(name) == nullptr &&
           std::ranges::find(brought, name, &FieldSpec::name) == brought.end();
  };
  if (is_missing(position_ids_field)) add_position_ids(micro_batch);
  if (options.padding_mask && is_missing(padding_mask_field)) add_padding_mask(micro_batch);
  if (micro_batch.find(input_ids_field) == nullptr) return;
  fill_pad_tokens(micro_batch, options.pad_token);
  const auto add_ahead = [&](const std::string& name, std::int64_t ahead, std::int64_t pad) {
    if (is_missing(name)) add_tokens_ahead(micro_batch, name, ahead, halo, options.reach(), pad);
  };
  for (std::int64_t depth = 0; depth <= options.predict_ahead; ++depth) {
    const auto at_depth = [&](std::string_view field) {
      return depth == 0 ? std::string(field) : name_ahead(field, depth);
    };
    if (depth > 0) add_ahead(at_depth(input_ids_field), depth, options.pad_token);
    const std::string labels = at_depth(labels_field);
    const std::string mask = at_depth(loss_mask_field);
    if (micro_batch.shared) {
      PredictionFields fields(micro_batch, depth);
      if (is_missing(at_depth(prediction_rows_field))) fields.add_rows();
      if (is_missing(labels)) fields.add_labels(halo, options.reach());
      if (is_missing(mask)) fields.add_mask();
      continue;
    }
    add_ahead(labels, depth + 1, options.label_pad);
    if (is_missing(mask)) add_loss_mask(micro_batch, mask, depth);
  }
}

}  // namespace evenkeel
