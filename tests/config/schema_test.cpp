#include "config/schema.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"

namespace evenkeel {
namespace {

using ::testing::HasSubstr;

TEST(ConfigSchema, every_key_is_unique_and_documented) {
  std::set<std::string> paths;
  for (const ConfigKey& key : config_keys()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    EXPECT_FALSE(key.type.empty()) << key.path;
    EXPECT_FALSE(key.default_value.empty()) << key.path;
    EXPECT_FALSE(key.values.empty()) << key.path;
    EXPECT_TRUE(key.meaning.ends_with('.')) << key.path;
  }
}

TEST(ConfigSchema, every_default_is_accepted_and_changes_nothing) {
  for (const ConfigKey& key : config_keys()) {
    const std::vector<std::string> set{key.path + "=" + key.default_value};
    EXPECT_EQ(parse_config("", "test", set), Config{}) << set.front();
  }
}

TEST(ConfigSchema, the_text_shows_each_key_with_its_default_and_range) {
  const std::string text = config_schema_text();
  for (const ConfigKey& key : config_keys()) {
    EXPECT_THAT(text, HasSubstr("  " + key.path + ": " + key.default_value + "\n"));
    EXPECT_THAT(text, HasSubstr(key.values));
  }
}

TEST(ConfigReference, the_committed_page_is_what_the_table_generates) {
  std::ifstream file(EVENKEEL_SOURCE_DIR "/docs/configuration.md", std::ios::binary);
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), config_reference_markdown())
      << "Write it anew: evenkeel config schema --markdown > docs/configuration.md";
}

TEST(ConfigReference, table_cells_escape_bars) {
  for (const ConfigKey& key : config_keys()) {
    EXPECT_EQ((key.type + key.default_value + key.values + key.meaning).find('|'), std::string::npos)
        << key.path;
  }
}

TEST(ConfigSchema, shows_one_key_or_one_section_and_lists_the_sections) {
  EXPECT_THAT(config_schema_text("mesh.tp"), HasSubstr("mesh.tp: 1"));
  EXPECT_THAT(config_schema_text("mesh.tp"), testing::Not(HasSubstr("mesh.cp: 1")));
  EXPECT_THAT(config_schema_text("mesh"), HasSubstr("mesh.cp: 1"));
  try {
    (void)config_schema_text("micro_batch.max_token");
    FAIL() << "there is no such key";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("is neither a key nor a section. Sections: mesh, source, "));
  }
}

}  // namespace
}  // namespace evenkeel
