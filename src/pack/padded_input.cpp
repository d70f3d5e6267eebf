#include "evenkeel/pack/padded_input.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "evenkeel/base/error.hpp"
#include "mask_runs.hpp"
#include "prompt_lengths.hpp"
#include "row_fill.hpp"

namespace evenkeel {
namespace {

void require_mask_shape(const PaddedMask& mask) {
  const auto entries = static_cast<std::int64_t>(mask.mask.size());
  // Divides instead of multiplying, so that a nonsensical shape cannot overflow.
  const bool fits =
      mask.batch >= 0 && mask.seq >= 0 &&
      (mask.seq == 0 ? entries == 0 : entries % mask.seq == 0 && entries / mask.seq == mask.batch);
  if (fits) return;
  throw InputError("padding mask", "has " + std::to_string(entries) + " entries for a shape of [" +
                                       std::to_string(mask.batch) + ", " + std::to_string(mask.seq) + "]");
}

void require_zero_or_one(std::span<const std::uint8_t> mask) {
  const auto wrong = std::ranges::find_if(mask, [](std::uint8_t entry) { return entry > 1; });
  if (wrong == mask.end()) return;
  throw InputError("padding mask", "entry " + std::to_string(wrong - mask.begin()) + " is " +
                                       std::to_string(*wrong) + "; a mask holds 0 and 1 only");
}

std::int64_t num_tokens(const PaddedMask& mask) {
  const std::vector<std::int64_t> lengths = lengths_of(mask);
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

void require_kept(std::int64_t index, RowRange kept, std::int64_t length, std::int64_t seq) {
  const std::string where = "sequence " + std::to_string(index);
  if (length < 0 || kept.begin < -1 || kept.begin > kept.end || kept.end > length) {
    throw InputError(where, "rows [" + std::to_string(kept.begin) + ", " + std::to_string(kept.end) +
                                ") are not within its length of " + std::to_string(length));
  }
  if (kept.size() > seq) {
    throw InputError(where, std::to_string(kept.size()) + " rows do not fit into the padded length of " +
                                std::to_string(seq));
  }
}

void require_all_kept(std::span<const std::int64_t> lengths, std::span<const RowRange> kept,
                      std::int64_t seq) {
  if (!kept.empty() && kept.size() != lengths.size()) {
    throw InputError("kept rows", "has " + std::to_string(kept.size()) + " ranges for " +
                                      std::to_string(lengths.size()) + " sequences");
  }
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    require_kept(static_cast<std::int64_t>(i), kept.empty() ? RowRange{0, lengths[i]} : kept[i], lengths[i],
                 seq);
  }
}

}  // namespace

std::vector<std::int64_t> lengths_of(const PaddedMask& mask) {
  require_mask_shape(mask);
  require_zero_or_one(mask.mask);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(mask.batch));
  const auto seq = static_cast<std::size_t>(mask.seq);
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    const auto entries = mask.mask.subspan(row * seq, seq);
    lengths[row] = std::accumulate(entries.begin(), entries.end(), std::int64_t{0});
  }
  return lengths;
}

void remove_padding(const PaddedMask& mask, std::size_t row_bytes, std::span<const std::byte> padded,
                    std::span<std::byte> ragged) {
  require_bytes(ragged.size(), bytes_of(num_tokens(mask), row_bytes), "ragged rows");
  require_bytes(padded.size(), mask.mask.size() * row_bytes, "padded rows");
  if (ragged.empty()) return;
  std::byte* next = ragged.data();
  for_each_mask_run(mask.mask, [&](RowRange, RowRange run) {
    const std::size_t bytes = bytes_of(run.size(), row_bytes);
    std::memcpy(next, padded.data() + bytes_of(run.begin, row_bytes), bytes);
    next += bytes;
  });
}

void restore_padding(const PaddedMask& mask, std::size_t row_bytes, std::span<const std::byte> ragged,
                     std::span<const std::byte> pad_row, std::span<std::byte> padded) {
  require_bytes(ragged.size(), bytes_of(num_tokens(mask), row_bytes), "ragged rows");
  require_bytes(padded.size(), mask.mask.size() * row_bytes, "padded rows");
  const RowFill fill(pad_row, row_bytes);
  if (padded.empty()) return;
  const std::byte* next = ragged.data();
  for_each_mask_run(mask.mask, [&](RowRange gap, RowRange run) {
    fill(padded.data() + bytes_of(gap.begin, row_bytes), gap.size());
    const std::size_t bytes = bytes_of(run.size(), row_bytes);
    if (bytes == 0) return;
    std::memcpy(padded.data() + bytes_of(run.begin, row_bytes), next, bytes);
    next += bytes;
  });
}

void pad_right(std::span<const std::int64_t> lengths, std::span<const RowRange> kept, std::int64_t seq,
               std::size_t row_bytes, std::span<const std::byte> ragged, std::span<const std::byte> pad_row,
               std::span<std::byte> padded) {
  require_all_kept(lengths, kept, seq);
  const std::int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  require_bytes(ragged.size(), bytes_of(tokens, row_bytes), "ragged rows");
  require_bytes(padded.size(), lengths.size() * bytes_of(seq, row_bytes), "padded rows");
  const RowFill fill(pad_row, row_bytes);
  if (padded.empty()) return;
  const std::byte* sequence = ragged.data();
  std::byte* row = padded.data();
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const RowRange range = kept.empty() ? RowRange{0, lengths[i]} : kept[i];
    const RowRange copied{std::max(range.begin, std::int64_t{0}), std::max(range.end, std::int64_t{0})};
    const std::int64_t missing = range.size() - copied.size();
    fill(row, missing);
    const std::size_t bytes = bytes_of(copied.size(), row_bytes);
    if (bytes != 0) {
      std::memcpy(row + bytes_of(missing, row_bytes), sequence + bytes_of(copied.begin, row_bytes), bytes);
    }
    fill(row + bytes_of(range.size(), row_bytes), seq - range.size());
    sequence += bytes_of(lengths[i], row_bytes);
    row += bytes_of(seq, row_bytes);
  }
}

std::vector<RowRange> response_prediction_rows(std::span<const std::int64_t> lengths,
                                               std::span<const std::int64_t> prompt_lengths) {
  if (lengths.size() != prompt_lengths.size()) {
    throw InputError("prompt lengths", "has " + std::to_string(prompt_lengths.size()) + " entries for " +
                                           std::to_string(lengths.size()) + " sequences");
  }
  std::vector<RowRange> rows;
  rows.reserve(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    require_prompt(static_cast<std::int64_t>(i), prompt_lengths[i], lengths[i]);
    rows.push_back({prompt_lengths[i] - 1, lengths[i] - 1});
  }
  return rows;
}

}  // namespace evenkeel
