#include "evenkeel/service/config_serialization.hpp"

#include <gtest/gtest.h>

#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/binary_oarchive.hpp>
#include <boost/archive/text_iarchive.hpp>
#include <boost/archive/text_oarchive.hpp>
#include <sstream>

#include "service/config_fixtures.hpp"

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
}

TEST(ConfigSerialization, what_was_there_before_is_overwritten) {
  EXPECT_EQ(through_text(Config{}, test::changed_config()), Config{});
}

/// Stands for the Config of a later version: the same place in an archive, a higher version number.
struct NewerConfig {
  template <class Archive>
  void serialize(Archive& archive, unsigned /*version*/) {
    int anything = 0;
    archive& anything;
  }
};

}  // namespace
}  // namespace evenkeel

BOOST_CLASS_VERSION(evenkeel::NewerConfig, 5)

namespace evenkeel {
namespace {

TEST(ConfigSerialization, an_archive_of_a_newer_version_is_refused) {
  std::stringstream stream;
  {
    boost::archive::text_oarchive archive(stream);
    const NewerConfig newer;
    archive << newer;
  }
  boost::archive::text_iarchive archive(stream);
  Config config;
  EXPECT_THROW(archive >> config, boost::archive::archive_exception);
}

}  // namespace
}  // namespace evenkeel
