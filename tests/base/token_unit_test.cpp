#include "base/text/units.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace evenkeel {
namespace {

TEST(TokenUnit, k_is_1024_and_m_1024_of_those) {
  EXPECT_EQ(parse_tokens("32k"), 32768);
  EXPECT_EQ(parse_tokens("32K"), 32768);
  EXPECT_EQ(parse_tokens("1M"), 1048576);
  EXPECT_EQ(parse_tokens("0k"), 0);
}

TEST(TokenUnit, needs_digits_and_one_letter) {
  for (const char* text : {"", "k", "32", "1m", "1G", "1.5k", "-1k", "+1k", " 1k", "1 k", "1kk", "32kb"})
    EXPECT_FALSE(parse_tokens(text)) << text;
}

TEST(TokenUnit, saturates_above_64_bits) {
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(parse_tokens("9007199254740991k"), 9007199254740991 * 1024);
  EXPECT_EQ(parse_tokens("9007199254740992k"), largest);
  EXPECT_EQ(parse_tokens("99999999999999999999999999999M"), largest);
}

}  // namespace
}  // namespace evenkeel
