#include "import_fixtures.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

/// The fenced blocks of a page, from its section on importing: the foreign file, ours, the table.
std::vector<std::string> blocks_of(const std::string& page) {
  std::vector<std::string> blocks;
  std::istringstream lines(page.substr(page.find("## Import a configuration")));
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) blocks.emplace_back();
    } else if (inside) {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

class ImportPages : public testing::TestWithParam<ForeignSystem> {};

TEST_P(ImportPages, show_what_the_import_really_gives) {
  const std::string name = "docs/coming-from-" + std::string(to_string(GetParam())) + ".md";
  const std::string page = testing_support::read_text(std::filesystem::path(EVENKEEL_SOURCE_DIR) / name);
  ASSERT_NE(page.find("## Import a configuration"), std::string::npos) << name;
  const std::vector<std::string> blocks = blocks_of(page);
  ASSERT_EQ(blocks.size(), 3U) << name;
  const ImportedConfig config = test::imported(blocks[0]);
  EXPECT_EQ(config.system, GetParam());
  EXPECT_EQ(config.yaml, blocks[1]);
  EXPECT_EQ(import_table(config), blocks[2]);
}

INSTANTIATE_TEST_SUITE_P(AllSystems, ImportPages,
                         testing::Values(ForeignSystem::mindspeed_rl, ForeignSystem::roll,
                                         ForeignSystem::verl),
                         [](const auto& tested) {
                           std::string name(to_string(tested.param));
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace evenkeel
