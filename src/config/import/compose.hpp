#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/import/overrides.hpp"
#include "config/import/references.hpp"
#include "config/import/value.hpp"

namespace evenkeel::config_import {

using ReadFile = std::function<std::optional<std::string>(const std::filesystem::path&)>;

/// A configuration put together, its references not yet followed.
struct Composition {
  Value root;
  std::vector<std::string> files;  ///< that were read besides the first, in that order
  std::vector<LostPart> lost;
};

/// Puts a configuration together as Hydra does, from the `defaults` lists of a file and of those it names:
/// "- group: option", "- group@package: option", "- file@package", "- /absolute/group: option",
/// "- optional group: option", "- override group: option", "- _self_", lists of options, ${group} in an
/// option, and "# @package" at the top of a file. Files are looked for beside the first one and in its
/// hydra.searchpath (file:// only). What a file says itself comes after its defaults when it has no _self_.
///
/// Overrides choose options ("model_engine=megatron", "actor@actor_rollout_ref.actor=megatron_actor",
/// "+group=option", "~group") and then set values. Throws ConfigError for what Hydra refuses: a malformed
/// entry, an override of a key that is not there.
[[nodiscard]] Composition compose(const std::string& yaml, const std::filesystem::path& file,
                                  const std::vector<Override>& overrides, const ReadFile& read_file);

}  // namespace evenkeel::config_import
