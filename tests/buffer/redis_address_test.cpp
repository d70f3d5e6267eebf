#include "buffer/redis/redis_address.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "evenkeel/base/error.hpp"
#include "support/report_of.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing_support::report_of;
using Server = RedisAddress::Server;

RedisAddress address_of(const std::string& url) {
  return parse_redis_address(url, "--store");
}

TEST(RedisAddress, consists_of_servers_a_login_and_a_database) {
  const RedisAddress plain = address_of("redis://red");
  EXPECT_THAT(plain.servers, ElementsAre(Server{"red", 6379}));
  EXPECT_EQ(plain.database, 0);
  const RedisAddress all = address_of("redis://me:a%40b%3A@[::1]:7000,other:7001/3");
  EXPECT_THAT(all.servers, ElementsAre(Server{"::1", 7000}, Server{"other", 7001}));
  EXPECT_EQ(all.user, "me");
  EXPECT_EQ(all.password, "a@b:");
  EXPECT_EQ(all.database, 3);
  EXPECT_EQ(all.name(), "[::1]:7000,other:7001/3") << "what logs show has no password";
  EXPECT_EQ(address_of("redis://:secret@red").password, "secret");
  EXPECT_THAT(address_of("redis+unix:///run/redis.sock").servers, ElementsAre(Server{"/run/redis.sock", 0}));
}

TEST(RedisAddress, is_refused_without_showing_its_password_if_invalid) {
  for (const char* const url :
       {"redis:/red", "redis://", "redis://:secret@", "redis://red:secret", "redis://red:99999",
        "redis://red/x", "redis://:%zz@red", "redis+unix://red"}) {
    const ErrorReport report = report_of<ConfigError>([&] { return address_of(url); });
    EXPECT_EQ(report.where, "--store") << url;
    EXPECT_THAT(report.hint, HasSubstr("redis://HOST")) << url;
  }
  EXPECT_THAT(to_string(report_of<ConfigError>([] { return address_of("redis://me:secret@red/x"); })),
              Not(HasSubstr("secret")));
  EXPECT_THAT(to_string(report_of<ConfigError>([] { return address_of("redis://me:secret"); })),
              testing::AllOf(HasSubstr("a port that is not a number"), Not(HasSubstr("secret"))));
  EXPECT_THAT(report_of<ConfigError>([] { return address_of("rediss://red"); }).message, HasSubstr("TLS"));
}

}  // namespace
}  // namespace evenkeel
