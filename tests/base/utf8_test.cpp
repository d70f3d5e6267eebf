#include "base/utf8.hpp"

#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

TEST(Utf8, text_of_any_script_is_utf8_to_its_end) {
  for (const std::string& text :
       {std::string(), std::string("plain text of more than eight bytes"),
        std::string("\xc3\xa4\xe6\xbc\xa2\xf0\x9f\x9b\xb6 and more"), std::string("\0\x7f", 2)})
    EXPECT_EQ(utf8_prefix_length(text), text.size());
}

TEST(Utf8, ends_at_the_first_invalid_byte) {
  for (const char* const wrong : {"\x80", "\xc0\xaf", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"}) {
    for (const std::size_t before : {0U, 3U, 8U, 17U})
      EXPECT_EQ(utf8_prefix_length(std::string(before, 'a') + wrong + "after"), before);
  }
}

}  // namespace
}  // namespace evenkeel
