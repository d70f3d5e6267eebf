#include <algorithm>

#include "config/import/facts.hpp"
#include "config/schema.hpp"
#include "config/suggest.hpp"

/// The part of Facts that tells what became of each key, and what is missing.
namespace evenkeel::config_import {
namespace {

void add_once(std::vector<std::string>& texts, const std::string& text) {
  if (!text.empty() && std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : "; ") + text;
  return all;
}

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('.') + 1);
}

bool is_at_or_below(std::string_view path, std::string_view prefix) {
  if (!path.starts_with(prefix)) return false;
  return path.size() == prefix.size() || path[prefix.size()] == '.' || path[prefix.size()] == '[';
}

bool is_outside(std::string_view path, const OutsideRule& rule) {
  if (!rule.path.starts_with("*.")) return is_at_or_below(path, rule.path);
  const std::string name = rule.path.substr(1);  // ".name"
  const std::string dotted = "." + std::string(path) + ".";
  return dotted.find(name + ".") != std::string::npos;
}

/// A known key that this one is probably a slip of.
std::optional<std::string> meant_by(const std::string& path, const SystemTable& table) {
  constexpr std::size_t shortest = 8;
  constexpr std::size_t most_slips = 2;
  if (last_part(path).size() < shortest) return std::nullopt;
  for (const KeyRule& rule : table.keys) {
    const std::size_t slips = config_detail::edit_distance(path, rule.path);
    if (slips > 0 && slips <= most_slips) return rule.path;
  }
  return std::nullopt;
}

/// The key of a stage's micro_batch section that a fact decides.
std::string key_of_stage_fact(std::string_view fact) {
  static const std::vector<std::pair<std::string_view, std::string>> keys{
      {"packed", "micro_batch.mode"},
      {"padded", "micro_batch.mode"},
      {"algorithm", "micro_batch.mode"},
      {"cap", "micro_batch.max_tokens"},
      {"gpu_cap", "micro_batch.max_tokens"},
      {"padded_cap", "micro_batch.max_tokens"},
      {"size", "micro_batch.size"},
      {"global_size", "micro_batch.size"},
      {"max_samples", "micro_batch.max_samples"},
      {"min_count", "micro_batch.min_count"},
      {"length_round", "micro_batch.length_round"},
      {"shuffle", "micro_batch.shuffle"},
      {"loss", "loss.aggregation"},
      {"norm", "loss.norm_length"}};
  const auto found = std::ranges::find(keys, fact, &std::pair<std::string_view, std::string>::first);
  return found == keys.end() ? "" : found->second;
}

std::string key_of_job_fact(std::string_view fact) {
  static const std::vector<std::pair<std::string, std::vector<std::string_view>>> keys{
      {"mesh.tp", {"tp"}},
      {"mesh.pp", {"pp"}},
      {"mesh.cp", {"cp", "ulysses", "engine_ulysses", "dynamic_cp"}},
      {"micro_batch.max_tokens_per_rank", {"rank_cap"}},
      {"mesh.vpp", {"vpp", "vpp_layers", "layers"}},
      {"pack.cp_layout", {"cp_algo"}},
      {"batch.global_batch", {"prompts", "responses"}},
      {"batch.mini_batches", {"mini", "rank_batch", "accumulation", "devices"}},
      {"batch.epochs", {"epochs"}},
      {"batch.shuffle", {"shuffle", "no_shuffle"}},
      {"batch.keep_mini_batch", {"random_mini"}},
      {"batch.drop_last", {"drop_last"}},
      {"loss.aggregation", {"loss"}},
      {"loss.norm_length", {"norm", "width", "prompt_width", "sequence_width"}},
      {"loss.micro_batches", {"trainer"}}};
  for (const auto& [key, facts] : keys) {
    if (std::ranges::find(facts, fact) != facts.end()) return key;
  }
  return "";
}

}  // namespace

std::string setting_of_fact(const SystemTable& table, const std::string& fact) {
  const std::size_t dot = fact.find('.');
  if (dot == std::string::npos) {
    const std::string key = key_of_job_fact(fact);
    const bool is_of_step = table.batch == BatchKind::rank_batches && key == "batch.mini_batches";
    return is_of_step ? "batch.global_batch" : key;
  }
  const std::string key = key_of_stage_fact(fact.substr(dot + 1));
  const std::string stage = fact.substr(0, dot);
  return key.empty() || stage == table.stages.front().name ? key : "profiles." + stage + "." + key;
}

std::string default_of_setting(const std::string& path) {
  std::string key = path;
  if (key.starts_with("profiles.")) key.erase(0, key.find('.', key.find('.') + 1) + 1);
  const auto known = std::ranges::find(config_keys(), key, &ConfigKey::path);
  return known == config_keys().end() ? "" : known->default_value;
}

void Facts::want(const std::string& path, const std::vector<std::string>& facts, const std::string& why) {
  if (find(path) != nullptr) return;
  for (const std::string& fact : facts) {
    if (is_lost(fact)) asked_lost_.insert(fact);
  }
  const auto tells_of = [&](const MissingSetting& it) {
    return std::ranges::any_of(it.evenkeel,
                               [&](const std::string& used) { return used.starts_with(path + ":"); });
  };
  const bool is_told = std::ranges::any_of(missing_, tells_of);
  if (is_told || std::ranges::any_of(facts, [&](const std::string& fact) { return is_lost(fact); })) return;
  std::string foreign;
  for (const bool is_stated : {false, true}) {
    for (const std::string& fact : facts) {
      const auto rule = std::ranges::find_if(table_.keys, [&](const KeyRule& it) {
        return std::ranges::find(it.facts, fact) != it.facts.end();
      });
      if (foreign.empty() && rule != table_.keys.end() && has(fact) == is_stated) foreign = rule->path;
    }
  }
  add_missing(foreign, path, why);
}

