#include "io/jsonl/base64.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace evenkeel {
namespace {

std::string encoded(const std::string& text) {
  return encode_base64(std::as_bytes(std::span(text)));
}

TEST(Base64, matches_rfc_4648) {
  EXPECT_EQ(encoded(""), "");
  EXPECT_EQ(encoded("f"), "Zg==");
  EXPECT_EQ(encoded("fo"), "Zm8=");
  EXPECT_EQ(encoded("foo"), "Zm9v");
  EXPECT_EQ(encoded("foob"), "Zm9vYg==");
  EXPECT_EQ(encoded("fooba"), "Zm9vYmE=");
  EXPECT_EQ(encoded("foobar"), "Zm9vYmFy");
}

TEST(Base64, rejects_other_text) {
  for (const char* const wrong : {"Zg", "Zg=", "Zg==Zg==", "Z===", "====", "Zm9\n", "Zh==", "Zm9=", "Z-8="})
    EXPECT_EQ(base64_decoded_size(wrong), std::nullopt) << wrong;
}

RC_GTEST_PROP(Base64, any_bytes_come_back, (const std::vector<std::uint8_t>& values)) {
  const auto bytes = std::as_bytes(std::span(values));
  const std::string text = encode_base64(bytes);
  RC_ASSERT(base64_decoded_size(text) == values.size());
  std::vector<std::byte> back(values.size());
  decode_base64(text, back);
  RC_ASSERT(std::ranges::equal(back, bytes));
}

}  // namespace
}  // namespace evenkeel
