#include "stream/key.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

namespace evenkeel::stream {
namespace {

TEST(GroupKey, texts_and_numbers_of_the_same_digits_differ) {
  EXPECT_NE(group_key(std::string("7")), group_key(std::int64_t{7}));
  EXPECT_NE(group_key(std::int64_t{-1}), group_key(~std::uint64_t{0}));
  EXPECT_EQ(group_key(std::int64_t{7}), group_key(std::uint64_t{7}));
}

TEST(GroupKey, is_fnv_of_128_bits_over_the_kind_and_the_value) {
  // FNV-1a of the bytes 03 and "a", computed with arbitrary-precision integers.
  EXPECT_EQ(group_key(std::string("a")), (GroupKey{0x0880945de6ab1be9, 0x5aa073305528e479}));
}

RC_GTEST_PROP(SeenKeys, contains_exactly_the_added_keys, ()) {
  const auto pick = [](std::int64_t end) { return *rc::gen::inRange<std::int64_t>(0, end); };
  SeenKeys seen;
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> model;
  std::set<std::int64_t> over;
  for (int i = 0; i < 60; ++i) {
    const std::int64_t uid = pick(8);
    if (pick(5) == 0) {
      seen.mark_ended(group_key(uid));
      over.insert(uid);
    } else {
      const std::int64_t index = pick(200);
      const auto content = *rc::gen::arbitrary<std::uint32_t>();
      if (model.emplace(std::pair{uid, index}, content).second) seen.add(group_key(uid), index, content);
    }
  }
  const SeenKeys again(seen.slots());
  for (std::int64_t uid = 0; uid < 8; ++uid) {
    RC_ASSERT(again.has_ended(group_key(uid)) == over.contains(uid));
    std::vector<std::int64_t> indexes;
    for (std::int64_t i = 0; i < 200; ++i) {
      const auto known = model.find({uid, i});
      RC_ASSERT(again.contains(group_key(uid), i) == (known != model.end()));
      if (known == model.end()) continue;
      RC_ASSERT(again.content_hash(group_key(uid), i) == known->second);
      indexes.push_back(i);
    }
    RC_ASSERT(seen.indexes(group_key(uid), 200) == indexes);
  }
}

TEST(SeenKeys, a_group_takes_24_bytes_for_63_indexes_and_24_for_two_samples_however_many_there_are) {
  constexpr std::int64_t groups = 20'000;
  SeenKeys seen;
  for (std::int64_t uid = 0; uid < groups; ++uid) {
    for (std::int64_t i = 0; i < 63; ++i) seen.add(group_key(uid), i, 7);
    seen.mark_ended(group_key(uid));
  }
  EXPECT_EQ(seen.bytes(), groups * (24 + 32 * 24));
  EXPECT_TRUE(seen.contains(group_key(std::int64_t{0}), 62));
  EXPECT_TRUE(seen.contains(group_key(groups - 1), 0));
  EXPECT_FALSE(seen.contains(group_key(groups), 0));
}

}  // namespace
}  // namespace evenkeel::stream
