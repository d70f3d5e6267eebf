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

/// The layers of a model on each stage of its pipeline, with virtual stages numbered as in Megatron-Core:
/// part v of rank s is stage v * pp + s. Each stage's layers are in the order in which its rank gets them. If
/// there are no stages, layers are split evenly, in order.
struct LayerMap {
  std::vector<std::vector<std::int64_t>> stages;

  friend bool operator==(const LayerMap&, const LayerMap&) = default;
};

/// The element type of a field's integers in transfer or in micro-batches.
enum class FieldWidth : std::uint8_t {
  original,  ///< the type supplied by samples
  narrow,    ///< the smallest type that holds every element of the step, over all ranks
};

/// Which pipeline stages get a field that is not split by layers.
enum class FieldStages : std::uint8_t { last, first, all };

/// The values of a counted field that are stored only once, in transfer and in micro-batches.
enum class FieldSharing : std::uint8_t {
  none,   ///< each sample has its own value
  equal,  ///< equal values of an owner are sent to a node and stored there once, for all its ranks
};

/// The place of a token's value in a list or a column. In steps, it is the row that predicts the token.
enum class RowConvention : std::uint8_t {
  token,     ///< at the token; one row per token
  next,      ///< at the row that predicts the token; one row per token, the last of which predicts nothing
  response,  ///< at the token's place in the response; one row per response token
};

/// How a field of the samples is changed on the way to the micro-batches.
struct FieldSettings {
  /// If set, the first dimension of a row is the layers, and each pipeline stage gets its own layers.
  std::optional<LayerMap> layers;
  FieldWidth wire_dtype = FieldWidth::original;  ///< in transfer from owners to trainers
  FieldWidth dtype = FieldWidth::original;       ///< in micro-batches; may be narrow only if `wire_dtype` is
  FieldStages stage = FieldStages::last;
  std::optional<LineFormat> read_as{};  ///< how JSON Lines represent the field, if that cannot be inferred
  /// If set, the convention that the samples' rows follow. Required for labels and loss masks with one row
  /// per token.
  std::optional<RowConvention> at{};
  FieldSharing share = FieldSharing::none;
  /// For counted rows: the field of token ranges, [rows, 2], by which each context-parallel rank gets only
  /// the rows with tokens on that rank. If empty, rows are not cut.
  std::string cut_by{};
  /// The profiles (Config::profiles) whose passes get the field; other passes do not have it. If empty, all
  /// passes get it, including those without a profile.
  std::vector<std::string> profiles{};
  /// For rows of routes, whose elements are numbers of experts: number of experts to which pad rows are
  /// routed in turn. If 0, their elements are zeros, which all route to the first expert.
  std::int64_t spread_pads = 0;

  friend bool operator==(const FieldSettings&, const FieldSettings&) = default;
};

using NamedFields = std::map<std::string, FieldSettings, std::less<>>;

/// Returns whether equal values of the field with this name are stored once.
[[nodiscard]] inline bool shares_equal(const NamedFields& fields, std::string_view name) noexcept {
  const auto found = fields.find(name);
  return found != fields.end() && found->second.share == FieldSharing::equal;
}
/// Returns whether equal values of any field are stored once.
[[nodiscard]] inline bool shares_equal(const NamedFields& fields) noexcept {
  for (const auto& field : fields) {
    if (field.second.share == FieldSharing::equal) return true;
  }
  return false;
}

/// Returns whether rows of the field with this name are cut with their samples' tokens, or determine how
/// another field is cut.
[[nodiscard]] inline bool cuts_rows(const NamedFields& fields, std::string_view name) noexcept {
  for (const auto& [field, settings] : fields) {
    if (!settings.cut_by.empty() && (field == name || settings.cut_by == name)) return true;
  }
  return false;
}
/// Returns whether rows of any field are cut with their samples' tokens.
[[nodiscard]] inline bool cuts_rows(const NamedFields& fields) noexcept {
  for (const auto& field : fields) {
    if (!field.second.cut_by.empty()) return true;
  }
  return false;
}

}  // namespace evenkeel
