// Configurations of other systems: the first byte says of which, or leaves it to be found out, and whether
// the first line is an override.
#include "config/import.hpp"
#include "evenkeel/config/config.hpp"
#include "fuzz/target.hpp"

namespace evenkeel::fuzz {

void run(Bytes input) {
  Numbers numbers(input);
  const std::uint8_t choice = numbers.byte();
  ImportSettings settings;
  if (choice % 4 < 3) settings.from = static_cast<ForeignSystem>(choice % 4);
  settings.preset = (choice & 4) != 0;
  std::string yaml = input.empty() ? std::string() : text_of(input.subspan(1));
  if ((choice & 8) != 0) {
    const std::size_t end = yaml.find('\n');
    settings.overrides.push_back(yaml.substr(0, end));
    yaml = end == std::string::npos ? std::string() : yaml.substr(end + 1);
  }
  const ImportedConfig imported = import_config(yaml, "theirs.yaml", settings);
  require(!import_table(imported, 80).empty(), "what became of the keys is told");
  static_cast<void>(parse_config(imported.yaml, "imported.yaml"));  // or refused: it may suit no job
}

}  // namespace evenkeel::fuzz
