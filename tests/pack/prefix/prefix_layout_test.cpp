#include "evenkeel/pack/prefix/layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "pack/prefix/arbitrary_groups.hpp"
#include "support/error_message.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::message_of;
using Entries = std::vector<std::uint8_t>;

/// One group is shorter than the other one and therefore has padding.
PrefixGroups uneven_groups() {
  return PrefixGroups(GroupInfo{{2, 1, 2}, {1, 5}});
}

TEST(PrefixLayout, puts_a_prefix_and_its_suffixes_in_one_row_without_gaps) {
  const PrefixLayout layout(uneven_groups());
  EXPECT_EQ(layout.grouped().shape(), (PaddedShape{2, 6}));
  EXPECT_THAT(layout.grouped().mask(), ElementsAre(1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(layout.prefix().source.mask(), ElementsAre(1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(layout.suffix().source.mask(), ElementsAre(0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1));
}

TEST(PrefixLayout, pads_prefixes_left_and_suffixes_right_whatever_the_grouped_padding) {
  for (const PaddingSide side : {PaddingSide::left, PaddingSide::right}) {
    const PrefixLayout layout(uneven_groups(), side);
    EXPECT_EQ(layout.prefix().target.shape(), (PaddedShape{2, 2}));
    EXPECT_THAT(layout.prefix().target.mask(), ElementsAre(1, 1, 0, 1));
    EXPECT_EQ(layout.suffix().target.shape(), (PaddedShape{3, 5}));
    EXPECT_THAT(layout.suffix().target.mask(), ElementsAre(1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1));
  }
}

// The rule of the document: the responses to a prompt share one starting id and all start at the length of
// the prefix.
TEST(PrefixLayout, positions_of_suffixes_continue_from_their_prefix) {
  EXPECT_THAT(PrefixLayout(PrefixGroups(GroupInfo{{3, 2, 1}, {2, 4}})).position_ids(),
              ElementsAre(0, 1, 2, 3, 4, 3, 0, 1, 2, 3, 4, 5));
}

TEST(PrefixLayout, counts_positions_past_left_padding_and_past_holes) {
  EXPECT_THAT(PrefixLayout(uneven_groups(), PaddingSide::left).position_ids(-1),
              ElementsAre(-1, 0, 1, 2, 2, 3, 0, 1, 2, 3, 4, 5));
  const PrefixGroups one(GroupInfo{{2, 1, 2}});
  EXPECT_THAT(PrefixLayout(one, {1, 7, Entries{1, 0, 1, 1, 1, 0, 1}}).position_ids(),
              ElementsAre(0, 0, 1, 2, 2, 0, 3));
}

// verl's own function ignores the padding mode: it gives row 0 as 0 1 0, with mask 0 1 1.
TEST(PrefixLayout, respects_left_padding_where_the_reference_does_not) {
  const PrefixLayout layout(PrefixGroups(GroupInfo{{1, 1}, {1, 2}}), PaddingSide::left);
  EXPECT_THAT(layout.grouped().mask(), ElementsAre(0, 1, 1, 1, 1, 1));
  EXPECT_THAT(layout.position_ids(), ElementsAre(0, 0, 1, 0, 1, 2));
}

TEST(PrefixLayout, masks_the_keys_of_prefix_and_of_suffix_attention) {
  const PrefixLayout layout(two_groups());
  EXPECT_THAT(layout.prefix_attention_mask(), ElementsAre(1, 1, 1, 0, 1, 1));
  EXPECT_EQ(layout.suffix_keys().target.shape(), (PaddedShape{3, 7}));
  EXPECT_THAT(layout.suffix_attention_mask(),
              ElementsAre(1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1));
}

TEST(PrefixLayout, repeats_the_keys_of_a_prefix_for_each_suffix) {
  const TokenPlaces keys = PrefixLayout(PrefixGroups(GroupInfo{{2, 1, 1}})).suffix_keys().source;
  EXPECT_THAT(keys.positions(), ElementsAre(TokenPosition{0, 0}, TokenPosition{0, 1}, TokenPosition{0, 2},
                                            TokenPosition{0, 0}, TokenPosition{0, 1}, TokenPosition{0, 3}));
}

TEST(PrefixLayout, refuses_a_mask_with_another_number_of_tokens_or_groups) {
  const PrefixGroups groups(GroupInfo{{2, 1}, {1, 1}});
  const auto made = [&](const PaddedMask& mask) { return [&] { PrefixLayout(groups, mask); }; };
  const Entries too_few{1, 1, 0, 1, 1, 0};
  EXPECT_THAT(message_of(made({2, 3, too_few})), HasSubstr("row 0 has 2 ones; prefix group 0 has 3 tokens"));
  // The total is correct, but a row is not.
  const Entries swapped{1, 1, 0, 1, 1, 1};
  EXPECT_THAT(message_of(made({2, 3, swapped})), HasSubstr("row 0 has 2 ones"));
  EXPECT_THAT(message_of(made({1, 3, Entries(3, 1)})), HasSubstr("has 1 row; it must have 2"));
}

TEST(SplitOutput, with_no_prefix_token_included_is_plain_ungrouping) {
  const PrefixLayout layout(two_groups());
  const PrefixSplit split = layout.split(0);
  EXPECT_EQ(split.prefix, layout.prefix());
  EXPECT_EQ(split.suffix, layout.suffix());
}

TEST(SplitOutput, copies_the_last_prefix_tokens_to_every_suffix) {
  const PrefixSplit split = PrefixLayout(two_groups()).split(2);
  EXPECT_EQ(split.prefix.target.shape(), (PaddedShape{2, 1}));
  EXPECT_THAT(split.prefix.target.mask(), ElementsAre(1, 0));
  EXPECT_EQ(split.suffix.target.shape(), (PaddedShape{3, 6}));
  const std::vector<RowRange> row_of_suffix_1{{4, 7}};
  EXPECT_THAT(split.suffix.source.select(row_of_suffix_1).positions(),
              ElementsAre(TokenPosition{0, 1}, TokenPosition{0, 2}, TokenPosition{0, 5}));
}

// With 2 tokens, the reference silently joins only one column to a prefix of 1.
TEST(SplitOutput, of_more_tokens_than_a_prefix_has_is_an_error_that_names_the_group) {
  EXPECT_THAT(message_of([] {
                (void)PrefixLayout(PrefixGroups(GroupInfo{{1, 1}})).split(2);
              }),
              HasSubstr("is 2, but the prefix of group 0 has only 1 token"));
  EXPECT_THAT(message_of([] {
                (void)PrefixLayout(PrefixGroups(GroupInfo{{2, 1}, {1, 1}})).split(2);
              }),
              HasSubstr("the prefix of group 1 has only 1 token"));
  EXPECT_NO_THROW((void)PrefixLayout(PrefixGroups(GroupInfo{{2, 1}, {2, 1}})).split(2));
}

TEST(SplitOutput, pads_short_prefixes_on_request) {
  const PrefixSplit short_one =
      PrefixLayout(PrefixGroups(GroupInfo{{1, 1}, {2, 1}})).split(2, ShortPrefix::pad);
  EXPECT_THAT(short_one.suffix.target.mask(), ElementsAre(0, 1, 1, 1, 1, 1));
  const PrefixSplit all_short = PrefixLayout(PrefixGroups(GroupInfo{{1, 1}})).split(3, ShortPrefix::pad);
  EXPECT_EQ(all_short.prefix.target.shape(), (PaddedShape{1, 0}));
  EXPECT_THAT(all_short.suffix.target.mask(), ElementsAre(0, 0, 1, 1));
}

TEST(SplitOutput, refuses_a_negative_and_an_absurd_number_of_tokens) {
  const PrefixLayout layout(two_groups());
  EXPECT_THROW((void)layout.split(-1), InputError);
  EXPECT_THROW((void)layout.split(std::numeric_limits<std::int64_t>::max(), ShortPrefix::pad), LimitError);
}

RC_GTEST_PROP(PrefixLayout, names_every_token_once, ()) {
  const PrefixLayout layout = arbitrary_prefix_layout();
  Entries named(layout.grouped().mask().size(), 0);
  for (const TokenPlaces* places : {&layout.prefix().source, &layout.suffix().source}) {
    for (const TokenPosition& at : places->positions()) {
      ++named[static_cast<std::size_t>(at.row * layout.grouped().shape().width + at.column)];
    }
  }
  RC_ASSERT(named == layout.grouped().mask());
}

RC_GTEST_PROP(PrefixLayout, position_ids_are_those_of_a_sample_on_its_own, ()) {
  const PrefixLayout layout = arbitrary_prefix_layout();
  const auto positions = layout.position_ids(-1);
  const TokenMap keys = layout.suffix_keys();
  const auto grouped = keys.source.positions();
  const auto alone = keys.target.positions();
  const std::int64_t longest_prefix = layout.prefix().target.shape().width;
  std::vector<std::int64_t> prefix_of;
  for (std::int64_t g = 0; g < layout.groups().size(); ++g) {
    prefix_of.resize(static_cast<std::size_t>(layout.groups().suffixes_of(g).end), layout.groups().prefix(g));
  }
  for (std::size_t t = 0; t < grouped.size(); ++t) {
    const std::int64_t start = longest_prefix - prefix_of[static_cast<std::size_t>(alone[t].row)];
    const std::int64_t at = grouped[t].row * layout.grouped().shape().width + grouped[t].column;
    RC_ASSERT(positions[static_cast<std::size_t>(at)] == alone[t].column - start);
  }
}

}  // namespace
}  // namespace evenkeel
