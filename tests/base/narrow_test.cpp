#include "base/narrow.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace evenkeel {
namespace {

TEST(Narrow, keeps_what_fits) {
  EXPECT_EQ((narrow<std::int32_t>(std::int64_t{2147483647}, "count")), 2147483647);
  EXPECT_EQ((narrow<std::int32_t>(std::int64_t{-1}, "count")), -1);
}

TEST(Narrow, throws_on_both_sides_of_the_range_and_names_the_value) {
  EXPECT_THROW((void)narrow<std::int32_t>(std::int64_t{2147483648}, "count"), LimitError);
  EXPECT_THROW((void)narrow<std::uint32_t>(std::int64_t{-1}, "count"), LimitError);
  try {
    (void)narrow<std::int32_t>(std::numeric_limits<std::int64_t>::max(), "cu_seqlens");
    FAIL() << "narrowing 2^63-1 to 32 bits must throw";
  } catch (const LimitError& error) {
    EXPECT_STREQ(error.what(), "cu_seqlens: 9223372036854775807 is above the maximum of 2147483647");
  }
}

}  // namespace
}  // namespace evenkeel
