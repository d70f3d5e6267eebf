#include "config/import/facts.hpp"

#include <algorithm>
#include <charconv>
#include <regex>

#include "base/printable.hpp"
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

/// The entries of "[0, 1, 2]"; nothing for any other text.
std::optional<std::int64_t> count_of_list(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  const std::size_t end = text.find_last_not_of(' ');
  if (begin == std::string_view::npos || text[begin] != '[' || text[end] != ']' || end < begin + 2)
    return std::nullopt;
  const std::string_view body = text.substr(begin + 1, end - begin - 1);
  const bool is_plain = body.find_first_not_of("0123456789, ") == std::string_view::npos &&
                        body.find_first_of("0123456789") != std::string_view::npos;
  const bool ends_with_comma = is_plain && body[body.find_last_not_of(' ')] == ',';
  return is_plain ? std::optional(std::ranges::count(body, ',') + (ends_with_comma ? 0 : 1)) : std::nullopt;
}

/// The entries of "list(range(0, 8))"; nothing for any other text.
std::optional<std::int64_t> count_of_range(const std::string& text) {
  constexpr std::size_t longest = 100;
  static const std::regex range(R"(\s*list\(\s*range\(\s*(?:(\d{1,9})\s*,\s*)?(\d{1,9})\s*\)\s*\)\s*)");
  std::smatch match;
  if (text.size() > longest || !std::regex_match(text, match, range)) return std::nullopt;
  const std::int64_t first = match[1].matched ? std::stoll(match[1].str()) : 0;
  return std::max<std::int64_t>(0, std::stoll(match[2].str()) - first);
}

/// How many entries a Python expression of lists has: "list(range(0, 8)) + [9, 10]"; nothing for any other.
std::optional<std::int64_t> count_of_python(const std::string& text) {
  std::int64_t count = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    const std::string term = text.substr(begin, end - begin);
    const auto of_range = count_of_range(term);
    const auto of_term = of_range ? of_range : count_of_list(term);
    if (!of_term) return std::nullopt;
    count += *of_term;
    begin = end + 1;
  }
  return count > 0 ? std::optional(count) : std::nullopt;
}

}  // namespace

Facts::Facts(const SystemTable& table, Document document)
    : table_(table), keys_(std::move(document.keys)), outcomes_(keys_.size()) {
  for (LostPart& part : document.lost) {
    if (!is_harmless(part)) lost_.push_back(std::move(part));
  }
  for (const KeyRule& rule : table_.keys) state(rule);
  for (const ImpliedFact& implied : table_.implied) {
    const auto is_there = [&](const ForeignKey& key) { return key.path.starts_with(implied.section); };
    if (has(implied.fact) || std::ranges::none_of(keys_, is_there)) continue;
    facts_[implied.fact] = {.value = implied.value, .why = implied.why};
    implied_[implied.fact] = scalar(implied.value);
  }
  apply_always_rules();
}

std::string Facts::path_of(const KeyRule& rule) const {
  const std::size_t begin = rule.path.find('{');
  if (begin == std::string::npos) return rule.path;
  const std::size_t end = rule.path.find('}', begin);
  const auto named = find_key(rule.path.substr(begin + 1, end - begin - 1));
  return named ? rule.path.substr(0, begin) + keys_[*named].text + rule.path.substr(end + 1) : rule.path;
}

void Facts::state(const KeyRule& rule) {
  const std::string path = path_of(rule);
  const auto key = find_key(path);
  const std::string lost = key ? keys_[*key].value.missing : why_lost(path);
  if (!key && lost.empty()) return;
  if (lost.empty() && keys_[*key].value.is_null()) {
    outcomes_[*key].understood = true;
    add_once(outcomes_[*key].notes, "not set there either");
    return;
  }
  if (key) add_once(outcomes_[*key].notes, rule.note);
  for (const std::string& fact : rule.facts) {
    if (const auto earlier = facts_.find(fact); earlier != facts_.end() && earlier->second.key && key) {
      add_once(outcomes_[*earlier->second.key].reasons, path + " says it too, and comes first");
    }
    facts_[fact] = {.key = key, .path = path, .lost = lost};
  }
}

/// A key that is not there may be meant by a section that leads nowhere, or stand in a file that is not
/// found.
std::string Facts::why_lost(std::string_view path) const {
  for (const ForeignKey& key : keys_) {
    if (!key.value.missing.empty() && path.starts_with(key.path + ".")) return key.value.missing;
  }
  for (const LostPart& part : lost_) {
    if (starts_with(split_path(path), part.package))
      return part.file + " may say it, and that file is not found (" + part.entry + ")";
  }
  return "";
}

