#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/pack/packed_layout.hpp"

namespace evenkeel {

/// Fields that follow from the tokens and lengths, computed for one CP rank's local packed rows. `out` has
/// layout.local_rows() elements; pad rows get the stated filler. Local, O(local_rows).

/// Positions restart at 0 in every sequence; pad rows run on (as MindSpeed-RL's preprocess_packed_seqs has
/// them), so that position ids of one aligned sequence are 0..aligned-1.
void derive_position_ids(const PackedLayout& layout, CpRank rank, std::span<std::int64_t> out);

/// Labels: the next token of the same sequence, `label_pad` at its end and in pad rows. A rank's run may end
/// inside the sequence, where the next token lives on another CP rank: `halo` holds, for each entry of
/// packed_runs(layout, rank), the token right after that run (ignored where the run ends its sequence).
void derive_labels(const PackedLayout& layout, CpRank rank, std::span<const std::int64_t> local_tokens,
                   std::span<const std::int64_t> halo, std::int64_t label_pad, std::span<std::int64_t> out);

/// The same for the token `ahead` rows further on, `pad` where the sequence has ended: labels are 1 ahead.
/// `halo` has `reach` tokens for each run, at least `ahead`: those right after it (ignored where the sequence
/// has ended).
void derive_tokens_ahead(const PackedLayout& layout, CpRank rank, std::span<const std::int64_t> local_tokens,
                         std::span<const std::int64_t> halo, std::int64_t reach, std::int64_t ahead,
                         std::int64_t pad, std::span<std::int64_t> out);

/// 1 in pad rows, 0 in rows of true tokens.
void derive_padding_mask(const PackedLayout& layout, CpRank rank, std::span<std::uint8_t> out);

/// Loss mask, shifted like the labels: 1 where the label is a response token, 0 elsewhere. `prompt_lengths`
/// has one entry a sequence. Row t of a sequence of n tokens gets 1 when prompt <= t+1+ahead < n: `ahead` is
/// 0 for the labels, 1 for the tokens after them.
void derive_loss_mask(const PackedLayout& layout, CpRank rank, std::span<const std::int64_t> prompt_lengths,
                      std::span<float> out, std::int64_t ahead = 0);

/// Routes of pad rows: the elements of each are `slots` numbers of experts that follow each other, and those
/// of the rank's next pad row go on from there, `experts` - 1 before 0, so that all experts get about as many
/// (ranks begin at different ones). `out` has row_elements elements a local row, a multiple of slots; rows of
/// tokens do not change. `all_rows`: none is of tokens. Preconditions: 1 <= slots <= experts.
template <typename T>
void spread_pad_rows(const PackedLayout& layout, CpRank rank, bool all_rows, std::int64_t row_elements,
                     std::int64_t slots, std::int64_t experts, std::span<T> out);

/// Each row's weight in the loss: its sequence's entry of `token_weights` where the loss mask is set, 0
/// elsewhere. `mask` has one byte a local row, not 0 where it is set; sequences behind the last entry are
/// fillers, which weigh nothing. Throws InputError for more entries than sequences.
void derive_loss_weights(const PackedLayout& layout, std::span<const double> token_weights,
                         std::span<const std::uint8_t> mask, std::span<float> out);

}  // namespace evenkeel
