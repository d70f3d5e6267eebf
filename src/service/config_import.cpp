#include "evenkeel/service/config_import.hpp"

#include <algorithm>
#include <array>

#include "config_import_settings.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using config_import::Facts;
using config_import::ForeignKey;
using config_import::SystemTable;

std::array<const SystemTable*, 3> all_tables() {
  return {&config_import::mindspeed_rl_table(), &config_import::roll_table(), &config_import::verl_table()};
}

const SystemTable& table_of(ForeignSystem system) {
  const auto tables = all_tables();
  return **std::ranges::find(tables, system, [](const SystemTable* table) { return table->system; });
}

/// How many of a system's own keys a file has.
std::ptrdiff_t count_signs(const std::vector<ForeignKey>& keys, const SystemTable& table) {
  return std::ranges::count_if(keys, [&](const ForeignKey& key) {
    return std::ranges::any_of(table.signs, [&](const std::string& sign) {
      return key.path == sign || key.path.starts_with(sign + ".") || key.path.starts_with(sign + "[");
    });
  });
}

const SystemTable& recognise(const std::vector<ForeignKey>& keys, std::string_view name) {
  const auto tables = all_tables();
  const auto signs = [&](const SystemTable* table) { return count_signs(keys, *table); };
  const SystemTable* best = *std::ranges::max_element(tables, {}, signs);
  const std::string hint = "Say whose it is: --from mindspeed-rl, roll or verl";
  if (signs(best) == 0) {
    throw ConfigError(std::string(name),
                      "is no configuration of MindSpeed-RL, ROLL or verl that is known here", hint);
  }
  if (std::ranges::count(tables, signs(best), signs) > 1) {
    throw ConfigError(std::string(name), "could be the configuration of several systems", hint);
  }
  return *best;
}

}  // namespace

std::string_view to_string(ForeignSystem system) {
  switch (system) {
    case ForeignSystem::mindspeed_rl:
      return "mindspeed-rl";
    case ForeignSystem::roll:
      return "roll";
    case ForeignSystem::verl:
      return "verl";
  }
  return "";
}

std::optional<ForeignSystem> foreign_system(std::string_view word) {
  for (const ForeignSystem system : {ForeignSystem::mindspeed_rl, ForeignSystem::roll, ForeignSystem::verl}) {
    if (to_string(system) == word) return system;
  }
  return std::nullopt;
}

ImportedConfig import_config(const std::string& yaml, std::string_view name, const ImportOptions& options) {
  std::vector<ForeignKey> keys = config_import::read_foreign_keys(yaml, name);
  const SystemTable& table = options.from ? table_of(*options.from) : recognise(keys, name);
  Facts facts(table, std::move(keys));
  config_import::import_job(facts);
  config_import::import_stages(facts);
  if (options.preset) config_import::import_preset(facts);
  ImportedConfig imported;
  imported.system = table.system;
  imported.yaml = config_import::settings_yaml(table, facts.settings());
  facts.report(imported.keys, imported.unused);
  if (imported.keys.empty()) {
    throw ConfigError(std::string(name),
                      "none of its " + std::to_string(imported.unused.size()) + " keys says how " +
                          table.title + " makes batches",
                      "The first is " + imported.unused.front().foreign);
  }
  return imported;
}

}  // namespace evenkeel
