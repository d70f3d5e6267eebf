#include "evenkeel/pack/prefix/layout.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "base/run_copy.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "pack/position_runs.hpp"
#include "pack/row_writer.hpp"

namespace evenkeel {
namespace {

std::string text_of(PaddedShape shape) {
  return "[" + std::to_string(shape.batch) + ", " + std::to_string(shape.width) + "]";
}

constexpr std::int64_t max_places = std::numeric_limits<std::int64_t>::max();

void require_valid_shape(PaddedShape shape) {
  if (shape.batch < 0 || shape.width < 0)
    throw InputError("padded tensor", "a shape of " + text_of(shape) + " has a negative dimension");
  if (shape.batch > 0 && shape.width > max_places / shape.batch)
    throw InputError("padded tensor", "a shape of " + text_of(shape) + " has 2^63 places or more");
}

void require_inside(TokenRun run, PaddedShape shape) {
  const bool inside = run.row >= 0 && run.row < shape.batch && run.column >= 0 && run.size >= 0 &&
                      run.column <= shape.width && run.size <= shape.width - run.column;
  if (inside) return;
  if (run.size < 0) {
    throw InputError("padded row " + std::to_string(run.row),
                     "has " + std::to_string(run.size) + " tokens; a length cannot be negative");
  }
  throw InputError("padded row " + std::to_string(run.row),
                   "a run of " + format_plain_count(run.size, "token") + " starting at column " +
                       std::to_string(run.column) + " does not fit into a shape of " + text_of(shape));
}

/// The bytes of a padded tensor, addressed by row, head and column.
template <typename Byte>
class PaddedBytes {
 public:
  PaddedBytes(PaddedShape shape, RowFormat format, std::span<Byte> bytes)
      : shape_(shape), format_(format), bytes_(bytes.data()) {
    if (format.heads < 1) {
      throw InputError("heads", "is " + std::to_string(format.heads) + "; it must be at least 1");
    }
    require_bytes(bytes.size(),
                  {static_cast<std::size_t>(shape.batch), static_cast<std::size_t>(shape.width),
                   static_cast<std::size_t>(format.heads), format.row_bytes},
                  "padded rows");
  }

  [[nodiscard]] Byte* at(TokenRun run, std::int64_t head) const noexcept {
    const std::int64_t place = (run.row * format_.heads + head) * shape_.width + run.column;
    return bytes_ + bytes_of(place, format_.row_bytes);
  }

 private:
  PaddedShape shape_;
  RowFormat format_;
  Byte* bytes_;
};

/// Calls copy(from, to) for each maximal run of tokens whose places are contiguous in both lists.
template <typename Copy>
void for_each_common_run(std::span<const TokenRun> from, std::span<const TokenRun> to, Copy copy) {
  std::int64_t from_done = 0;
  std::int64_t to_done = 0;
  for (auto source = from.begin(), target = to.begin(); source != from.end();) {
    const std::int64_t size = std::min(source->size - from_done, target->size - to_done);
    copy(TokenRun{source->row, source->column + from_done, size},
         TokenRun{target->row, target->column + to_done, size});
    from_done += size;
    to_done += size;
    if (from_done == source->size) {
      ++source;
      from_done = 0;
    }
    if (to_done == target->size) {
      ++target;
      to_done = 0;
    }
  }
}

/// Calls gap(run) for every stretch of a row without tokens; a stretch may be empty. Throws InputError if the
/// tokens are not in the order of the tensor.
template <typename Gap>
void for_each_gap(const TokenPlaces& tokens, Gap gap) {
  const PaddedShape shape = tokens.shape();
  TokenPosition at;
  const auto visit_gaps_before = [&](std::int64_t row) {
    for (; at.row < row; at = {at.row + 1, 0}) gap(TokenRun{at.row, at.column, shape.width - at.column});
  };
  for (const TokenRun& run : tokens.runs()) {
    visit_gaps_before(run.row);
    if (run.row < at.row || run.column < at.column) {
      throw InputError("padded row " + std::to_string(run.row),
                       "the tokens' places are not in the order of the tensor");
    }
    gap(TokenRun{at.row, at.column, run.column - at.column});
    at.column = run.column + run.size;
  }
  visit_gaps_before(shape.batch);
}

std::vector<std::int64_t> tokens_per_row(const TokenPlaces& places) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(places.shape().batch), 0);
  for (const TokenRun& run : places.runs()) tokens[static_cast<std::size_t>(run.row)] += run.size;
  return tokens;
}

}  // namespace

TokenPlaces::TokenPlaces(const PaddedMask& mask) : shape_{mask.batch, mask.seq} {
  (void)lengths_of(mask);  // checks the shape and the entries
  const auto width = static_cast<std::size_t>(mask.seq);
  for (std::int64_t row = 0; row < mask.batch; ++row) {
    for_each_mask_run(mask.mask.subspan(static_cast<std::size_t>(row) * width, width),
                      [&](RowRange, RowRange run) {
                        append({row, run.begin, run.size()});
                      });
  }
}

