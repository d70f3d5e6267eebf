#include "config/import/compose.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "evenkeel/base/error.hpp"

namespace evenkeel::config_import {
namespace {

constexpr int deepest = 32;
constexpr std::size_t most_files = 1000;

/// An entry of a defaults list.
struct Entry {
  bool is_override = false;
  bool is_optional = false;
  std::string key;                   ///< as it stands there: "actor@actor_rollout_ref.actor"
  std::string group;                 ///< "../optim", "/model"; empty for a file of its own
  std::optional<std::string> where;  ///< the package behind "@"
  std::vector<std::string> options;  ///< file names in the group; none for null
  std::string text;                  ///< as it stands there
  std::string place;
};

/// "a/../b" -> "b"; what leads out of the first folder keeps its "..".
std::string normal(const std::string& path) {
  return std::filesystem::path(path).lexically_normal().generic_string();
}

Path join(Path package, const Path& below) {
  package.insert(package.end(), below.begin(), below.end());
  return package;
}

/// A group's own place in a configuration: its path without what leads up.
Path package_of_group(std::string_view group) {
  Path package;
  std::istringstream parts{std::string(group)};
  for (std::string part; std::getline(parts, part, '/');) {
    if (!part.empty() && part != "." && part != "..") package.push_back(part);
  }
  return package;
}

/// The package a file names at its top: "# @package _global_"; nothing when it names none.
std::optional<std::string> package_directive(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos) continue;
    if (line[begin] != '#') return std::nullopt;
    std::istringstream words(line.substr(begin + 1));
    std::string key;
    std::string package;
    if (words >> key >> package && key == "@package") return package;
  }
  return std::nullopt;
}

bool take_word(std::string& text, const std::string& word) {
  if (!text.starts_with(word + " ")) return false;
  text.erase(0, text.find_first_not_of(' ', word.size()));
  return true;
}

Entry parse_entry(const Value& value) {
  Entry entry;
  entry.text = one_line(value);
  entry.place = value.place;
  std::string key;
  if (value.is_scalar()) {
    key = value.text;
  } else if (value.is_map() && value.entries.size() == 1) {
    key = value.entries.front().first;
    const Value& option = value.entries.front().second;
    entry.text = key + ": " + one_line(option);
    if (option.is_scalar()) entry.options.push_back(option.text);
    for (const Value& item : option.items) entry.options.push_back(item.text);
  } else {
    throw ConfigError(value.place, "an entry of defaults is a file or one \"group: option\"");
  }
  entry.is_override = take_word(key, "override");
  entry.is_optional = take_word(key, "optional");
  if (value.is_map()) entry.key = key;
  const std::size_t at = key.find('@');
  if (at != std::string::npos) entry.where = key.substr(at + 1);
  key.resize(std::min(at, key.size()));
  if (value.is_map()) {
    entry.group = key;
  } else {
    entry.options.push_back(key);
  }
  return entry;
}

class Composer {
 public:
  Composer(const std::filesystem::path& file, const std::vector<Override>& overrides,
           const ReadFile& read_file)
      : folder_(file.parent_path()), overrides_(overrides), read_file_(read_file) {}

  Composition compose(const std::string& yaml, const std::string& name) {
    Value primary = read_value(yaml, name);
    if (!primary.is_map()) throw ConfigError(name, "expected a map of sections, found " + kind_of(primary));
    add_search_path(primary);
    const std::optional<std::string> directive = package_directive(yaml);
    made_.root.kind = Value::Kind::map;
    made_.root.place = name;
    visit(std::move(primary), "", package_named(directive.value_or("_global_"), {}, ""), 0);
    for (const Override& change : overrides_) {
      if (used_.contains(change.place)) continue;
      if (change.names_group()) {
        throw ConfigError(change.place, "no defaults list has the group " + change.key,
                          "To add it, write +" + change.key + "=...");
      }
      apply_override(made_.root, change, made_.lost);
    }
    return std::move(made_);
  }

 private:
  static std::string kind_of(const Value& value) {
    if (value.is_null()) return "null";
    return value.is_list() ? "a list" : value.text.substr(0, 60);
  }

