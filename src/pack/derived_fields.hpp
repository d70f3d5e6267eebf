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

/// Loss mask, shifted like the labels: 1 where the label is a response token, 0 elsewhere. `prompt_lengths`
/// has one entry a sequence. Row t of a sequence of n tokens gets 1 when prompt <= t+1 < n.
void derive_loss_mask(const PackedLayout& layout, CpRank rank, std::span<const std::int64_t> prompt_lengths,
                      std::span<float> out);

/// Each row's weight in the loss: its sequence's entry of `token_weights` where the loss mask is set, 0
/// elsewhere. `mask` has one byte a local row, not 0 where it is set; sequences behind the last entry are
/// fillers, which weigh nothing. Throws InputError for more entries than sequences.
void derive_loss_weights(const PackedLayout& layout, std::span<const double> token_weights,
                         std::span<const std::uint8_t> mask, std::span<float> out);

}  // namespace evenkeel
