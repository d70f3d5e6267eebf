#include "pack/derived_fields.hpp"

#include <algorithm>
#include <string>

#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "pack/length_checks.hpp"
#include "pack/packed_walk.hpp"
#include "pack/position_runs.hpp"

namespace evenkeel {
namespace {

template <typename T>
std::span<T> rows(std::span<T> local, std::int64_t begin, std::int64_t count) {
  return local.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
}

std::int64_t count_runs(const PackedLayout& layout, CpRank rank) {
  std::int64_t count = 0;
  walk_packed_rows(
      layout, rank, [&](const PackedRun&) { ++count; }, do_nothing);
  return count;
}

}  // namespace

void derive_position_ids(const PackedLayout& layout, CpRank rank, std::span<std::int64_t> out) {
  fill_position_ids(
      layout, rank, [](std::int64_t) { return std::int64_t{0}; }, out);
}

void derive_labels(const PackedLayout& layout, CpRank rank, std::span<const std::int64_t> local_tokens,
                   std::span<const std::int64_t> halo, std::int64_t label_pad, std::span<std::int64_t> out) {
  derive_tokens_ahead(layout, rank, local_tokens, halo, 1, 1, label_pad, out);
}

void derive_tokens_ahead(const PackedLayout& layout, CpRank rank, std::span<const std::int64_t> local_tokens,
                         std::span<const std::int64_t> halo, std::int64_t reach, std::int64_t ahead,
                         std::int64_t pad, std::span<std::int64_t> out) {
  EVENKEEL_PRECONDITION(cheap, 1 <= ahead && ahead <= reach, ahead, reach);
  require_entries(local_tokens.size(), layout.local_rows(), "local tokens");
  require_entries(out.size(), layout.local_rows(), "tokens ahead");
  require_entries(halo.size(), count_runs(layout, rank) * reach, "halo tokens");
  std::int64_t after_run = 0;
  walk_packed_rows(
      layout, rank,
      [&](const PackedRun& run) {
        const std::int64_t size = run.sequence.size();
        const std::int64_t within = std::max(size - ahead, std::int64_t{0});
        const std::int64_t left = layout.length(run.index) - run.sequence.end;
        // The last rows of the run need tokens that follow the run. These are in the halo, from position
        // `first` to the end of the sequence.
        const std::int64_t first = ahead - (size - within);
        const std::int64_t beyond = std::clamp(left - first, std::int64_t{0}, size - within);
        auto next =
            std::ranges::copy(rows(local_tokens, run.local + size - within, within), out.begin() + run.local)
                .out;
        next = std::ranges::copy(rows(halo, after_run + first, beyond), next).out;
        std::fill_n(next, size - within - beyond, pad);
        after_run += reach;
      },
      [&](RowRange pads) { std::ranges::fill(rows(out, pads.begin, pads.size()), pad); });
}

void derive_padding_mask(const PackedLayout& layout, CpRank rank, std::span<std::uint8_t> out) {
  require_entries(out.size(), layout.local_rows(), "padding mask");
  std::ranges::fill(out, std::uint8_t{0});
  walk_packed_rows(layout, rank, do_nothing, [&](RowRange pad) {
    std::ranges::fill(rows(out, pad.begin, pad.size()), std::uint8_t{1});
  });
}

void derive_loss_mask(const PackedLayout& layout, CpRank rank, std::span<const std::int64_t> prompt_lengths,
                      std::span<float> out, std::int64_t ahead) {
  require_entries(prompt_lengths.size(), layout.size(), "prompt lengths");
  require_entries(out.size(), layout.local_rows(), "loss mask");
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    require_valid_prompt(i, prompt_lengths[static_cast<std::size_t>(i)], layout.length(i));
  }
  std::ranges::fill(out, 0.0F);
  const auto mark_response = [&](const PackedRun& run) {
    const std::int64_t prompt = prompt_lengths[static_cast<std::size_t>(run.index)];
    const std::int64_t begin = std::max(run.sequence.begin, prompt - 1 - ahead);
    const std::int64_t end = std::min(run.sequence.end, layout.length(run.index) - 1 - ahead);
    if (begin >= end) return;
    std::ranges::fill(rows(out, run.local + begin - run.sequence.begin, end - begin), 1.0F);
  };
  walk_packed_rows(layout, rank, mark_response, do_nothing);
}

template <typename T>
void spread_routes_of_pad_rows(const PackedLayout& layout, CpRank rank, bool all_rows,
                               std::int64_t row_elements, std::int64_t slots, std::int64_t experts,
                               std::span<T> out) {
  EVENKEEL_PRECONDITION(cheap, 1 <= slots && slots <= experts, slots, experts);
  require_entries(out.size(), layout.local_rows() * row_elements, "routes");
  std::int64_t first = rank.value() * slots % experts;
  const auto spread = [&](RowRange pads) {
    for (std::int64_t row = pads.begin; row < pads.end; ++row) {
      for (std::int64_t e = 0; e < row_elements; ++e) {
        out[static_cast<std::size_t>(row * row_elements + e)] = static_cast<T>((first + e % slots) % experts);
      }
      first = (first + slots) % experts;
    }
  };
  if (all_rows) return spread({0, layout.local_rows()});
  walk_packed_rows(layout, rank, do_nothing, spread);
}

template void spread_routes_of_pad_rows(const PackedLayout&, CpRank, bool, std::int64_t, std::int64_t,
                                        std::int64_t, std::span<std::uint8_t>);
template void spread_routes_of_pad_rows(const PackedLayout&, CpRank, bool, std::int64_t, std::int64_t,
                                        std::int64_t, std::span<std::int8_t>);
template void spread_routes_of_pad_rows(const PackedLayout&, CpRank, bool, std::int64_t, std::int64_t,
                                        std::int64_t, std::span<std::uint16_t>);
template void spread_routes_of_pad_rows(const PackedLayout&, CpRank, bool, std::int64_t, std::int64_t,
                                        std::int64_t, std::span<std::int16_t>);
template void spread_routes_of_pad_rows(const PackedLayout&, CpRank, bool, std::int64_t, std::int64_t,
                                        std::int64_t, std::span<std::uint32_t>);
template void spread_routes_of_pad_rows(const PackedLayout&, CpRank, bool, std::int64_t, std::int64_t,
                                        std::int64_t, std::span<std::int32_t>);
template void spread_routes_of_pad_rows(const PackedLayout&, CpRank, bool, std::int64_t, std::int64_t,
                                        std::int64_t, std::span<std::int64_t>);

void derive_loss_weights(const PackedLayout& layout, std::span<const double> token_weights,
                         std::span<const std::uint8_t> mask, std::span<float> out) {
  require_entries(mask.size(), layout.local_rows(), "loss mask");
  require_entries(out.size(), layout.local_rows(), "loss weights");
  if (std::ssize(token_weights) > layout.size()) {
    throw InputError("token weights", format_there_are(std::ssize(token_weights), "token weight") + " for " +
                                          format_plain_count(layout.size(), "sequence"));
  }
  std::ranges::fill(out, 0.0F);
  for (std::int64_t i = 0; i < std::ssize(token_weights); ++i) {
    const auto weight = static_cast<float>(token_weights[static_cast<std::size_t>(i)]);
    const RowRange range = layout.local_range(i);
    for (auto row = static_cast<std::size_t>(range.begin); row < static_cast<std::size_t>(range.end); ++row) {
      if (mask[row] != 0) out[row] = weight;
    }
  }
}

}  // namespace evenkeel
