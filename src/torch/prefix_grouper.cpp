#include "evenkeel/torch/prefix_grouper.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "evenkeel/torch/packed_attention.hpp"
#include "torch/move_rows.hpp"

namespace evenkeel {
namespace {

std::string text_of(at::IntArrayRef shape) {
  std::ostringstream text;
  text << shape;
  return text.str();
}

/// Throws InputError unless x has at least `dimensions` dimensions and the first two are `expected`.
void require_shape(const at::Tensor& x, std::int64_t dimensions, PaddedShape expected, const char* what) {
  if (x.dim() >= dimensions && x.size(0) == expected.batch && x.size(1) == expected.width) return;
  throw InputError(what, "has shape " + text_of(x.sizes()) + "; it must start with [" +
                             std::to_string(expected.batch) + ", " + std::to_string(expected.width) +
                             "] and have at least " + std::to_string(dimensions) + " dimensions");
}

/// A padding mask as bytes on the CPU, which PaddedMask requires. Owns the memory.
class MaskEntries {
 public:
  MaskEntries(const at::Tensor& mask, const char* what) {
    if (mask.dim() != 2)
      throw InputError(what, "has shape " + text_of(mask.sizes()) + "; a mask has two dimensions");
    entries_ = mask.ne(0).to(at::kCPU, at::kByte).contiguous();
  }
  [[nodiscard]] PaddedMask view() const {
    return {entries_.size(0),
            entries_.size(1),
            {entries_.data_ptr<std::uint8_t>(), static_cast<std::size_t>(entries_.numel())}};
  }