TokenPlaces::TokenPlaces(std::span<const std::int64_t> lengths, std::int64_t width, PaddingSide side)
    : shape_{static_cast<std::int64_t>(lengths.size()), width} {
  require_valid_shape(shape_);
  for (std::int64_t row = 0; row < shape_.batch; ++row) {
    const std::int64_t length = lengths[static_cast<std::size_t>(row)];
    const TokenRun dense{row, 0, length};
    require_inside(dense, shape_);
    append(side == PaddingSide::right ? dense : TokenRun{row, width - length, length});
  }
}

TokenPlaces::TokenPlaces(PaddedShape shape, std::span<const TokenRun> runs) : shape_(shape) {
  require_valid_shape(shape);
  for (const TokenRun& run : runs) {
    require_inside(run, shape);
    append(run);
  }
}

void TokenPlaces::append(TokenRun run) {
  if (run.size == 0) return;
  if (run.size > max_places - size_) throw InputError("token places", "the ranges have 2^63 tokens or more");
  if (!runs_.empty() && runs_.back().row == run.row &&
      runs_.back().column + runs_.back().size == run.column) {
    runs_.back().size += run.size;
  } else {
    runs_.push_back(run);
    first_token_.push_back(size_);
  }
  size_ += run.size;
}

TokenPlaces TokenPlaces::select(std::span<const RowRange> tokens) const {
  TokenPlaces selected;
  selected.shape_ = shape_;
  for (const RowRange range : tokens) {
    if (range.begin < 0 || range.begin > range.end || range.end > size_) {
      throw InputError("token range", "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) +
                                          ") is not within the range of the tokens, [0, " +
                                          std::to_string(size_) + ")");
    }
    if (range.empty()) continue;
    const auto after = std::ranges::upper_bound(first_token_, range.begin);
    auto run = static_cast<std::size_t>(after - first_token_.begin()) - 1;
    for (std::int64_t token = range.begin; token < range.end; ++run) {
      const std::int64_t skipped = token - first_token_[run];
      const std::int64_t size = std::min(runs_[run].size - skipped, range.end - token);
      selected.append({runs_[run].row, runs_[run].column + skipped, size});
      token += size;
    }
  }
  return selected;
}

std::vector<TokenPosition> TokenPlaces::positions() const {
  std::vector<TokenPosition> positions;
  positions.reserve(static_cast<std::size_t>(size_));
  for (const TokenRun& run : runs_) {
    for (std::int64_t i = 0; i < run.size; ++i) positions.push_back({run.row, run.column + i});
  }
  return positions;
}

std::vector<std::uint8_t> TokenPlaces::mask() const {
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(shape_.batch * shape_.width), 0);
  for (const TokenRun& run : runs_) {
    std::fill_n(mask.begin() + run.row * shape_.width + run.column, run.size, std::uint8_t{1});
  }
  return mask;
}

TokenPlaces padded_to_longest(std::span<const std::int64_t> lengths, PaddingSide side) {
  const std::int64_t longest = lengths.empty() ? 0 : *std::ranges::max_element(lengths);
  return {lengths, longest, side};
}

void require_same_rows(const TokenPlaces& from, const TokenPlaces& to) {
  const std::vector<std::int64_t> source = tokens_per_row(from);
  const std::vector<std::int64_t> target = tokens_per_row(to);
  if (source.size() != target.size()) {
    throw InputError("padding conversion", format_there_are(std::ssize(source), "source row") + " and " +
                                               format_plain_count(std::ssize(target), "target row") +
                                               "; the two numbers must be equal");
  }
  for (std::size_t row = 0; row < source.size(); ++row) {
    if (source[row] == target[row]) continue;
    throw InputError("padding conversion",
                     "row " + std::to_string(row) + " has " + format_plain_count(source[row], "token") +
                         " in the source, but " + format_plain_count(target[row], "place") +
                         " in the target; the two numbers must be equal");
  }
}

void move_tokens(const TokenPlaces& from, const TokenPlaces& to, RowFormat format,
                 std::span<const std::byte> source, std::span<std::byte> target) {
  if (from.size() != to.size()) {
    throw InputError("token places", format_plain_count(from.size(), "token") + " cannot be moved to " +
                                         format_plain_count(to.size(), "place"));
  }
  const PaddedBytes<const std::byte> read(from.shape(), format, source);
  const PaddedBytes<std::byte> write(to.shape(), format, target);
  if (format.row_bytes == 0) return;
  RunCopier copy(bytes_of(from.size() * format.heads, format.row_bytes));
  for_each_common_run(from.runs(), to.runs(), [&](TokenRun out_of, TokenRun into) {
    const std::size_t bytes = bytes_of(out_of.size, format.row_bytes);
    for (std::int64_t head = 0; head < format.heads; ++head) {
      copy(write.at(into, head), read.at(out_of, head), bytes);
    }
  });
}

void fill_padding(const TokenPlaces& tokens, RowFormat format, std::span<const std::byte> pad_row,
                  std::span<std::byte> target) {
  const PaddedBytes<std::byte> write(tokens.shape(), format, target);
  const RowFill fill(pad_row, format.row_bytes);
  for_each_gap(tokens, [&](TokenRun gap) {
    for (std::int64_t head = 0; head < format.heads; ++head) fill(write.at(gap, head), gap.size);
  });
}

}  // namespace evenkeel
