#include "base/text/parse_number.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace evenkeel {
namespace {

TEST(ParseNumber, accepts_only_a_whole_text) {
  EXPECT_EQ(parse_as<std::int64_t>("-12"), -12);
  for (const char* const text : {"", " 1", "1 ", "+1", "1.5", "1k"})
    EXPECT_FALSE(parse_as<std::int64_t>(text)) << "'" << text << "'";
  EXPECT_EQ(parse_as<double>("1.5e3"), 1500);
  EXPECT_FALSE(parse_as<double>("1.5s"));
}

TEST(ParseNumber, accepts_only_what_the_type_can_represent) {
  EXPECT_EQ(parse_as<std::uint16_t>("65535"), 65535);
  EXPECT_FALSE(parse_as<std::uint16_t>("65536"));
  EXPECT_FALSE(parse_as<std::uint16_t>("-1"));
  EXPECT_EQ(parse_hexadecimal_as<unsigned char>("fF"), 255);
  EXPECT_FALSE(parse_hexadecimal_as<unsigned char>("100"));
  EXPECT_FALSE(parse_hexadecimal_as<std::int64_t>("0x1"));
}

}  // namespace
}  // namespace evenkeel
