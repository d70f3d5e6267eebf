#pragma once

#include <cstddef>
#include <span>

#include "evenkeel/pack/prefix/layout.hpp"

namespace evenkeel {

/// The operations of PrefixGrouper on bytes: any dtype, any trailing dimensions (row_bytes), and heads in
/// front of the sequence where a format has them. All are local and deterministic; places without a token get
/// `pad_row` (row_bytes bytes; empty means zeros); work is proportional to the bytes written. Buffers must
/// not overlap and must have the bytes that shape and format ask for: InputError otherwise.

/// A padded tensor [batch, seq, row_bytes] and the mask that tells its tokens, whatever side the padding is
/// on. Owns nothing.
struct MaskedRows {
  PaddedMask mask;
  std::span<const std::byte> rows;
};

/// Puts padded prefixes [b, any] and padded suffixes [n, any] together as the grouped tensor [b, s]. Throws
/// InputError when a mask's row has another number of ones than its prefix or suffix has tokens.
void concat_input(const PrefixLayout& layout, const MaskedRows& prefix, const MaskedRows& suffix,
                  std::size_t row_bytes, std::span<const std::byte> pad_row, std::span<std::byte> grouped);

/// The prefix tensor [b, heads, sp] and the suffix tensor [n, heads, ss] -> the grouped one [b, heads, s].
void group(const PrefixLayout& layout, RowFormat format, std::span<const std::byte> prefix,
           std::span<const std::byte> suffix, std::span<const std::byte> pad_row,
           std::span<std::byte> grouped);

/// The inverse of group: queries, keys and values for attention over prefixes and over suffixes.
void ungroup(const PrefixLayout& layout, RowFormat format, std::span<const std::byte> grouped,
             std::span<const std::byte> pad_row, std::span<std::byte> prefix, std::span<std::byte> suffix);

/// The grouped tensor -> prefixes and suffixes as PrefixLayout::split has them. Their shapes are those of
/// split.prefix.target and split.suffix.target, and their masks those places' masks.
void split_output(const PrefixSplit& split, RowFormat format, std::span<const std::byte> grouped,
                  std::span<const std::byte> pad_row, std::span<std::byte> prefix,
                  std::span<std::byte> suffix);

/// Moves the tokens of a padded tensor to other places, row by row: from.mask() padding to to.mask() padding.
/// For one side, `to` is padded_to_longest(lengths, side); for a mask, TokenPlaces(mask). Throws InputError
/// when a row has another number of tokens on the two sides.
void convert_padding(const TokenPlaces& from, const TokenPlaces& to, RowFormat format,
                     std::span<const std::byte> source, std::span<const std::byte> pad_row,
                     std::span<std::byte> target);

}  // namespace evenkeel
