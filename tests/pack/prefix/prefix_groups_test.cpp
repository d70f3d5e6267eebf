#include "evenkeel/pack/prefix/groups.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "evenkeel/base/error.hpp"
#include "pack/prefix/arbitrary_groups.hpp"
#include "support/error_message.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::message_of;
using Entries = std::vector<std::uint8_t>;
using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t max_tokens = std::numeric_limits<std::int32_t>::max();

TEST(PrefixGroups, may_have_different_numbers_of_suffixes) {
  const PrefixGroups groups = two_groups();
  EXPECT_EQ(groups.size(), 2);
  EXPECT_EQ(groups.num_suffixes(), 3);
  EXPECT_THAT(groups.prefix_lengths(), ElementsAre(3, 2));
  EXPECT_THAT(groups.suffix_lengths(), ElementsAre(2, 1, 4));
  EXPECT_EQ(groups.suffixes_of(0), (RowRange{0, 2}));
  EXPECT_EQ(groups.suffixes_of(1), (RowRange{2, 3}));
  EXPECT_EQ(groups.num_tokens(0), 6);
  EXPECT_EQ(groups.num_tokens(1), 6);
}

TEST(PrefixGroups, may_have_empty_prefixes_and_empty_suffixes) {
  const PrefixGroups groups(GroupInfo{{0, 0}, {0, 3, 0}});
  EXPECT_EQ(groups.num_tokens(0), 0);
  EXPECT_EQ(groups.num_tokens(1), 3);
}

TEST(PrefixGroups, require_a_group_with_a_suffix_each) {
  EXPECT_THROW(PrefixGroups(GroupInfo{}), InputError);
  EXPECT_THAT(message_of([] {
                PrefixGroups(GroupInfo{{2, 1}, {2}});
              }),
              HasSubstr("prefix group 1: has no suffix"));
  EXPECT_THROW(PrefixGroups(GroupInfo{{}}), InputError);
}

TEST(PrefixGroups, reject_a_negative_length_and_name_it) {
  EXPECT_THAT(message_of([] {
                PrefixGroups(GroupInfo{{2, 1, -4}});
              }),
              HasSubstr("prefix group 0: suffix 1 has length -4"));
  EXPECT_THAT(message_of([] { PrefixGroups(GroupInfo{{-1, 1}}); }), HasSubstr("its prefix has length -1"));
}

TEST(PrefixGroups, hold_tokens_up_to_the_limit_of_int32) {
  EXPECT_EQ(PrefixGroups(GroupInfo{{1, max_tokens - 1}}).num_tokens(0), max_tokens);
  EXPECT_THROW(PrefixGroups(GroupInfo{{1, max_tokens}}), LimitError);
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(PrefixGroups(GroupInfo{{huge, huge}}), LimitError);
}

TEST(PrefixGroups, come_from_masks_whatever_side_the_padding_is_on) {
  const Entries prefix{0, 1, 1, 1, 1, 1, 0, 0};
  const Entries suffix{1, 1, 0, 1, 0, 0, 1, 1, 1};
  const PrefixGroups groups = PrefixGroups::from_masks({2, 4, prefix}, {3, 3, suffix}, Sizes{1, 2});
  EXPECT_EQ(groups, PrefixGroups(GroupInfo{{3, 2}, {2, 1, 3}}));
}

TEST(PrefixGroups, from_masks_with_one_size_divide_the_suffixes_evenly) {
  const Entries ones(4, 1);
  EXPECT_EQ(PrefixGroups::from_masks({2, 1, Entries{1, 1}}, {4, 1, ones}, 2),
            PrefixGroups(GroupInfo{{1, 1, 1}, {1, 1, 1}}));
}

TEST(PrefixGroups, from_masks_refuse_sizes_that_do_not_fit) {
  const Entries ones(3, 1);
  const auto made = [&](const Sizes& sizes) {
    return [&, sizes] { (void)PrefixGroups::from_masks({2, 1, Entries{1, 1}}, {3, 1, ones}, sizes); };
  };
  EXPECT_THAT(message_of(made({1, 1})), HasSubstr("leave 1 of 3 suffixes without a group"));
  EXPECT_THAT(message_of(made({2, 2})), HasSubstr("a size of 2 exceeds the remaining number, 1"));
  EXPECT_THAT(message_of(made({3})), HasSubstr("there is 1 size for 2 prefixes"));
  EXPECT_THAT(message_of(made({4, 0})), HasSubstr("do not add up to the number of suffixes, 3"));
  for (const Sizes& sizes : {Sizes{-1, 4}, Sizes{4, -1}, Sizes{3, -1}})
    EXPECT_THAT(message_of(made(sizes)), HasSubstr("contain -1; a size cannot be negative"));
  EXPECT_THROW((void)PrefixGroups::from_masks({2, 1, Entries{1, 1}}, {3, 1, ones}, 2), InputError);
}

}  // namespace
}  // namespace evenkeel