bool Facts::is_harmless(const LostPart& part) const {
  const std::string name = part.file.substr(part.file.rfind('/') + 1);
  return std::ranges::any_of(table_.harmless, [&](const std::string& harmless) {
    return name == harmless + ".yaml" || starts_with(part.package, split_path(harmless));
  });
}

std::optional<std::size_t> Facts::find_key(std::string_view path) const {
  const auto key = std::ranges::find(keys_, path, &ForeignKey::path);
  if (key == keys_.end()) return std::nullopt;
  return static_cast<std::size_t>(key - keys_.begin());
}

bool Facts::is_lost(const std::string& fact) const {
  const auto found = facts_.find(fact);
  return found != facts_.end() && !found->second.lost.empty();
}

bool Facts::mentions_stage(const std::string& stage) const {
  return std::ranges::any_of(table_.keys, [&](const KeyRule& rule) {
    const auto is_of_stage = [&](const std::string& fact) { return fact.starts_with(stage + "."); };
    return std::ranges::any_of(rule.facts, is_of_stage) &&
           (find_key(rule.path) || !why_lost(rule.path).empty());
  });
}

const Value* Facts::ask(const std::string& fact) {
  const auto found = facts_.find(fact);
  if (found == facts_.end()) return nullptr;
  if (!found->second.lost.empty()) {
    asked_lost_.insert(fact);
    return nullptr;
  }
  return found->second.key ? &keys_[*found->second.key].value : &implied_.at(fact);
}

std::optional<std::int64_t> Facts::integer(const std::string& fact, std::int64_t min) {
  const Value* value = ask(fact);
  if (value == nullptr) return std::nullopt;
  const auto number = as_integer(*value);
  if (!number) refuse(fact, "expected an integer");
  if (*number < min || *number > largest_count) {
    refuse(fact, "out of range; allowed: " + std::to_string(min) + " to " + std::to_string(largest_count));
  }
  return number;
}

std::optional<bool> Facts::flag(const std::string& fact) {
  const Value* value = ask(fact);
  if (value == nullptr) return std::nullopt;
  const auto flag = as_flag(*value);
  if (!flag) refuse(fact, "expected true or false");
  return flag;
}

std::optional<std::string> Facts::word(const std::string& fact) {
  const Value* value = ask(fact);
  if (value == nullptr) return std::nullopt;
  if (!value->is_scalar()) refuse(fact, "expected a word");
  if (const auto flag = as_flag(*value); flag && !value->quoted) return *flag ? "true" : "false";
  return value->text;
}

std::optional<std::int64_t> Facts::count(const std::string& fact) {
  const Value* value = ask(fact);
  if (value == nullptr) return std::nullopt;
  const auto count = value->is_list() ? static_cast<std::int64_t>(value->items.size())
                                      : count_of_python(value->is_scalar() ? value->text : "");
  if (count) return count;
  facts_[fact].lost = "is no list whose entries can be counted";
  asked_lost_.insert(fact);
  return std::nullopt;
}

void Facts::set(const std::string& path, const std::string& value, const std::vector<std::string>& facts,
                const std::string& note) {
  std::vector<std::string> origins;
  for (const std::string& name : facts) {
    const auto fact = facts_.find(name);
    if (fact == facts_.end() || !fact->second.lost.empty()) continue;
    if (!fact->second.key) {
      add_once(origins, fact->second.why);
      continue;
    }
    Outcome& outcome = outcomes_[*fact->second.key];
    outcome.understood = true;
    add_once(outcome.evenkeel, path + ": " + value);
    add_once(outcome.notes, note);
    add_once(origins, printable(fact->second.path));
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
  return size == nullptr || (axis == "cp" && has_flexible_cp()) ? 1 : std::stoll(size->value);
}

bool Facts::has_flexible_cp() const {
  const Setting* cp = find("mesh.cp");
  return cp != nullptr && cp->value == "flexible";
}

void Facts::settle(const std::string& fact, const std::string& note) {
  const auto found = facts_.find(fact);
  if (found == facts_.end() || !found->second.key || !found->second.lost.empty()) return;
  outcomes_[*found->second.key].understood = true;
  add_once(outcomes_[*found->second.key].notes, note);
}

void Facts::leave(const std::string& fact, const std::string& why) {
  const auto found = facts_.find(fact);
  if (found != facts_.end() && found->second.key) add_once(outcomes_[*found->second.key].reasons, why);
}

void Facts::leave_section(const std::string& prefix, const std::string& why) {
  left_sections_.emplace_back(prefix, why);
}

void Facts::refuse(const std::string& fact, const std::string& message) const {
  const auto found = facts_.find(fact);
  if (found == facts_.end() || !found->second.key) throw ConfigError(fact, message);
  const ForeignKey& key = keys_[*found->second.key];
  throw ConfigError(key.where, message + ", found " + key.text);
}

}  // namespace evenkeel::config_import