  /// The defaults list of a file; null when it has none.
  static const Value* list_of(const Value& content) {
    const Value* list = content.find("defaults");
    return list != nullptr && list->is_list() ? list : nullptr;
  }

  void add_search_path(const Value& primary) {
    const Value* hydra = primary.find("hydra");
    const Value* paths = hydra == nullptr ? nullptr : hydra->find("searchpath");
    if (paths == nullptr) return;
    for (const Value& path : paths->items) {
      constexpr std::string_view scheme = "file://";
      if (path.text.starts_with(scheme)) search_path_.emplace_back(path.text.substr(scheme.size()));
    }
  }

  /// Which option of each group is asked for: by an override, else by the outermost file that says it.
  void choose(std::vector<Entry>& entries) {
    for (Entry& entry : entries) {
      for (const Override& change : overrides_) {
        if (entry.key.empty() || entry.key != change.key) continue;
        entry.options.clear();
        if (change.value.is_scalar()) entry.options.push_back(change.value.text);
        for (const Value& item : change.value.items) entry.options.push_back(item.text);
        used_.insert(change.place);
      }
      if (!entry.key.empty() && !entry.options.empty())
        choices_.try_emplace(entry.key, entry.options.front());
    }
  }

  /// What "+group=option" adds to the first file's list.
  void add_groups(std::vector<Entry>& entries) {
    for (const Override& change : overrides_) {
      const bool is_there = std::ranges::find(entries, change.key, &Entry::key) != entries.end();
      if (change.kind != Override::Kind::add || is_there || !names_file(change)) continue;
      Value added;
      added.kind = Value::Kind::map;
      added.place = change.place;
      added.entries.push_back({change.key, change.value});
      entries.insert(std::ranges::find_if(entries, is_self), parse_entry(added));
    }
  }

  static bool is_self(const Entry& entry) {
    return entry.group.empty() && entry.options == std::vector<std::string>{"_self_"};
  }

  [[nodiscard]] bool names_file(const Override& change) const {
    const std::string group = change.key.substr(0, change.key.find('@'));
    return change.value.is_scalar() && group.find('.') == std::string::npos &&
           find_file(group + "/" + change.value.text).has_value();
  }

  /// A file of the configuration, by its name without ".yaml".
  [[nodiscard]] std::optional<std::pair<std::string, std::string>> find_file(const std::string& name) const {
    if (!read_file_) return std::nullopt;
    std::vector<std::filesystem::path> folders{folder_};
    for (const std::filesystem::path& path : search_path_) {
      folders.push_back(path);
      if (path.is_relative()) folders.push_back(folder_ / path);
    }
    for (const std::filesystem::path& folder : folders) {
      const std::filesystem::path file = (folder / (name + ".yaml")).lexically_normal();
      if (auto text = read_file_(file)) return std::pair(file.string(), std::move(*text));
    }
    return std::nullopt;
  }

  /// A package as written behind "@" or in a directive, inside one around it.
  static Path package_named(const std::string& name, const Path& around, std::string_view group) {
    if (name == "_here_") return around;
    if (name == "_global_" || name.empty()) return {};
    if (name == "_group_") return package_of_group(group);
    if (name.starts_with("_global_.")) return split_path(name.substr(9));
    return join(around, split_path(name));
  }

  void visit(Value content, const std::string& group, const Path& package, int depth) {
    if (depth > deepest || made_.files.size() > most_files)
      throw ConfigError(content.place, "its defaults lists lead round in a circle");
    const Value* found = list_of(content);
    const std::vector<Value> list = found == nullptr ? std::vector<Value>{} : found->items;
    if (found != nullptr)
      std::erase_if(content.entries, [](const auto& it) { return it.first == "defaults"; });
    std::vector<Entry> entries;
    for (const Value& item : list) entries.push_back(parse_entry(item));
    if (depth == 0) add_groups(entries);
    choose(entries);
    for (const Entry& entry : entries) {
      if (entry.is_override) overridden_.insert({key_of(entry, group, package), entry.options});
    }
    bool has_self = false;
    for (Entry& entry : entries) {
      if (entry.is_override) continue;
      if (is_self(entry)) {
        has_self = true;
        merge_at(made_.root, package, content);
      } else {
        include(entry, group, package, depth);
      }
    }
    if (!has_self) merge_at(made_.root, package, content);
  }

