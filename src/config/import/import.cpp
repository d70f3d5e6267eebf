#include <algorithm>
#include <array>

#include "config/import.hpp"
#include "config/import/settings.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace config_import {

const std::vector<std::string>& signs_of(ForeignSystem system) {
  static const std::vector<std::string> mindspeed_rl{"rl_config",       "megatron_training", "actor_config",
                                                     "generate_config", "ref_config",        "sft"};
  static const std::vector<std::string> roll{
      "actor_train", "actor_infer",   "reference", "rollout_batch_size",           "rewards",
      "sft_train",   "student_train", "student",   "num_return_sequences_in_group"};
  static const std::vector<std::string> verl{"actor_rollout_ref",          "trainer.balance_batch",
                                             "data.train_batch_size",      "critic.use_dynamic_bsz",
                                             "critic.ppo_mini_batch_size", "data.micro_batch_size_per_gpu",
                                             "data.max_token_len_per_gpu"};
  switch (system) {
    case ForeignSystem::mindspeed_rl:
      return mindspeed_rl;
    case ForeignSystem::roll:
      return roll;
    case ForeignSystem::verl:
      break;
  }
  return verl;
}

std::vector<const SystemTable*> tables_of(ForeignSystem system) {
  switch (system) {
    case ForeignSystem::mindspeed_rl:
      return mindspeed_rl_tables();
    case ForeignSystem::roll:
      return roll_tables();
    case ForeignSystem::verl:
      break;
  }
  return verl_tables();
}

}  // namespace config_import

namespace {

using config_import::Document;
using config_import::Facts;
using config_import::ForeignKey;
using config_import::SystemTable;

constexpr std::array<ForeignSystem, 3> all_systems{ForeignSystem::mindspeed_rl, ForeignSystem::roll,
                                                   ForeignSystem::verl};

bool is_at_or_below(std::string_view path, std::string_view prefix) {
  if (!path.starts_with(prefix)) return false;
  return path.size() == prefix.size() || path[prefix.size()] == '.' || path[prefix.size()] == '[';
}

/// How many of a system's own keys a file has.
std::ptrdiff_t count_signs(const Document& document, ForeignSystem system) {
  const std::vector<std::string>& signs = config_import::signs_of(system);
  const auto is_sign = [&](std::string_view path) {
    return std::ranges::any_of(signs, [&](const std::string& sign) { return is_at_or_below(path, sign); });
  };
  return std::ranges::count_if(document.keys, is_sign, &ForeignKey::path) +
         std::ranges::count_if(
             document.lost, [&](const auto& part) { return is_sign(config_import::dotted(part.package)); });
}

ForeignSystem recognise(const Document& document, std::string_view name) {
  const auto signs = [&](ForeignSystem system) { return count_signs(document, system); };
  const ForeignSystem best = *std::ranges::max_element(all_systems, {}, signs);
  const std::string hint = "Say whose it is: --from mindspeed-rl, roll or verl";
  if (signs(best) == 0) {
    throw ConfigError(std::string(name),
                      "is no configuration of MindSpeed-RL, ROLL or verl that is known here", hint);
  }
  if (std::ranges::count(all_systems, signs(best), signs) > 1) {
    throw ConfigError(std::string(name), "could be the configuration of several systems", hint);
  }
  return best;
}

/// "a.b": a key at or below it; "a.b=word": with that value.
bool has_mark(const Document& document, std::string_view mark) {
  const std::string_view path = mark.substr(0, mark.find('='));
  return std::ranges::any_of(document.keys, [&](const ForeignKey& key) {
    return is_at_or_below(key.path, path) && (path == mark || key.text == mark.substr(path.size() + 1));
  });
}

/// The table of the kind of job that a file is of.
const SystemTable& table_of(ForeignSystem system, const Document& document) {
  const std::vector<const SystemTable*> tables = config_import::tables_of(system);
  const auto is_marked = [&](const std::string& mark) { return has_mark(document, mark); };
  const auto fits = [&](const SystemTable* table) {
    return std::ranges::any_of(table->marks, is_marked) && std::ranges::none_of(table->not_marks, is_marked);
  };
  const auto found = std::ranges::find_if(tables, fits);
  return found == tables.end() ? *tables.back() : **found;
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

ImportedConfig import_config(const std::string& yaml, std::string_view name, const ImportSettings& options) {
  Document document = config_import::read_document(yaml, name, options);
  ImportedConfig imported;
  imported.system = options.from ? *options.from : recognise(document, name);
  imported.files = document.files;
  for (const auto& part : document.lost) imported.lost_files.push_back(part.file + " (" + part.entry + ")");
  const SystemTable& table = table_of(imported.system, document);
  Facts facts(table, std::move(document));
  config_import::import_mesh(facts);
  config_import::import_batch(facts);
  config_import::import_balance(facts);
  config_import::import_stages(facts);
  config_import::import_loss(facts);
  if (options.preset) config_import::import_preset(facts);
  imported.yaml = config_import::settings_yaml(table, facts.settings());
  facts.report(imported);
  if (imported.keys.empty() && imported.files.empty() && imported.lost_files.empty()) {
    const std::string first =
        imported.unused.empty() ? "" : "The first is " + imported.unused.front().foreign;
    throw ConfigError(std::string(name),
                      "none of its " + std::to_string(imported.unused.size()) + " keys says how " +
                          table.title + " makes batches",
                      first);
  }
  return imported;
}

}  // namespace evenkeel
