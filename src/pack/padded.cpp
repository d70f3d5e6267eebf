#include "evenkeel/pack/padded.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "base/list_checks.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "pack/length_checks.hpp"
#include "pack/position_runs.hpp"
#include "pack/row_writer.hpp"

namespace evenkeel {
namespace {

void require_valid_mask_shape(const PaddedMask& mask) {
  const auto entries = static_cast<std::int64_t>(mask.mask.size());
  // Divide instead of multiplying, since the product could overflow for an invalid shape.
  const bool fits =
      mask.batch >= 0 && mask.seq >= 0 &&
      (mask.seq == 0 ? entries == 0 : entries % mask.seq == 0 && entries / mask.seq == mask.batch);
  if (fits) return;
  throw InputError("padding mask", "has " + format_plain_count(entries, "entry", "entries") +
                                       " for a shape of [" + std::to_string(mask.batch) + ", " +
                                       std::to_string(mask.seq) + "]");
}

[[noreturn]] void reject_entry(std::span<const std::uint8_t> mask) {
  const auto wrong = std::ranges::find_if(mask, [](std::uint8_t entry) { return entry > 1; });
  throw InputError(
      "padding mask",
      "entry " + std::to_string(wrong - mask.begin()) + " (counted over all rows) is neither 0 nor 1",
      "Set tokens to 1 and padding to 0");
}

/// Calls visit(row, entries) for each row of the mask after checking that the row contains only 0 and 1.
/// Throws InputError if a row contains another value, or if the mask does not have its declared shape.
template <typename Visit>
void for_each_checked_row(const PaddedMask& mask, Visit visit) {
  require_valid_mask_shape(mask);
  const auto seq = static_cast<std::size_t>(mask.seq);
  for (std::int64_t row = 0; row < mask.batch; ++row) {
    const auto entries = mask.mask.subspan(static_cast<std::size_t>(row) * seq, seq);
    std::uint8_t all = 0;
    for (const std::uint8_t entry : entries) all |= entry;
    if (all > 1) reject_entry(mask.mask);
    visit(row, entries);
  }
}

/// Runs of ones in a mask, as ranges of the mask's entries.
struct MaskRuns {
  std::vector<RowRange> runs;
  std::int64_t tokens = 0;
};

MaskRuns runs_of(const PaddedMask& mask) {
  MaskRuns found;
  for_each_checked_row(mask, [&](std::int64_t row, std::span<const std::uint8_t> entries) {
    for_each_mask_run(entries, [&](RowRange, RowRange run) {
      if (run.empty()) return;
      found.runs.push_back({row * mask.seq + run.begin, row * mask.seq + run.end});
      found.tokens += run.size();
    });
  });
  return found;
}

void require_valid_kept_rows(std::int64_t index, RowRange kept, std::int64_t length, std::int64_t seq) {
  const std::string where = "sequence " + std::to_string(index);
  if (length < 0 || kept.begin < -1 || kept.begin > kept.end || kept.end > length) {
    throw InputError(where, "rows [" + std::to_string(kept.begin) + ", " + std::to_string(kept.end) +
                                ") are not within its length of " + std::to_string(length));
  }
  // If kept.begin is negative, do not compute the difference of the ends, which could overflow.
  if (kept.begin < 0 ? kept.end >= seq && kept.end >= 0 : kept.size() > seq) {
    throw InputError(where, "rows [" + std::to_string(kept.begin) + ", " + std::to_string(kept.end) +
                                ") do not fit into the padded length of " + std::to_string(seq));
  }
}

/// Precondition: lengths are not negative.
std::int64_t sum_of(std::span<const std::int64_t> lengths) {
  EVENKEEL_PRECONDITION(thorough, are_all_nonnegative(lengths), lengths.size());
  std::int64_t sum = 0;
  for (const std::int64_t length : lengths) {
    if (length > std::numeric_limits<std::int64_t>::max() - sum)
      throw InputError("ragged rows", "lengths add up to 2^63 rows or more");
    sum += length;
  }
  return sum;
}

void require_all_kept_rows_valid(std::span<const std::int64_t> lengths, std::span<const RowRange> kept,
                                 std::int64_t seq) {
  if (seq < 0) throw InputError("padded length", "is " + std::to_string(seq) + "; it must be at least 0");
  if (!kept.empty() && kept.size() != lengths.size()) {
    throw InputError("kept rows", format_there_are(std::ssize(kept), "range") + " for " +
                                      format_plain_count(std::ssize(lengths), "sequence"));
  }
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    require_valid_kept_rows(static_cast<std::int64_t>(i), kept.empty() ? RowRange{0, lengths[i]} : kept[i],
                            lengths[i], seq);
  }
}

}  // namespace

