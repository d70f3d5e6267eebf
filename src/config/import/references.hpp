#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/import/value.hpp"

namespace evenkeel::config_import {

/// A part of a configuration that a file which is not here would fill.
struct LostPart {
  Path package;       ///< where its keys would stand
  std::string entry;  ///< as its defaults list has it: "actor@actor_rollout_ref.actor: dp_actor"
  std::string file;   ///< "actor/dp_actor.yaml"
  std::string place;  ///< "FILE:LINE" of the entry
};

/// Follows OmegaConf's references: ${a.b}, ${.sibling}, ${..x}, ${a[0]}, ${a.${b}}, references inside a
/// longer text, ${oc.select:key,default}, ${oc.env:NAME,default}, ${oc.decode:text}, and arithmetic. A value
/// that cannot be followed keeps its text and says why. What a lost part may say is never taken for its
/// default.
///
/// Deterministic; reads nothing but its arguments, which must outlive it.
class References {
 public:
  References(const Value& root, const std::map<std::string, std::string>& environment,
             const std::vector<LostPart>& lost)
      : root_(root), environment_(environment), lost_(lost) {}

  /// The whole configuration with every reference followed. Throws ConfigError when that grows without bound.
  [[nodiscard]] Value follow_all();

 private:
  friend class TextReader;

  /// What a path leads to; `absent` when nothing stands there.
  struct Selected {
    Value value;
    bool absent = false;
  };

  /// Everything below a value whose place in the configuration is `at`.
  Value follow(const Value& value, const Path& at);
  /// A text with references in it.
  Value evaluate(const Value& value, const Path& at);
  [[nodiscard]] Selected select(const Path& path);
  Value resolve(const std::string& name, const std::vector<Value>& arguments, const Path& at);
  Value select_or_default(const std::vector<Value>& arguments, const Path& at);
  Value from_environment(const std::vector<Value>& arguments);
  Value decode(const Value& argument, const Path& at);
  [[nodiscard]] std::string why_absent(const Path& path) const;
  void count_work(std::size_t values = 1);

  const Value& root_;
  const std::map<std::string, std::string>& environment_;
  const std::vector<LostPart>& lost_;
  std::map<Path, Value> followed_;  ///< by place, so that each text is read once
  std::vector<Path> open_;          ///< the places that are being read, outermost first
  int decoding_ = 0;                ///< texts that oc.decode is reading, each inside the one before
  std::size_t work_ = 0;
};

}  // namespace evenkeel::config_import
