#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/pack/packed_layout.hpp"

namespace evenkeel {

/// Functions that derive fields from tokens and lengths, for the local packed rows of one CP rank. `out` has
/// layout.local_rows() elements; each function documents the value of pad rows. All functions are local,
/// O(local_rows).

/// Derives positions, which restart at 0 in every sequence. Pad rows continue the count (as in MindSpeed-RL's
/// preprocess_packed_seqs), so the position ids of one aligned sequence are 0..aligned-1.
void derive_position_ids(const PackedLayout& layout, CpRank rank, std::span<std::int64_t> out);

/// Derives labels: the next token of the same sequence, or `label_pad` at the end of the sequence and in pad
/// rows. If a rank's run ends inside the sequence, the next token is on another CP rank: `halo` has, for each
/// entry of packed_runs(layout, rank), the token that follows the run (ignored if the run ends its sequence).
void derive_labels(const PackedLayout& layout, CpRank rank, std::span<const std::int64_t> local_tokens,
                   std::span<const std::int64_t> halo, std::int64_t label_pad, std::span<std::int64_t> out);

/// Derives, for each row, the token `ahead` rows later in the same sequence, or `pad` after the end of the
/// sequence and in pad rows. For labels, `ahead` is 1. `halo` has, for each entry of packed_runs(layout,
/// rank), the `reach` tokens that follow the run (ignored after the end of the sequence). Precondition: 1 <=
/// ahead <= reach.
void derive_tokens_ahead(const PackedLayout& layout, CpRank rank, std::span<const std::int64_t> local_tokens,
                         std::span<const std::int64_t> halo, std::int64_t reach, std::int64_t ahead,
                         std::int64_t pad, std::span<std::int64_t> out);

/// Derives the padding mask: 1 in pad rows, 0 in rows of true tokens.
void derive_padding_mask(const PackedLayout& layout, CpRank rank, std::span<std::uint8_t> out);

/// Derives the loss mask, shifted like the labels: 1 if the label is a response token, 0 otherwise.
/// `prompt_lengths` has one entry per sequence. Row t of a sequence with n tokens and prompt length p gets 1
/// if p <= t+1+ahead < n. `ahead` is 0 for the labels and 1 for the tokens after the labels.
void derive_loss_mask(const PackedLayout& layout, CpRank rank, std::span<const std::int64_t> prompt_lengths,
                      std::span<float> out, std::int64_t ahead = 0);

/// Spreads the routes of pad rows (the numbers of the experts to which an MoE router sends them) evenly over
/// all experts. A row has row_elements elements, a multiple of `slots`; each group of `slots` elements gets
/// the same `slots` consecutive expert numbers, modulo `experts`. The rank's next pad row continues with the
/// next numbers; rank r begins at expert r * slots, modulo `experts`. Rows of tokens are not changed. If
/// `all_rows` is set, all rows are treated as pad rows. Precondition: 1 <= slots <= experts.
template <typename T>
void spread_routes_of_pad_rows(const PackedLayout& layout, CpRank rank, bool all_rows,
                               std::int64_t row_elements, std::int64_t slots, std::int64_t experts,
                               std::span<T> out);

/// Derives each row's weight in the loss: its sequence's entry of `token_weights` if the loss mask is set, 0
/// otherwise. `mask` has one byte per local row, nonzero if set. Sequences after the last entry are fillers
/// with weight 0. Throws InputError if there are more entries than sequences. Only for callers that use
/// packing without the service; the service calls set_token_weights().
void derive_loss_weights(const PackedLayout& layout, std::span<const double> token_weights,
                         std::span<const std::uint8_t> mask, std::span<float> out);

}  // namespace evenkeel
