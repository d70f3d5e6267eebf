#include "pack/prefix/tensors.hpp"

#include "pack/length_checks.hpp"

namespace evenkeel {
namespace {

/// All of the target that the map can reach, and padding everywhere else.
void move_and_pad(const TokenMap& map, RowFormat format, std::span<const std::byte> source,
                  std::span<const std::byte> pad_row, std::span<std::byte> target) {
  move_tokens(map.source, map.target, format, source, target);
  fill_padding(map.target, format, pad_row, target);
}

}  // namespace

void concat_input(const PrefixLayout& layout, const MaskedRows& prefix, const MaskedRows& suffix,
                  std::size_t row_bytes, std::span<const std::byte> pad_row, std::span<std::byte> grouped) {
  require_row_lengths(prefix.mask, layout.groups().prefixes(), "prefix mask", "prefix");
  require_row_lengths(suffix.mask, layout.groups().suffixes(), "suffix mask", "suffix");
  const RowFormat format{row_bytes};
  move_tokens(TokenPlaces(prefix.mask), layout.prefix().source, format, prefix.rows, grouped);
  move_tokens(TokenPlaces(suffix.mask), layout.suffix().source, format, suffix.rows, grouped);
  fill_padding(layout.grouped(), format, pad_row, grouped);
}

void group(const PrefixLayout& layout, RowFormat format, std::span<const std::byte> prefix,
           std::span<const std::byte> suffix, std::span<const std::byte> pad_row,
           std::span<std::byte> grouped) {
  move_tokens(layout.prefix().target, layout.prefix().source, format, prefix, grouped);
  move_tokens(layout.suffix().target, layout.suffix().source, format, suffix, grouped);
  fill_padding(layout.grouped(), format, pad_row, grouped);
}

void ungroup(const PrefixLayout& layout, RowFormat format, std::span<const std::byte> grouped,
             std::span<const std::byte> pad_row, std::span<std::byte> prefix, std::span<std::byte> suffix) {
  move_and_pad(layout.prefix(), format, grouped, pad_row, prefix);
  move_and_pad(layout.suffix(), format, grouped, pad_row, suffix);
}

void split_output(const PrefixSplit& split, RowFormat format, std::span<const std::byte> grouped,
                  std::span<const std::byte> pad_row, std::span<std::byte> prefix,
                  std::span<std::byte> suffix) {
  move_and_pad(split.prefix, format, grouped, pad_row, prefix);
  move_and_pad(split.suffix, format, grouped, pad_row, suffix);
}

void convert_padding(const TokenPlaces& from, const TokenPlaces& to, RowFormat format,
                     std::span<const std::byte> source, std::span<const std::byte> pad_row,
                     std::span<std::byte> target) {
  require_same_rows(from, to);
  move_tokens(from, to, format, source, target);
  fill_padding(to, format, pad_row, target);
}

}  // namespace evenkeel
