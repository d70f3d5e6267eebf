#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config_import_document.hpp"
#include "config_import_tables.hpp"

namespace evenkeel::config_import {

/// The largest number that an Evenkeel key of tokens or samples takes.
inline constexpr std::int64_t largest_count = (std::int64_t{1} << 31) - 1;

/// An Evenkeel key of the result.
struct Setting {
  std::string path;    ///< "profiles.ref.micro_batch.max_tokens"
  std::string value;   ///< as YAML text
  std::string origin;  ///< the foreign keys it came from, or why it is there
};

/// What a foreign file states, and what was made of it so far. Facts are asked for by name; every setting
/// names the facts it came from, so that each foreign key learns what it became.
class Facts {
 public:
  Facts(const SystemTable& table, std::vector<ForeignKey> keys);

  [[nodiscard]] const SystemTable& table() const noexcept { return table_; }
  [[nodiscard]] const std::vector<Setting>& settings() const noexcept { return settings_; }

  [[nodiscard]] bool has(const std::string& fact) const { return facts_.contains(fact); }
  /// All three: nothing when no key states the fact. Throw ConfigError, naming the key, for another type or
  /// an integer outside `min` to 2^31 - 1.
  [[nodiscard]] std::optional<std::int64_t> integer(const std::string& fact, std::int64_t min = 1) const;
  [[nodiscard]] std::optional<bool> flag(const std::string& fact) const;
  [[nodiscard]] std::optional<std::string> word(const std::string& fact) const;
  /// A list's entries, or those of Python's list(range(a, b)); nothing when it is neither.
  [[nodiscard]] std::optional<std::int64_t> count(const std::string& fact) const;

  /// Adds a setting that follows from these facts; `note` is for the reader of their keys. Facts that no key
  /// states give no origin, except implied ones, which give their reason.
  void set(const std::string& path, const std::string& value, const std::vector<std::string>& facts,
           const std::string& note = {});
  /// Adds a setting that no foreign key asked for.
  void set_because(const std::string& path, const std::string& value, const std::string& why);
  [[nodiscard]] const Setting* find(std::string_view path) const;
  /// Ranks along an axis of the mesh, "tp": what was set, else 1.
  [[nodiscard]] std::int64_t mesh_size(const std::string& axis) const;

  /// The fact's key was understood and asks for nothing.
  void settle(const std::string& fact, const std::string& note);
  /// Why the fact's key is not used, in case nothing else uses it.
  void leave(const std::string& fact, const std::string& why);
  [[noreturn]] void refuse(const std::string& fact, const std::string& message) const;

  /// The outcome of every key, in the file's order: understood ones, then the others.
  void report(std::vector<ImportedKey>& understood, std::vector<ImportedKey>& unused);

 private:
  struct Fact {
    std::optional<std::size_t> key;  ///< its place in keys_; none when implied
    std::string value;               ///< of an implied one
    std::string why;                 ///< of an implied one
  };
  struct Outcome {
    bool understood = false;
    std::vector<std::string> evenkeel;
    std::vector<std::string> notes;    ///< shown when understood
    std::vector<std::string> reasons;  ///< shown when not
  };

  void state(const KeyRule& rule, std::size_t key);
  [[nodiscard]] YAML::Node value_of(const Fact& fact) const;
  void apply_always_rules();
  void apply_same_rules();
  [[nodiscard]] std::optional<std::size_t> find_key(std::string_view path) const;
  [[nodiscard]] std::string value_of(std::string_view path, const std::string& fallback) const;
  [[nodiscard]] std::string why_unused(const ForeignKey& key) const;

  const SystemTable& table_;
  std::vector<ForeignKey> keys_;
  std::vector<Outcome> outcomes_;  ///< one a key
  std::map<std::string, Fact> facts_;
  std::vector<Setting> settings_;
};

}  // namespace evenkeel::config_import
