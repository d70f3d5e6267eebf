#pragma once

#include <cstddef>
#include <span>

#include "evenkeel/pack/prefix/layout.hpp"

namespace evenkeel::testing_support {

using Source = std::span<const std::byte>;
using Target = std::span<std::byte>;

/// Moves the map's tokens to the target, and fills all other places of the target with padding.
inline void move_and_pad(const TokenMap& map, RowFormat format, Source source, Source pad_row,
                         Target target) {
  move_tokens(map.source, map.target, format, source, target);
  fill_padding(map.target, format, pad_row, target);
}

/// Combines the prefix tensor [b, heads, sp] and the suffix tensor [n, heads, ss] into the grouped tensor
/// [b, heads, s], as PrefixGrouper does.
inline void group(const PrefixLayout& layout, RowFormat format, Source prefix, Source suffix, Source pad_row,
                  Target grouped) {
  move_tokens(layout.prefix().target, layout.prefix().source, format, prefix, grouped);
  move_tokens(layout.suffix().target, layout.suffix().source, format, suffix, grouped);
  fill_padding(layout.grouped(), format, pad_row, grouped);
}

/// Splits a grouped tensor, the inverse of group().
inline void ungroup(const PrefixLayout& layout, RowFormat format, Source grouped, Source pad_row,
                    Target prefix, Target suffix) {
  move_and_pad(layout.prefix(), format, grouped, pad_row, prefix);
  move_and_pad(layout.suffix(), format, grouped, pad_row, suffix);
}

}  // namespace evenkeel::testing_support