  /// What "override" names an entry by: its group and where that goes.
  static std::string key_of(const Entry& entry, const std::string& group, const Path& package) {
    return full_group(entry, group) + "@" + dotted(package_of(entry, package));
  }

  static std::string full_group(const Entry& entry, const std::string& group) {
    if (entry.group.starts_with('/')) return normal(entry.group.substr(1));
    return normal(group.empty() ? entry.group : group + "/" + entry.group);
  }

  static Path package_of(const Entry& entry, const Path& package) {
    if (entry.where) return package_named(*entry.where, package, entry.group);
    return join(package, package_of_group(entry.group));
  }

  void include(Entry& entry, const std::string& group, const Path& package, int depth) {
    const std::string of_group = full_group(entry, group);
    if (of_group == "hydra" || of_group.starts_with("hydra/")) return;  // Hydra's own settings
    if (const auto other = overridden_.find(key_of(entry, group, package)); other != overridden_.end())
      entry.options = other->second;
    for (const std::string& option : entry.options) {
      const std::string chosen = with_choices(option, entry.place);
      // "null" is kept free for others to choose.
      if (!chosen.empty() && chosen != "null") include_file(entry, of_group, chosen, group, package, depth);
    }
  }

  void include_file(const Entry& entry, const std::string& of_group, const std::string& option,
                    const std::string& group, const Path& package, int depth) {
    // A file of its own may bring its folder: "- db/mysql".
    const bool is_plain = entry.group.empty();
    const std::string base = is_plain ? group : of_group;
    const std::string joined = base.empty() || option.starts_with('/') ? option : base + "/" + option;
    const std::string name = normal(joined.starts_with('/') ? joined.substr(1) : joined);
    Path where = package_of(entry, package);
    if (is_plain && !entry.where)
      where = join(where, package_of_group(option.substr(0, option.rfind('/') + 1)));
    auto file = find_file(name);
    if (!file) {
      if (!entry.is_optional) made_.lost.push_back({where, entry.text, name + ".yaml", entry.place});
      return;
    }
    const std::size_t slash = name.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : name.substr(0, slash);
    if (const auto directive = package_directive(file->second); directive && !entry.where)
      where = package_named(*directive, {}, folder);
    made_.files.push_back(file->first);
    Value content = read_value(file->second, file->first);
    if (content.is_null()) return;
    if (!content.is_map()) throw ConfigError(file->first, "expected a map of keys");
    visit(std::move(content), folder, where, depth + 1);
  }

  /// ${group} in an option stands for the option chosen of that group.
  [[nodiscard]] std::string with_choices(std::string option, const std::string& place) const {
    for (std::size_t begin = option.find("${"); begin != std::string::npos; begin = option.find("${")) {
      const std::size_t end = option.find('}', begin);
      const std::string group = option.substr(begin + 2, end == std::string::npos ? end : end - begin - 2);
      const auto choice = choices_.find(group);
      if (end == std::string::npos || choice == choices_.end() ||
          choice->second.find("${") != std::string::npos) {
        throw ConfigError(place, "the defaults list has no group " + group + " to choose " + option + " by");
      }
      option.replace(begin, end + 1 - begin, choice->second);
    }
    return option;
  }

  std::filesystem::path folder_;
  std::vector<std::filesystem::path> search_path_;
  const std::vector<Override>& overrides_;
  const ReadFile& read_file_;
  std::set<std::string> used_;                  ///< overrides that chose an option
  std::map<std::string, std::string> choices_;  ///< group -> option
  std::map<std::string, std::vector<std::string>> overridden_;
  Composition made_;
};

}  // namespace

Composition compose(const std::string& yaml, const std::filesystem::path& file,
                    const std::vector<Override>& overrides, const ReadFile& read_file) {
  return Composer(file, overrides, read_file).compose(yaml, file.string());
}

}  // namespace evenkeel::config_import