void Facts::miss(const std::string& path, const std::string& fact, const std::string& why) {
  const auto found = facts_.find(fact);
  add_missing(found == facts_.end() ? fact : found->second.path, path, why);
}

void Facts::add_missing(const std::string& foreign, const std::string& path, const std::string& why) {
  const Setting* setting = find(path);
  const std::string used = path + ": " + (setting != nullptr ? setting->value : default_of_setting(path));
  const auto known = std::ranges::find_if(
      missing_, [&](const MissingSetting& it) { return it.foreign == foreign && it.why == why; });
  if (known != missing_.end()) return add_once(known->evenkeel, used);
  const auto key = find_key(foreign);
  missing_.push_back({foreign, key ? keys_[*key].written : "", {used}, why});
}

void Facts::report_lost_facts() {
  for (const auto& [name, fact] : facts_) {
    const std::string path = setting_of_fact(table_, name);
    if (fact.lost.empty() || path.empty() || !asked_lost_.contains(name)) continue;
    add_missing(fact.path, path, fact.lost);
    if (name == "trainer") add_missing(fact.path, "loss.dp_ranks", fact.lost);
  }
}

void Facts::apply_always_rules() {
  for (const AlwaysRule& rule : table_.always) {
    const auto key = find_key(rule.path);
    if (!key) continue;
    const bool agrees = value_of(rule.path, "") == rule.value;
    outcomes_[*key].understood = agrees;
    (agrees ? outcomes_[*key].notes : outcomes_[*key].reasons).push_back("always so: " + rule.note);
  }
}

void Facts::apply_same_rules() {
  for (const SameRule& rule : table_.same) {
    const auto key = find_key(rule.path);
    if (left_section(rule.path) || (key && outcomes_[*key].understood)) continue;
    if (!key && !(rule.counts_when_absent && has_section_of(rule.path))) continue;
    const std::string lost = key ? keys_[*key].value.missing : "";
    const bool agrees = value_of(rule.path, rule.fallback) == value_of(rule.as, rule.fallback);
    if (agrees && lost.empty()) {
      if (key) {
        outcomes_[*key].understood = true;
        add_once(outcomes_[*key].notes, "as " + rule.as);
      }
      continue;
    }
    const std::string why = lost.empty() ? "one job has one value, that of " + rule.as : lost;
    if (key) add_once(outcomes_[*key].reasons, why);
    miss_as(rule, key ? why : why + "; this one is " + rule.fallback + " there");
  }
}

/// What the key that it is compared with decides is not as this key says it.
void Facts::miss_as(const SameRule& rule, const std::string& why) {
  const auto known = std::ranges::find(table_.keys, rule.as, &KeyRule::path);
  if (known == table_.keys.end()) return;
  for (const std::string& fact : known->facts) {
    const std::string path = setting_of_fact(table_, fact);
    if (!path.empty()) add_missing(rule.path, path, why);
  }
}

bool Facts::has_section_of(std::string_view path) const {
  const std::string_view section = path.substr(0, path.rfind('.'));
  return std::ranges::any_of(keys_, [&](const ForeignKey& key) { return is_at_or_below(key.path, section); });
}

std::string Facts::value_of(std::string_view path, const std::string& fallback) const {
  const auto key = find_key(path);
  if (!key || keys_[*key].value.is_null()) return fallback;
  const Value& value = keys_[*key].value;
  if (const auto flag = as_flag(value)) return *flag ? "true" : "false";
  if (const auto number = as_integer(value)) return std::to_string(*number);
  return keys_[*key].text;
}

std::optional<std::string> Facts::left_section(std::string_view path) const {
  const auto left =
      std::ranges::find_if(left_sections_, [&](const auto& it) { return path.starts_with(it.first); });
  return left == left_sections_.end() ? std::nullopt : std::optional(left->second);
}

std::string Facts::why_unused(const ForeignKey& key) const {
  if (!key.value.missing.empty()) return key.value.missing;
  if (const auto why = left_section(key.path)) return *why;
  if (const auto meant = meant_by(key.path, table_)) return "unknown here; did you mean " + *meant + "?";
  for (const OutsideRule& rule : table_.outside) {
    if (is_outside(key.path, rule)) return rule.why;
  }
  return "unknown here";
}

void Facts::report(ImportedConfig& imported) {
  apply_same_rules();
  report_lost_facts();
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    Outcome& outcome = outcomes_[i];
    ImportedKey key{keys_[i].path, keys_[i].written, outcome.evenkeel, ""};
    if (outcome.understood) {
      add_once(outcome.notes, keys_[i].value.via);
      key.value = keys_[i].text;
      key.note = joined(outcome.notes);
    } else {
      const bool is_told = !outcome.reasons.empty() && keys_[i].value.missing.empty();
      key.note = is_told && !left_section(keys_[i].path) ? joined(outcome.reasons) : why_unused(keys_[i]);
    }
    (outcome.understood ? imported.keys : imported.unused).push_back(std::move(key));
  }
  imported.missing = std::move(missing_);
}

}  // namespace evenkeel::config_import
