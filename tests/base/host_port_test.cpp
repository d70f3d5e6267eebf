#include "base/text/host_port.hpp"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

TEST(HostPort, is_split_at_the_last_colon) {
  EXPECT_EQ(parse_host_port("127.0.0.1:8710"), (HostPort{"127.0.0.1", 8710}));
  EXPECT_EQ(parse_host_port("localhost:0"), (HostPort{"localhost", 0}));
  EXPECT_EQ(parse_host_port("[::1]:65535"), (HostPort{"::1", 65535}));
}

TEST(HostPort, is_null_for_any_other_text) {
  for (const char* text :
       {"", "8710", ":8710", "[]:8710", "here", "here:", "here:x", "here:-1", "here:65536", "here:1 "})
    EXPECT_EQ(parse_host_port(text), std::nullopt) << text;
}

TEST(HostPort, is_local_if_its_host_is_the_loopback) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "10.0.0.5", "here", "1127.0.0.1", "127.example.com"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

}  // namespace
}  // namespace evenkeel
