#include "config/serialization.hpp"

#include <gtest/gtest.h>

#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/binary_oarchive.hpp>
#include <boost/archive/text_iarchive.hpp>
#include <boost/archive/text_oarchive.hpp>
#include <sstream>

#include "config/fixtures.hpp"

namespace evenkeel {
namespace {

template <class Out, class In>
Config through(const Config& config, Config received) {
  std::stringstream stream;
  {
    Out archive(stream);
    archive << config;
  }
  In archive(stream);
  archive >> received;
  return received;
}

Config through_text(const Config& config, Config received = {}) {
  return through<boost::archive::text_oarchive, boost::archive::text_iarchive>(config, std::move(received));
}

TEST(ConfigSerialization, defaults_come_back) {
  EXPECT_EQ(through_text(Config{}), Config{});
}

TEST(ConfigSerialization, every_changed_member_comes_back) {
  const Config config = test::changed_config();
  EXPECT_EQ(through_text(config), config);
  EXPECT_EQ((through<boost::archive::binary_oarchive, boost::archive::binary_iarchive>(config, {})), config);
}

TEST(ConfigSerialization, speeds_measured_costs_and_ways_of_packing_come_back) {
  EXPECT_EQ(through_text(test::measured_config()), test::measured_config());
  EXPECT_EQ(through_text(test::flexible_config()), test::flexible_config());
}

TEST(ConfigSerialization, what_was_there_before_is_overwritten) {
  EXPECT_EQ(through_text(Config{}, test::changed_config()), Config{});
}

/// Stands for the Config of another version: the same place in an archive, another version number.
template <int Version>
struct OtherConfig {
  template <class Archive>
  void serialize(Archive& archive, unsigned /*version*/) {
    int anything = 0;
    archive& anything;
  }
};
using OlderConfig = OtherConfig<config_detail::archive_version - 1>;
using NewerConfig = OtherConfig<config_detail::archive_version + 1>;

}  // namespace
}  // namespace evenkeel

BOOST_CLASS_VERSION(evenkeel::OlderConfig, evenkeel::config_detail::archive_version - 1)
BOOST_CLASS_VERSION(evenkeel::NewerConfig, evenkeel::config_detail::archive_version + 1)

namespace evenkeel {
namespace {

template <class Other>
void expect_refused() {
  std::stringstream stream;
  {
    boost::archive::text_oarchive archive(stream);
    const Other other;
    archive << other;
  }
  boost::archive::text_iarchive archive(stream);
  Config config;
  EXPECT_THROW(archive >> config, boost::archive::archive_exception);
}

TEST(ConfigSerialization, an_archive_of_a_newer_version_is_refused) {
  expect_refused<NewerConfig>();
}

// Its members would be taken for others.
TEST(ConfigSerialization, an_archive_of_an_older_version_is_refused) {
  expect_refused<OlderConfig>();
}

TEST(ConfigSerialization, a_value_that_no_word_stands_for_is_refused_by_its_key) {
  Config config = test::changed_config();
  config.profiles.at("update").micro_batch.order = static_cast<MicroBatchOrder>(200);
  std::stringstream stream;
  {
    boost::archive::text_oarchive archive(stream);
    archive << std::as_const(config);
  }
  boost::archive::text_iarchive archive(stream);
  Config received;
  try {
    archive >> received;
    FAIL() << "200 was taken for an order";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.report().where, "profiles.update.micro_batch.order");
  }
}

}  // namespace
}  // namespace evenkeel
