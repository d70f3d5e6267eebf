#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/batch/dtype.hpp"

namespace evenkeel {

/// Which layers of a model each stage of its pipeline has, virtual stages counted as Megatron-Core does: part
/// v of rank s is stage v * pp + s. Each stage's layers are in the order in which its rank is handed them.
/// No stages at all: an even split, as many layers for each, in order.
struct LayerMap {
  std::vector<std::vector<std::int64_t>> stages;

  friend bool operator==(const LayerMap&, const LayerMap&) = default;
};

/// The element type of a field's integers somewhere on its way.
enum class FieldWidth : std::uint8_t {
  as_brought,  ///< what samples bring
  narrow,      ///< the smallest that holds every element of the step, over all ranks
};

/// Which pipeline stages are sent a field that is not split by layers.
enum class FieldStages : std::uint8_t { last, first, all };

/// Which values of a counted field lie together, on their way and in micro-batches.
enum class FieldSharing : std::uint8_t {
  none,   ///< each sample has its own
  equal,  ///< equal ones of an owner travel to a node and lie there once, where all its ranks read them
};

/// What becomes of one field that samples bring, where it is not handed out as it is brought.
struct FieldSettings {
  /// Set: the first dimension of a row counts layers, and a pipeline stage is handed those that it has.
  std::optional<LayerMap> layers;
  FieldWidth wire = FieldWidth::as_brought;      ///< on the way from owners to trainers
  FieldWidth hand_out = FieldWidth::as_brought;  ///< in micro-batches; narrow only where the wire is
  FieldStages stage = FieldStages::last;
  std::optional<LineFormat> read_as{};  ///< how JSON lines write it, where they do not tell themselves
  FieldSharing share = FieldSharing::none;
  /// Of rows that samples count: the field of token ranges, [rows, 2], by which context-parallel ranks are
  /// handed those rows alone that have tokens of theirs. Empty: rows are not cut.
  std::string cut_by{};
  /// The profiles (Config::profiles) under which passes are sent the field; others have it not at all. None:
  /// all passes, those without a profile, too.
  std::vector<std::string> profiles{};

  friend bool operator==(const FieldSettings&, const FieldSettings&) = default;
};

using NamedFields = std::map<std::string, FieldSettings, std::less<>>;

/// Whether equal values of the field of that name lie once; and whether those of any do.
[[nodiscard]] inline bool shares_equal(const NamedFields& fields, std::string_view name) noexcept {
  const auto found = fields.find(name);
  return found != fields.end() && found->second.share == FieldSharing::equal;
}
[[nodiscard]] inline bool shares_equal(const NamedFields& fields) noexcept {
  for (const auto& field : fields) {
    if (field.second.share == FieldSharing::equal) return true;
  }
  return false;
}

/// Whether rows of the field of that name are cut with their samples' tokens, or cut others; and whether
/// those of any are.
[[nodiscard]] inline bool cuts_rows(const NamedFields& fields, std::string_view name) noexcept {
  for (const auto& [field, settings] : fields) {
    if (!settings.cut_by.empty() && (field == name || settings.cut_by == name)) return true;
  }
  return false;
}
[[nodiscard]] inline bool cuts_rows(const NamedFields& fields) noexcept {
  for (const auto& field : fields) {
    if (!field.second.cut_by.empty()) return true;
  }
  return false;
}

}  // namespace evenkeel