 private:
  at::Tensor entries_;
};

at::Tensor bool_mask(const TokenPlaces& places) {
  const std::vector<std::uint8_t> mask = places.mask();
  return at::tensor(at::ArrayRef<std::uint8_t>(mask), at::kByte)
      .to(at::kBool)
      .view({places.shape().batch, places.shape().width});
}

/// Returns the places as row indices of a tensor whose first two dimensions are flattened into one.
at::Tensor flat_indices(const TokenPlaces& places) {
  std::vector<std::int64_t> indices;
  indices.reserve(static_cast<std::size_t>(places.size()));
  for (const TokenRun& run : places.runs()) {
    const std::int64_t first = run.row * places.shape().width + run.column;
    for (std::int64_t i = 0; i < run.size; ++i) indices.push_back(first + i);
  }
  return to_tensor(indices);
}

at::Tensor unflatten(const at::Tensor& rows, PaddedShape shape) {
  std::vector<std::int64_t> sizes{shape.batch, shape.width};
  for (const std::int64_t size : rows.sizes().slice(1)) sizes.push_back(size);
  return rows.reshape(sizes);
}

at::Tensor rearrange_tokens(const at::Tensor& x, const TokenPlaces& from, const TokenPlaces& to) {
  require_shape(x, 2, from.shape(), "padded tensor");
  require_same_rows(from, to);
  const at::Tensor moved =
      move_rows(x.flatten(0, 1), flat_indices(from), flat_indices(to), to.shape().batch * to.shape().width);
  return unflatten(moved, to.shape());
}

}  // namespace

PrefixGrouper::PrefixGrouper(PrefixLayout layout)
    : layout_(std::move(layout)),
      prefix_(indices_of(layout_.prefix())),
      suffix_(indices_of(layout_.suffix())) {
  const TokenMap keys = layout_.suffix_keys();
  suffix_keys_ = indices_of(keys);
  prefix_key_mask_ = bool_mask(layout_.prefix().target);
  suffix_key_mask_ = bool_mask(keys.target);
}

PrefixGrouper::PrefixGrouper(GroupInfo group_info, PaddingSide padding)
    : PrefixGrouper(PrefixLayout(PrefixGroups(group_info), padding)) {}

PrefixGrouper::PrefixGrouper(GroupInfo group_info, const at::Tensor& padding_mask)
    : PrefixGrouper(
          PrefixLayout(PrefixGroups(group_info), MaskEntries(padding_mask, "padding mask").view())) {}

PrefixGrouper PrefixGrouper::from_ungrouped_masks(const at::Tensor& prefix_mask,
                                                  const at::Tensor& suffix_mask,
                                                  std::span<const std::int64_t> group_sizes,
                                                  PaddingSide padding) {
  const MaskEntries prefix(prefix_mask, "prefix mask");
  const MaskEntries suffix(suffix_mask, "suffix mask");
  return PrefixGrouper(
      PrefixLayout(PrefixGroups::from_masks(prefix.view(), suffix.view(), group_sizes), padding));
}

PrefixGrouper::Indices PrefixGrouper::indices_of(const TokenMap& map) {
  return {flat_indices(map.source), flat_indices(map.target), map.source.shape(), map.target.shape()};
}

at::Tensor PrefixGrouper::padding_mask() const {
  return bool_mask(layout_.grouped());
}

at::Tensor PrefixGrouper::position_ids(std::int64_t padding) const {
  const PaddedShape shape = layout_.grouped().shape();
  return to_tensor(layout_.position_ids(padding)).view({shape.batch, shape.width});
}

at::Tensor PrefixGrouper::concat_input(const at::Tensor& prefix, const at::Tensor& prefix_mask,
                                       const at::Tensor& suffix, const at::Tensor& suffix_mask,
                                       double pad) const {
  const MaskEntries prefix_entries(prefix_mask, "prefix mask");
  const MaskEntries suffix_entries(suffix_mask, "suffix mask");
  const PrefixGroups& groups = layout_.groups();
  require_shape(prefix, 2, {groups.size(), prefix_mask.size(1)}, "prefix");
  require_shape(suffix, 2, {groups.num_suffixes(), suffix_mask.size(1)}, "suffix");
  // First convert to the layout's own prefix and suffix tensors, which checks every length against its group.
  const at::Tensor own_prefix =
      rearrange_tokens(prefix, TokenPlaces(prefix_entries.view()), layout_.prefix().target);
  const at::Tensor own_suffix =
      rearrange_tokens(suffix, TokenPlaces(suffix_entries.view()), layout_.suffix().target);
  const at::Tensor grouped = group(own_prefix, own_suffix);
  if (pad == 0) return grouped;
  std::vector<std::int64_t> mask_shape(static_cast<std::size_t>(grouped.dim()), 1);
  std::ranges::copy(padding_mask().sizes(), mask_shape.begin());
  return grouped.masked_fill(padding_mask().logical_not().to(grouped.device()).view(mask_shape), pad);
}

at::Tensor PrefixGrouper::apply_indices(const Indices& indices, const at::Tensor& x) {
  require_shape(x, 2, indices.from, "grouped tensor");
  const at::Tensor rows =
      move_rows(x.flatten(0, 1), indices.source, indices.target, indices.to.batch * indices.to.width);
  return unflatten(rows, indices.to);
}

at::Tensor PrefixGrouper::apply_indices_to_heads(const Indices& indices, const at::Tensor& x) {
  if (x.dim() != 4 || x.size(0) != indices.from.batch || x.size(2) != indices.from.width) {
    throw InputError("grouped tensor", "has shape " + text_of(x.sizes()) + "; it must be [" +
                                           std::to_string(indices.from.batch) + ", heads, " +
                                           std::to_string(indices.from.width) + ", elements]");
  }
  return apply_indices(indices, x.transpose(1, 2)).transpose(1, 2);
}

PrefixGrouper::Parts PrefixGrouper::ungroup(const at::Tensor& x) const {
  return {apply_indices_to_heads(prefix_, x), apply_indices_to_heads(suffix_, x)};
}

at::Tensor PrefixGrouper::group(const at::Tensor& prefix, const at::Tensor& suffix) const {
  require_shape(prefix, 2, prefix_.to, "prefix");
  require_shape(suffix, 2, suffix_.to, "suffix");
  const at::Tensor rows = at::cat({prefix.flatten(0, 1), suffix.flatten(0, 1)});
  const std::int64_t prefix_rows = prefix_.to.batch * prefix_.to.width;
  const at::Tensor source = at::cat({prefix_.target, suffix_.target + prefix_rows});
  const at::Tensor target = at::cat({prefix_.source, suffix_.source});
  const PaddedShape grouped = layout_.grouped().shape();
  return unflatten(move_rows(rows, source, target, grouped.batch * grouped.width), grouped);
}

PrefixGrouper::Split PrefixGrouper::split_output(const at::Tensor& output, std::int64_t include_prefix_last,
                                                 ShortPrefix short_prefix) const {
  const PrefixSplit split = layout_.split(include_prefix_last, short_prefix);
  return {apply_indices(indices_of(split.prefix), output), bool_mask(split.prefix.target).to(output.device()),
          apply_indices(indices_of(split.suffix), output),
          bool_mask(split.suffix.target).to(output.device())};
}

at::Tensor PrefixGrouper::make_empty_output(const AttentionInput& input) {
  return at::zeros({input.q.size(0), input.q.size(2), input.q.size(1), input.v.size(3)}, input.q.options());
}

PrefixGrouper::AttentionInput PrefixGrouper::prefix_input(const at::Tensor& q, const at::Tensor& k,
                                                          const at::Tensor& v) const {
  return {apply_indices_to_heads(prefix_, q), apply_indices_to_heads(prefix_, k),
          apply_indices_to_heads(prefix_, v), prefix_key_mask_.to(q.device())};
}

PrefixGrouper::AttentionInput PrefixGrouper::suffix_input(const at::Tensor& q, const at::Tensor& k,
                                                          const at::Tensor& v) const {
  return {apply_indices_to_heads(suffix_, q), apply_indices_to_heads(suffix_keys_, k),
          apply_indices_to_heads(suffix_keys_, v), suffix_key_mask_.to(q.device())};
}

at::Tensor convert_padding(const at::Tensor& x, const at::Tensor& mask, PaddingSide padding) {
  const MaskEntries entries(mask, "padding mask");
  return rearrange_tokens(x, TokenPlaces(entries.view()),
                          padded_to_longest(lengths_of(entries.view()), padding));
}

at::Tensor convert_padding(const at::Tensor& x, const at::Tensor& mask, const at::Tensor& target_mask) {
  const MaskEntries from(mask, "padding mask");
  const MaskEntries to(target_mask, "target padding mask");
  return rearrange_tokens(x, TokenPlaces(from.view()), TokenPlaces(to.view()));
}

at::Tensor causal_attention_mask(const at::Tensor& key_mask, std::int64_t queries) {
  if (key_mask.dim() != 2) {
    throw InputError("key mask", "has shape " + text_of(key_mask.sizes()) + "; it must be [batch, keys]");
  }
  const std::int64_t keys = key_mask.size(1);
  const at::Tensor all = at::ones({queries, keys}, key_mask.options().dtype(at::kBool));
  const at::Tensor causal = all.tril(keys - queries);
  const at::Tensor own = causal.triu(keys - queries);
  return key_mask.to(at::kBool).view({-1, 1, 1, keys}).logical_and(causal).logical_or(own);
}

}  // namespace evenkeel
