#include "pack/prefix/tensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pack/arbitrary.hpp"
#include "pack/prefix/arbitrary_groups.hpp"
#include "pack/tensor_bytes.hpp"
#include "support/error_message.hpp"

namespace evenkeel {
namespace {

using Bytes = std::vector<std::byte>;
using Entries = std::vector<std::uint8_t>;
using Ids = std::vector<std::int64_t>;
using test::tensor_bytes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::message_of;

std::span<const std::byte> bytes_of(const Ids& ids) {
  return std::as_bytes(std::span(ids));
}

std::span<std::byte> writable(Ids& ids) {
  return std::as_writable_bytes(std::span(ids));
}

/// Rows of 0, 1, 2, 4, 8 or 20 bytes and up to three heads: every dtype and some trailing shapes.
RowFormat arbitrary_format() {
  return {*rc::gen::element<std::size_t>(0, 1, 2, 4, 8, 20), *rc::gen::inRange(1, 4)};
}

/// A grouped tensor whose padding is zero.
Bytes arbitrary_grouped(const PrefixLayout& layout, RowFormat format) {
  Bytes grouped = arbitrary_bytes(1, tensor_bytes(layout.grouped(), format));
  fill_padding(layout.grouped(), format, {}, grouped);
  return grouped;
}

struct Parts {
  Bytes prefix, suffix;
};

Parts ungrouped(const PrefixLayout& layout, RowFormat format, const Bytes& grouped) {
  Parts parts{Bytes(tensor_bytes(layout.prefix().target, format)),
              Bytes(tensor_bytes(layout.suffix().target, format))};
  ungroup(layout, format, grouped, {}, parts.prefix, parts.suffix);
  return parts;
}

TEST(ConcatInput, joins_prefixes_and_suffixes_and_drops_their_padding) {
  const PrefixLayout layout(PrefixGroups(GroupInfo{{2, 2, 1}, {1, 1}}));
  const Ids prefix{0, 11, 12, 21, 0, 0};
  const Entries prefix_mask{0, 1, 1, 1, 0, 0};
  const Ids suffix{31, 0, 32, 0, 41, 0, 0, 51, 0};
  const Entries suffix_mask{1, 0, 1, 0, 1, 0, 0, 1, 0};
  const std::int64_t pad = -7;
  Ids grouped(2 * 5);
  concat_input(layout, {{2, 3, prefix_mask}, bytes_of(prefix)}, {{3, 3, suffix_mask}, bytes_of(suffix)},
               sizeof(std::int64_t), std::as_bytes(std::span(&pad, 1)), writable(grouped));
  EXPECT_THAT(grouped, ElementsAre(11, 12, 31, 32, 41, 21, 51, -7, -7, -7));
}

TEST(ConcatInput, refuses_masks_that_do_not_belong_to_the_groups) {
  const PrefixLayout layout(PrefixGroups(GroupInfo{{2, 1}, {1, 1}}));
  const Ids two_by_two(4);
  const Ids ones_rows(2);
  const Entries ones(2, 1);
  const Entries swapped{1, 0, 1, 1};  // the total is right, the rows are not
  const Entries right{1, 1, 0, 1};
  Ids grouped(2 * 3);
  const auto joined = [&](const Entries& prefix_mask, const Entries& suffix_mask) {
    return [&] {
      concat_input(layout, {{2, 2, prefix_mask}, bytes_of(two_by_two)},
                   {{2, 1, suffix_mask}, bytes_of(ones_rows)}, sizeof(std::int64_t), {}, writable(grouped));
    };
  };
  EXPECT_NO_THROW(joined(right, ones)());
  EXPECT_THAT(message_of(joined(swapped, ones)), HasSubstr("prefix mask: row 0 has 1 ones"));
  EXPECT_THAT(message_of(joined(right, {1, 0})), HasSubstr("suffix mask: row 1 has 0 ones"));
}

TEST(SplitOutput, of_one_prefix_token_puts_what_predicts_each_suffix_token_in_order) {
  const PrefixLayout layout(PrefixGroups(GroupInfo{{2, 2, 1}}));
  const PrefixSplit split = layout.split(1);
  const Ids grouped{10, 11, 20, 21, 30};
  Ids prefix(1);
  Ids suffix(2 * 3);
  split_output(split, {sizeof(std::int64_t)}, bytes_of(grouped), {}, writable(prefix), writable(suffix));
  EXPECT_THAT(prefix, ElementsAre(10));
  EXPECT_THAT(suffix, ElementsAre(11, 20, 21, 11, 30, 0));
}

TEST(SplitOutput, fills_what_a_short_prefix_lacks_with_the_pad_row) {
  const PrefixSplit split = PrefixLayout(PrefixGroups(GroupInfo{{1, 1}})).split(2, ShortPrefix::pad);
  const Ids grouped{10, 20};
  const std::int64_t pad = -1;
  Ids prefix;
  Ids suffix(3);
  split_output(split, {sizeof(std::int64_t)}, bytes_of(grouped), std::as_bytes(std::span(&pad, 1)),
               writable(prefix), writable(suffix));
  EXPECT_THAT(suffix, ElementsAre(-1, 10, 20));
}

// The document says that the shape stays; the reference's code, and this, cut to the longest row.
TEST(ConvertPadding, to_a_side_makes_the_longest_row_the_width) {
  const Entries mask{0, 1, 0, 1, 1, 0, 0, 0};
  const TokenPlaces from(PaddedMask{2, 4, mask});
  const TokenPlaces to = padded_to_longest(lengths_of({2, 4, mask}), PaddingSide::right);
  const Ids source{0, 5, 0, 6, 7, 0, 0, 0};
  Ids target(2 * 2);
  convert_padding(from, to, {sizeof(std::int64_t)}, bytes_of(source), {}, writable(target));
  EXPECT_THAT(target, ElementsAre(5, 6, 7, 0));
}

TEST(ConvertPadding, refuses_rows_with_another_number_of_tokens) {
  const Ids source(4);
  Ids target(4);
  const auto converted = [&](const Lengths& to) {
    return [&, to] {
      convert_padding(TokenPlaces(Lengths{1, 2}, 2, PaddingSide::right),
                      TokenPlaces(to, 2, PaddingSide::left), {sizeof(std::int64_t)}, bytes_of(source), {},
                      writable(target));
    };
  };
  EXPECT_NO_THROW(converted({1, 2})());
  EXPECT_THAT(message_of(converted({2, 1})), HasSubstr("row 0 has 1 tokens for 2 places"));
  EXPECT_THAT(message_of(converted({1, 1, 1})), HasSubstr("2 rows cannot become 3"));
}

RC_GTEST_PROP(Ungroup, is_undone_by_group, ()) {
  const PrefixLayout layout = arbitrary_prefix_layout();
  const RowFormat format = arbitrary_format();
  const Bytes grouped = arbitrary_grouped(layout, format);
  const Parts parts = ungrouped(layout, format, grouped);
  Bytes again(grouped.size(), std::byte{0x5a});
  group(layout, format, parts.prefix, parts.suffix, {}, again);
  RC_ASSERT(again == grouped);
}

RC_GTEST_PROP(ConcatInput, of_what_ungroup_gives_is_the_grouped_tensor_again, ()) {
  const PrefixLayout layout = arbitrary_prefix_layout();
  const RowFormat format{*rc::gen::element<std::size_t>(1, 2, 4, 8, 20)};
  const Bytes grouped = arbitrary_grouped(layout, format);
  const Parts parts = ungrouped(layout, format, grouped);
  const Entries prefix_mask = layout.prefix().target.mask();
  const Entries suffix_mask = layout.suffix().target.mask();
  const PaddedShape prefix = layout.prefix().target.shape();
  const PaddedShape suffix = layout.suffix().target.shape();
  Bytes again(grouped.size(), std::byte{0x5a});
  concat_input(layout, {{prefix.batch, prefix.width, prefix_mask}, parts.prefix},
               {{suffix.batch, suffix.width, suffix_mask}, parts.suffix}, format.row_bytes, {}, again);
  RC_ASSERT(again == grouped);
}

RC_GTEST_PROP(ConvertPadding, there_and_back_keeps_every_token, ()) {
  const Lengths lengths = group_lengths(arbitrary_groups());
  const TokenPlaces one(arbitrary_mask_of(lengths).view());
  const TokenPlaces other = *rc::gen::arbitrary<bool>() ? TokenPlaces(arbitrary_mask_of(lengths).view())
                                                        : padded_to_longest(lengths, PaddingSide::left);
  const RowFormat format = arbitrary_format();
  Bytes source = arbitrary_bytes(1, tensor_bytes(one, format));
  fill_padding(one, format, {}, source);
  Bytes there(tensor_bytes(other, format), std::byte{0x5a});
  Bytes back(source.size(), std::byte{0x5a});
  convert_padding(one, other, format, source, {}, there);
  convert_padding(other, one, format, there, {}, back);
  RC_ASSERT(back == source);
}

}  // namespace
}  // namespace evenkeel
