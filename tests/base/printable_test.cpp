#include "base/utf8.hpp"

#include <gtest/gtest.h>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

TEST(Printable, KeepsTextOfAnyScript) {
  EXPECT_EQ(printable("reward_ü 奖励 🏆"), "reward_ü 奖励 🏆");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, EscapesControlCharacters) {
  EXPECT_EQ(printable("\x1b[31mred\x1b[0m"), "\\x1b[31mred\\x1b[0m");
  EXPECT_EQ(printable(std::string_view("a\0b\x7f", 4)), "a\\x00b\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m")
      << "C1's control sequence introducer";
}

TEST(Printable, KeepsATextOnOneLine) {
  EXPECT_EQ(printable("one\ntwo\r\tthree"), "one\\ntwo\\r\\tthree");
}

TEST(Printable, EscapesInvalidUtf8) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("cut \xe5\xa5"), "cut \\xe5\\xa5");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf") << "an overlong form";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "above U+10FFFF";
}

TEST(Printable, ErrorsArePrintedThisWay) {
  const InputError error("line 3: field '\x1b[2J'", "is no\nnumber", "Write \x07 one");
  EXPECT_STREQ(error.what(), "line 3: field '\\x1b[2J': is no\\nnumber. Write \\x07 one");
}

}  // namespace
}  // namespace evenkeel
