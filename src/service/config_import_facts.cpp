#include "config_import_facts.hpp"

#include <algorithm>
#include <charconv>
#include <regex>

#include "config_suggest.hpp"
#include "config_value.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::config_import {
namespace {

void add_once(std::vector<std::string>& texts, const std::string& text) {
  if (!text.empty() && std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
}

std::string joined(const std::vector<std::string>& texts, std::string_view separator) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : std::string(separator)) + text;
  return all;
}

/// A comment has room for a few; the table lists them all.
std::string comment_of(std::vector<std::string> origins) {
  constexpr std::size_t most = 3;
  if (origins.size() > most) {
    const std::size_t left_out = origins.size() - (most - 1);
    origins.resize(most - 1);
    origins.push_back("and " + std::to_string(left_out) + " more");
  }
  return joined(origins, ", ");
}

/// Python's way of writing an integer: digits, with underscores between them.
std::optional<std::int64_t> to_integer(std::string text) {
  std::erase(text, '_');
  std::int64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || result.ec != std::errc{} || result.ptr != text.data() + text.size())
    return std::nullopt;
  return number;
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

}  // namespace

Facts::Facts(const SystemTable& table, std::vector<ForeignKey> keys)
    : table_(table), keys_(std::move(keys)), outcomes_(keys_.size()) {
  for (const KeyRule& rule : table_.keys) {
    if (const auto key = find_key(rule.path)) state(rule, *key);
  }
  for (const ImpliedFact& implied : table_.implied) {
    if (!has(implied.fact)) facts_[implied.fact] = {std::nullopt, implied.value, implied.why};
  }
  apply_always_rules();
}

void Facts::state(const KeyRule& rule, std::size_t key) {
  const ForeignKey& foreign = keys_[key];
  if (!foreign.missing.empty()) return;
  if (foreign.value.IsNull()) {
    outcomes_[key].understood = true;
    add_once(outcomes_[key].notes, "not set there either");
    return;
  }
  add_once(outcomes_[key].notes, rule.note);
  for (const std::string& fact : rule.facts) {
    if (const auto earlier = facts_.find(fact); earlier != facts_.end() && earlier->second.key) {
      add_once(outcomes_[*earlier->second.key].reasons, foreign.path + " says it too, and comes first");
    }
    facts_[fact] = {key, "", ""};
  }
}

YAML::Node Facts::value_of(const Fact& fact) const {
  return fact.key ? keys_[*fact.key].value : YAML::Node(fact.value);
}

std::optional<std::size_t> Facts::find_key(std::string_view path) const {
  const auto key = std::ranges::find(keys_, path, &ForeignKey::path);
  if (key == keys_.end()) return std::nullopt;
  return static_cast<std::size_t>(key - keys_.begin());
}

std::optional<std::int64_t> Facts::integer(const std::string& fact, std::int64_t min) const {
  const auto found = facts_.find(fact);
  if (found == facts_.end()) return std::nullopt;
  const YAML::Node value = value_of(found->second);
  const auto number = value.IsScalar() ? to_integer(value.Scalar()) : std::nullopt;
  if (!number) refuse(fact, "expected an integer");
  if (*number < min || *number > largest_count) {
    refuse(fact, "out of range; allowed: " + std::to_string(min) + " to " + std::to_string(largest_count));
  }
  return number;
}

std::optional<bool> Facts::flag(const std::string& fact) const {
  const auto found = facts_.find(fact);
  if (found == facts_.end()) return std::nullopt;
  bool flag = false;
  if (!YAML::convert<bool>::decode(value_of(found->second), flag)) refuse(fact, "expected true or false");
  return flag;
}

std::optional<std::string> Facts::word(const std::string& fact) const {
  const auto found = facts_.find(fact);
  if (found == facts_.end()) return std::nullopt;
  const YAML::Node value = value_of(found->second);
  if (!value.IsScalar()) refuse(fact, "expected a word");
  return value.Scalar();
}

