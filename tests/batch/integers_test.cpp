#include "batch/integers.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace evenkeel {
namespace {

TEST(Integers, include_exactly_the_integer_dtypes) {
  std::string names;
  for (const DType dtype : all_dtypes) {
    if (is_integer(dtype)) names.append(name_of(dtype)).append(" ");
  }
  EXPECT_EQ(names, "uint8 int32 int64 int8 int16 uint16 uint32 ");
}

TEST(Integers, are_visited_with_the_matching_type) {
  for (const DType dtype : all_dtypes) {
    if (!is_integer(dtype)) continue;
    EXPECT_EQ(with_integer_type(dtype, []<typename T>(T) { return dtype_of<T>; }), dtype);
    const auto bits = static_cast<int>(8 * size_of(dtype));
    const IntegerRange range = range_of(dtype);
    const bool is_signed = range.least < 0;
    EXPECT_EQ(range.least, is_signed ? -range.most - 1 : 0);
    if (bits == 64) continue;
    EXPECT_EQ(range.most, (std::int64_t{1} << (bits - (is_signed ? 1 : 0))) - 1);
  }
}

TEST(IntegerRange, is_empty_at_first_and_grows_when_joined) {
  const IntegerRange none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.enclosing_range(none), none);
  EXPECT_EQ(none.enclosing_range({3, 3}), (IntegerRange{3, 3}));
  EXPECT_EQ((IntegerRange{-1, 2}.enclosing_range({7, 9})), (IntegerRange{-1, 9}));
  EXPECT_TRUE((IntegerRange{0, 255}.contains({0, 255})));
  EXPECT_TRUE((IntegerRange{0, 255}.contains(none)));
  EXPECT_FALSE((IntegerRange{0, 255}.contains({-1, 0})));
  EXPECT_FALSE((IntegerRange{0, 255}.contains({0, 256})));
}

}  // namespace
}  // namespace evenkeel
