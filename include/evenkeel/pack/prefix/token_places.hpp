#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/row_range.hpp"
#include "evenkeel/pack/padded_input.hpp"

namespace evenkeel {

/// The first two dimensions of a padded tensor.
struct PaddedShape {
  std::int64_t batch = 0;
  std::int64_t width = 0;

  friend constexpr bool operator==(PaddedShape, PaddedShape) = default;
};

/// Where the padding of a row stands.
enum class PaddingSide : std::uint8_t { right, left };

/// One token's place in a padded tensor.
struct TokenPosition {
  std::int64_t row = 0;
  std::int64_t column = 0;

  friend constexpr bool operator==(TokenPosition, TokenPosition) = default;
};

/// Neighbouring tokens of one row.
struct TokenRun {
  std::int64_t row = 0;
  std::int64_t column = 0;  ///< of the first
  std::int64_t size = 0;    ///< tokens

  friend constexpr bool operator==(TokenRun, TokenRun) = default;
};

/// Where tokens 0..size()-1 stand in a padded [batch, width] tensor, as maximal runs in token order: an index
/// list that takes memory for every run, not for every token. Two of them with equally many tokens are a
/// copy, in either direction. A value type.
///
/// Example: mask {{0, 1, 1}, {1, 0, 1}} has runs (row 0, column 1, size 2), (1, 0, 1) and (1, 2, 1).
class TokenPlaces {
 public:
  TokenPlaces() = default;
  /// Where the mask is 1, row after row. Throws InputError as lengths_of does. O(batch * width).
  explicit TokenPlaces(const PaddedMask& mask);
  /// Dense rows of these lengths, padded on one side up to `width`. Throws InputError when a length is
  /// negative or does not fit. O(rows).
  TokenPlaces(std::span<const std::int64_t> lengths, std::int64_t width, PaddingSide side);
  /// Any runs, in token order; empty ones are left out and neighbours merged. Throws InputError when one
  /// leaves the shape.
  TokenPlaces(PaddedShape shape, std::span<const TokenRun> runs);

  [[nodiscard]] PaddedShape shape() const noexcept { return shape_; }
  /// Tokens.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<const TokenRun> runs() const noexcept { return runs_; }

  /// The places of the tokens in these ranges, in the order of the ranges; a token may be named many times.
  /// Throws InputError when a range leaves 0..size(). Each range costs O(log runs) and the runs it touches.
  [[nodiscard]] TokenPlaces select(std::span<const RowRange> tokens) const;

  /// The places one by one. O(size).
  [[nodiscard]] std::vector<TokenPosition> positions() const;
  /// [batch, width], row-major: 1 where a token stands. O(batch * width).
  [[nodiscard]] std::vector<std::uint8_t> mask() const;

  friend bool operator==(const TokenPlaces&, const TokenPlaces&) = default;

 private:
  void append(TokenRun run);

  PaddedShape shape_;
  std::int64_t size_ = 0;
  std::vector<TokenRun> runs_;
  std::vector<std::int64_t> first_token_;  // of each run
};

/// Dense rows padded to the longest of them.
[[nodiscard]] TokenPlaces padded_to_longest(std::span<const std::int64_t> lengths, PaddingSide side);

/// Throws InputError unless the two have equally many rows, and equally many tokens in each. O(runs).
void require_same_rows(const TokenPlaces& from, const TokenPlaces& to);

/// What one place holds, in tensors [batch, heads, width, row_bytes]. Heads are for tensors that have them in
/// front of the sequence; dimensions behind it are part of row_bytes.
struct RowFormat {
  std::size_t row_bytes = 0;
  std::int64_t heads = 1;
};

/// The two copy kernels of prefix groups. They move bytes in the runs' lengths and know no dtype. Both are
/// local and deterministic, work is proportional to the bytes written, and both throw InputError when a
/// buffer has another size than its shape and format ask for.

/// Copies token t from its place in `source` to its place in `target`, for all t and heads; other places of
/// the target stay untouched. Throws InputError when the numbers of tokens differ. The
/// buffers must not overlap.
void move_tokens(const TokenPlaces& from, const TokenPlaces& to, RowFormat format,
                 std::span<const std::byte> source, std::span<std::byte> target);

/// Fills all places where no token stands with `pad_row` (empty: zeros). Throws InputError when the places
/// are not in the order of the tensor.
void fill_padding(const TokenPlaces& tokens, RowFormat format, std::span<const std::byte> pad_row,
                  std::span<std::byte> target);

}  // namespace evenkeel