std::vector<std::int64_t> lengths_of(const PaddedMask& mask) {
  std::vector<std::int64_t> lengths;
  for_each_checked_row(mask, [&](std::int64_t, std::span<const std::uint8_t> entries) {
    lengths.push_back(std::accumulate(entries.begin(), entries.end(), std::int64_t{0}));
  });
  return lengths;
}

void remove_padding(const PaddedMask& mask, std::size_t row_bytes, std::span<const std::byte> padded,
                    std::span<std::byte> ragged) {
  const MaskRuns tokens = runs_of(mask);
  require_bytes(ragged.size(), {static_cast<std::size_t>(tokens.tokens), row_bytes}, "ragged rows");
  require_bytes(padded.size(), {mask.mask.size(), row_bytes}, "padded rows");
  if (ragged.empty()) return;
  const RowFill no_fill({}, row_bytes);
  RowWriter writer(ragged.data(), ragged.size(), no_fill, Sources::scattered);
  for (const RowRange run : tokens.runs) {
    writer.copy(padded.data() + bytes_of(run.begin, row_bytes), bytes_of(run.size(), row_bytes));
  }
}

void restore_padding(const PaddedMask& mask, std::size_t row_bytes, std::span<const std::byte> ragged,
                     std::span<const std::byte> pad_row, std::span<std::byte> padded) {
  const MaskRuns tokens = runs_of(mask);
  require_bytes(ragged.size(), {static_cast<std::size_t>(tokens.tokens), row_bytes}, "ragged rows");
  require_bytes(padded.size(), {mask.mask.size(), row_bytes}, "padded rows");
  const RowFill fill(pad_row, row_bytes);
  if (padded.empty()) return;
  RowWriter writer(padded.data(), padded.size(), fill, Sources::consecutive);
  const std::byte* next = ragged.data();
  std::int64_t covered = 0;
  for (const RowRange run : tokens.runs) {
    writer.pad(run.begin - covered);
    const std::size_t bytes = bytes_of(run.size(), row_bytes);
    writer.copy(next, bytes);
    next += bytes;
    covered = run.end;
  }
  writer.pad(static_cast<std::int64_t>(mask.mask.size()) - covered);
}

void pad_right(std::span<const std::int64_t> lengths, std::span<const RowRange> kept, std::int64_t seq,
               std::size_t row_bytes, std::span<const std::byte> ragged, std::span<const std::byte> pad_row,
               std::span<std::byte> padded) {
  require_all_kept_rows_valid(lengths, kept, seq);
  require_bytes(ragged.size(), {static_cast<std::size_t>(sum_of(lengths)), row_bytes}, "ragged rows");
  require_bytes(padded.size(), {lengths.size(), static_cast<std::size_t>(seq), row_bytes}, "padded rows");
  const RowFill fill(pad_row, row_bytes);
  if (padded.empty()) return;
  RowWriter writer(padded.data(), padded.size(), fill, Sources::consecutive);
  const std::byte* sequence = ragged.data();
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const RowRange range = kept.empty() ? RowRange{0, lengths[i]} : kept[i];
    const RowRange copied{std::max(range.begin, std::int64_t{0}), std::max(range.end, std::int64_t{0})};
    writer.pad(range.size() - copied.size());
    writer.copy(sequence + bytes_of(copied.begin, row_bytes), bytes_of(copied.size(), row_bytes));
    writer.pad(seq - range.size());
    sequence += bytes_of(lengths[i], row_bytes);
  }
}

std::vector<RowRange> response_prediction_rows(std::span<const std::int64_t> lengths,
                                               std::span<const std::int64_t> prompt_lengths) {
  if (lengths.size() != prompt_lengths.size()) {
    throw InputError("prompt lengths", format_there_are(std::ssize(prompt_lengths), "prompt length") +
                                           " for " + format_plain_count(std::ssize(lengths), "sequence"));
  }
  std::vector<RowRange> rows;
  rows.reserve(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    require_valid_prompt(static_cast<std::int64_t>(i), prompt_lengths[i], lengths[i]);
    rows.push_back({prompt_lengths[i] - 1, lengths[i] - 1});
  }
  return rows;
}

Column pad_field(const RaggedBatch& batch, std::string_view name, std::int64_t seq,
                 std::span<const std::byte> pad_row) {
  const Column& field = batch.at(name);
  if (field.spec().rule().is_per_sample()) {
    throw InputError("field '" + std::string(name) + "'",
                     "has one row per sample, so there is nothing to pad");
  }
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < batch.size(); ++i) lengths.push_back(batch.rows_of(field, i).size());
  FieldSpec spec = field.spec();
  spec.kind = FieldKind::sample;
  spec.trailing = {seq};
  spec.trailing.insert(spec.trailing.end(), field.spec().trailing.begin(), field.spec().trailing.end());
  Column padded(std::move(spec), batch.size());
  pad_right(lengths, {}, seq, field.row_bytes(), field.bytes(), pad_row, padded.bytes());
  return padded;
}

}  // namespace evenkeel