std::optional<std::int64_t> Facts::count(const std::string& fact) const {
  const auto found = facts_.find(fact);
  if (found == facts_.end()) return std::nullopt;
  const YAML::Node value = value_of(found->second);
  if (value.IsSequence()) return static_cast<std::int64_t>(value.size());
  static const std::regex range(R"(\s*list\(\s*range\(\s*(?:(\d{1,9})\s*,\s*)?(\d{1,9})\s*\)\s*\)\s*)");
  std::smatch match;
  const std::string text = value.IsScalar() ? value.Scalar() : "";
  if (!std::regex_match(text, match, range)) return std::nullopt;
  const std::int64_t first = match[1].matched ? to_integer(match[1].str()).value_or(0) : 0;
  const std::int64_t devices = to_integer(match[2].str()).value_or(0) - first;
  return devices > 0 ? std::optional(devices) : std::nullopt;
}

void Facts::set(const std::string& path, const std::string& value, const std::vector<std::string>& facts,
                const std::string& note) {
  std::vector<std::string> origins;
  for (const std::string& name : facts) {
    const auto fact = facts_.find(name);
    if (fact == facts_.end()) continue;
    if (!fact->second.key) {
      add_once(origins, fact->second.why);
      continue;
    }
    Outcome& outcome = outcomes_[*fact->second.key];
    outcome.understood = true;
    add_once(outcome.evenkeel, path + ": " + value);
    add_once(outcome.notes, note);
    add_once(origins, keys_[*fact->second.key].path);
  }
  settings_.push_back({path, value, comment_of(std::move(origins))});
}

void Facts::set_because(const std::string& path, const std::string& value, const std::string& why) {
  settings_.push_back({path, value, why});
}

const Setting* Facts::find(std::string_view path) const {
  const auto setting = std::ranges::find(settings_, path, &Setting::path);
  return setting == settings_.end() ? nullptr : &*setting;
}

std::int64_t Facts::mesh_size(const std::string& axis) const {
  const Setting* size = find("mesh." + axis);
  return size == nullptr ? 1 : std::stoll(size->value);
}

void Facts::settle(const std::string& fact, const std::string& note) {
  const auto found = facts_.find(fact);
  if (found == facts_.end() || !found->second.key) return;
  outcomes_[*found->second.key].understood = true;
  add_once(outcomes_[*found->second.key].notes, note);
}

void Facts::leave(const std::string& fact, const std::string& why) {
  const auto found = facts_.find(fact);
  if (found != facts_.end() && found->second.key) add_once(outcomes_[*found->second.key].reasons, why);
}

void Facts::refuse(const std::string& fact, const std::string& message) const {
  const auto found = facts_.find(fact);
  if (found == facts_.end() || !found->second.key) throw ConfigError(fact, message);
  const ForeignKey& key = keys_[*found->second.key];
  throw ConfigError(key.where, message + ", found " + key.text);
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
    if (!key || outcomes_[*key].understood) continue;
    const std::string value = value_of(rule.path, rule.fallback);
    if (value == value_of(rule.as, rule.fallback)) {
      outcomes_[*key].understood = true;
      add_once(outcomes_[*key].notes, "as " + rule.as);
    } else {
      add_once(outcomes_[*key].reasons, "one job has one value, that of " + rule.as);
    }
  }
}

std::string Facts::value_of(std::string_view path, const std::string& fallback) const {
  const auto key = find_key(path);
  if (!key || keys_[*key].value.IsNull()) return fallback;
  const YAML::Node& value = keys_[*key].value;
  bool flag = false;
  if (YAML::convert<bool>::decode(value, flag)) return flag ? "true" : "false";
  return value.IsScalar() ? value.Scalar() : keys_[*key].text;
}

std::string Facts::why_unused(const ForeignKey& key) const {
  if (!key.missing.empty()) return "refers to " + key.missing + ", which this file does not have";
  if (const auto meant = meant_by(key.path, table_)) return "unknown here; did you mean " + *meant + "?";
  for (const OutsideRule& rule : table_.outside) {
    if (is_outside(key.path, rule)) return rule.why;
  }
  return "unknown here";
}

void Facts::report(std::vector<ImportedKey>& understood, std::vector<ImportedKey>& unused) {
  apply_same_rules();
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const Outcome& outcome = outcomes_[i];
    ImportedKey imported{keys_[i].path, keys_[i].text, outcome.evenkeel, joined(outcome.notes, "; ")};
    if (!outcome.understood) {
      imported.note = outcome.reasons.empty() ? why_unused(keys_[i]) : joined(outcome.reasons, "; ");
    }
    (outcome.understood ? understood : unused).push_back(std::move(imported));
  }
}

}  // namespace evenkeel::config_import
