#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/import/document.hpp"
#include "config/import/tables.hpp"

namespace evenkeel::config_import {

/// The largest number that an Evenkeel key of tokens or samples takes.
inline constexpr std::int64_t largest_count = (std::int64_t{1} << 31) - 1;

/// An Evenkeel key of the result.
struct Setting {
  std::string path;    ///< "profiles.ref.micro_batch.max_tokens"
  std::string value;   ///< as YAML text
  std::string origin;  ///< the foreign keys it came from, or why it is there
};

/// What a foreign configuration states, and what was made of it so far. Facts are asked for by name; every
/// setting names the facts it came from, so that each foreign key learns what it became. A fact is lost when
/// a key states it and its value cannot be found: asking for it then answers nothing, and is remembered as
/// missing.
class Facts {
 public:
  Facts(const SystemTable& table, Document document);

  [[nodiscard]] const SystemTable& table() const noexcept { return table_; }
  [[nodiscard]] const std::vector<Setting>& settings() const noexcept { return settings_; }

  /// Whether a key states it, lost or not, or it is implied.
  [[nodiscard]] bool has(const std::string& fact) const { return facts_.contains(fact); }
  [[nodiscard]] bool is_lost(const std::string& fact) const;
  /// Whether the files have a key that states any fact of this stage, if only as null.
  [[nodiscard]] bool mentions_stage(const std::string& stage) const;
  /// All four: nothing when no key states the fact, and when it is lost. Throw ConfigError, naming the key,
  /// for another type or an integer outside `min` to 2^31 - 1.
  [[nodiscard]] std::optional<std::int64_t> integer(const std::string& fact, std::int64_t min = 1);
  [[nodiscard]] std::optional<bool> flag(const std::string& fact);
  [[nodiscard]] std::optional<std::string> word(const std::string& fact);
  /// A list's entries, or those of Python's list(range(a, b)) and [0, 1] as a text.
  [[nodiscard]] std::optional<std::int64_t> count(const std::string& fact);

  /// Adds a setting that follows from these facts; `note` is for the reader of their keys. Facts that no key
  /// states give no origin, except implied ones, which give their reason.
  void set(const std::string& path, const std::string& value, const std::vector<std::string>& facts,
           const std::string& note = {});
  /// Adds a setting that no foreign key asked for.
  void set_because(const std::string& path, const std::string& value, const std::string& why);
  [[nodiscard]] const Setting* find(std::string_view path) const;
  /// Whether micro-batches have context-parallel groups of their own; after mesh.cp was set.
  [[nodiscard]] bool has_flexible_cp() const;
  /// Ranks along an axis of the mesh, "tp": what was set, else 1.
  [[nodiscard]] std::int64_t mesh_size(const std::string& axis) const;

  /// The fact's key was understood and asks for nothing.
  void settle(const std::string& fact, const std::string& note);
  /// Why the fact's key is not used, in case nothing else uses it.
  void leave(const std::string& fact, const std::string& why);
  /// Keys below `prefix` are not used, for this reason.
  void leave_section(const std::string& prefix, const std::string& why);
  [[noreturn]] void refuse(const std::string& fact, const std::string& message) const;

  /// A setting that this job cannot do without: it is missing unless it was set or a lost fact accounts for
  /// it. The key that would say it is that of the first of `facts`.
  void want(const std::string& path, const std::vector<std::string>& facts, const std::string& why);
  /// A setting that the fact's key would decide, and does not carry over.
  void miss(const std::string& path, const std::string& fact, const std::string& why);

  /// The outcome of every key, in the file's order, understood ones and the others, and what is missing.
  void report(ImportedConfig& imported);

 private:
  struct Fact {
    std::optional<std::size_t> key = {};  ///< its place in keys_; none when implied, or lost with its file
    std::string path = {};                ///< of the key that states it
    std::string value = {};               ///< of an implied one
    std::string why = {};                 ///< of an implied one
    std::string lost = {};                ///< why its value is not known
  };
  struct Outcome {
    bool understood = false;
    std::vector<std::string> evenkeel;
    std::vector<std::string> notes;    ///< shown when understood
    std::vector<std::string> reasons;  ///< shown when not
  };

  void state(const KeyRule& rule);
  /// A rule's path with "{a.b}" replaced by the value of that key.
  [[nodiscard]] std::string path_of(const KeyRule& rule) const;
  [[nodiscard]] std::string why_lost(std::string_view path) const;
  [[nodiscard]] bool is_harmless(const LostPart& part) const;
  /// The fact's value; null when no key states it. A lost one is remembered as asked for.
  [[nodiscard]] const Value* ask(const std::string& fact);
  void apply_always_rules();
  void apply_same_rules();
  void miss_as(const SameRule& rule, const std::string& why);
  [[nodiscard]] bool has_section_of(std::string_view path) const;
  void report_lost_facts();
  void add_missing(const std::string& foreign, const std::string& path, const std::string& why);
  [[nodiscard]] std::optional<std::size_t> find_key(std::string_view path) const;
  [[nodiscard]] std::string value_of(std::string_view path, const std::string& fallback) const;
  [[nodiscard]] std::string why_unused(const ForeignKey& key) const;
  [[nodiscard]] std::optional<std::string> left_section(std::string_view path) const;

  const SystemTable& table_;
  std::vector<ForeignKey> keys_;
  std::vector<LostPart> lost_;     ///< those that decide something
  std::vector<Outcome> outcomes_;  ///< one a key
  std::map<std::string, Fact> facts_;
  std::map<std::string, Value> implied_;
  std::set<std::string> asked_lost_;
  std::vector<std::pair<std::string, std::string>> left_sections_;
  std::vector<Setting> settings_;
  std::vector<MissingSetting> missing_;
};

/// The Evenkeel key that a fact decides: "batch.global_batch", "profiles.ref.micro_batch.max_tokens"; empty
/// for one that decides none of memory, batches, mesh and loss.
[[nodiscard]] std::string setting_of_fact(const SystemTable& table, const std::string& fact);
/// An Evenkeel key's default as YAML text, "profiles.NAME." in front or not.
[[nodiscard]] std::string default_of_setting(const std::string& path);

}  // namespace evenkeel::config_import
