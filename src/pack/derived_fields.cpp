#include "pack/derived_fields.hpp"

#include <algorithm>
#include <string>

#include "evenkeel/base/error.hpp"
#include "pack/packed_walk.hpp"
#include "pack/position_runs.hpp"
#include "pack/prompt_lengths.hpp"

namespace evenkeel {
namespace {

template <typename T>
std::span<T> rows(std::span<T> local, std::int64_t begin, std::int64_t count) {
  return local.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
}

std::int64_t count_runs(const PackedLayout& layout, CpRank rank) {
  std::int64_t count = 0;
  walk_packed_rows(
      layout, rank, [&](const PackedRun&) { ++count; }, pass_by);
  return count;
}

}  // namespace

void derive_position_ids(const PackedLayout& layout, CpRank rank, std::span<std::int64_t> out) {
  fill_position_ids(
      layout, rank, [](std::int64_t) { return std::int64_t{0}; }, out);
}

void derive_labels(const PackedLayout& layout, CpRank rank, std::span<const std::int64_t> local_tokens,
                   std::span<const std::int64_t> halo, std::int64_t label_pad, std::span<std::int64_t> out) {
  require_entries(local_tokens.size(), layout.local_rows(), "local tokens");
  require_entries(out.size(), layout.local_rows(), "labels");
  require_entries(halo.size(), count_runs(layout, rank), "halo tokens");
  auto after_run = halo.begin();
  walk_packed_rows(
      layout, rank,
      [&](const PackedRun& run) {
        const std::int64_t within = run.sequence.size() - 1;
        std::ranges::copy(rows(local_tokens, run.local + 1, within), rows(out, run.local, within).begin());
        const bool ends_sequence = run.sequence.end == layout.length(run.index);
        out[static_cast<std::size_t>(run.local + within)] = ends_sequence ? label_pad : *after_run;
        ++after_run;
      },
      [&](RowRange pad) { std::ranges::fill(rows(out, pad.begin, pad.size()), label_pad); });
}

void derive_loss_mask(const PackedLayout& layout, CpRank rank, std::span<const std::int64_t> prompt_lengths,
                      std::span<float> out) {
  require_entries(prompt_lengths.size(), layout.size(), "prompt lengths");
  require_entries(out.size(), layout.local_rows(), "loss mask");
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    require_prompt(i, prompt_lengths[static_cast<std::size_t>(i)], layout.length(i));
  }
  std::ranges::fill(out, 0.0F);
  const auto mark_response = [&](const PackedRun& run) {
    const std::int64_t prompt = prompt_lengths[static_cast<std::size_t>(run.index)];
    const std::int64_t begin = std::max(run.sequence.begin, prompt - 1);
    const std::int64_t end = std::min(run.sequence.end, layout.length(run.index) - 1);
    if (begin >= end) return;
    std::ranges::fill(rows(out, run.local + begin - run.sequence.begin, end - begin), 1.0F);
  };
  walk_packed_rows(layout, rank, mark_response, pass_by);
}

void derive_loss_weights(const PackedLayout& layout, std::span<const double> token_weights,
                         std::span<const std::uint8_t> mask, std::span<float> out) {
  require_entries(mask.size(), layout.local_rows(), "loss mask");
  require_entries(out.size(), layout.local_rows(), "loss weights");
  if (std::ssize(token_weights) > layout.size()) {
    throw InputError("token weights", "there are " + std::to_string(token_weights.size()) + " for " +
                                          std::to_string(layout.size()) + " sequences");
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
