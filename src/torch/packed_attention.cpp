#include "evenkeel/torch/packed_attention.hpp"

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "torch/move_rows.hpp"

namespace evenkeel {
namespace {

at::Tensor int32_tensor(const std::vector<std::int32_t>& numbers) {
  return at::tensor(at::ArrayRef<std::int32_t>(numbers), at::kInt);
}

at::Tensor row_indices(std::span<const RowRange> ranges) {
  std::vector<std::int64_t> rows;
  for (const RowRange range : ranges) {
    for (std::int64_t row = range.begin; row < range.end; ++row) rows.push_back(row);
  }
  return to_tensor(rows);
}

}  // namespace

at::Tensor to_tensor(std::span<const std::int64_t> numbers) {
  return at::tensor(at::ArrayRef<std::int64_t>(numbers.data(), numbers.size()), at::kLong);
}

at::Tensor merge_cp_rows(const PackedLayout& layout, const at::Tensor& gathered) {
  if (gathered.dim() < 1 || gathered.size(0) != layout.num_rows()) {
    throw InputError("gathered rows", "their number is " +
                                          std::to_string(gathered.dim() < 1 ? 0 : gathered.size(0)) +
                                          ", but the micro-batch has " + std::to_string(layout.num_rows()));
  }
  std::vector<std::int64_t> target;
  for (int rank = 0; rank < layout.cp().size; ++rank) {
    const auto rows = partitioned_indices(layout.cu_seqlens_padded(), layout.cp(), CpRank{rank});
    target.insert(target.end(), rows.begin(), rows.end());
  }
  const at::Tensor source = at::arange(layout.num_rows(), at::kLong);
  return move_rows(gathered, source, to_tensor(target), layout.num_rows());
}

at::Tensor attention_mask(const AncestorIntervals& queries, const AncestorIntervals& keys) {
  const at::Tensor query = to_tensor(queries.tin).unsqueeze(1);
  const at::Tensor tin = to_tensor(keys.tin).unsqueeze(0);
  const at::Tensor tout = to_tensor(keys.tout).unsqueeze(0);
  return tin.le(query).logical_and(query.lt(tout));
}

PackedAttention::PackedAttention(const PrefixAttentionPlan& plan)
    : key_rows_(row_indices(plan.key_rows)),
      cu_seqlens_q_(int32_tensor(plan.cu_seqlens_q_padded)),
      cu_seqlens_k_(int32_tensor(plan.cu_seqlens_k_padded)),
      max_seqlen_q_(plan.max_seqlen_q),
      max_seqlen_k_(plan.max_seqlen_k) {}

at::Tensor PackedAttention::gather_rows(const at::Tensor& rows) const {
  const std::int64_t count = key_rows_.size(0);
  return move_rows(rows, key_rows_, at::arange(count, at::kLong), count);
}

}  // namespace evenkeel
