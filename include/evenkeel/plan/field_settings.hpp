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

/// Which layers of a model each stage of its pipeline has, with virtual stages numbered as in Megatron-Core:
/// part v of rank s is stage v * pp + s. Each stage's layers are in the order in which its rank gets them. No
/// stages at all: an even split, in order.
struct LayerMap {
  std::vector<std::vector<std::int64_t>> stages;

  friend bool operator==(const LayerMap&, const LayerMap&) = default;
};

/// The element type of a field's integers in transfer or in micro-batches.
enum class FieldWidth : std::uint8_t {
  as_brought,  ///< the type that samples bring
  narrow,      ///< the smallest type that holds every element of the step, over all ranks
};

/// Which pipeline stages get a field that is not split by layers.
enum class FieldStages : std::uint8_t { last, first, all };

/// Which values of a counted field are stored once, in transfer and in micro-batches.
enum class FieldSharing : std::uint8_t {
  none,   ///< each sample has its own
  equal,  ///< equal ones of an owner are sent to a node and stored there once, for all its ranks
};

/// Where a list or a column has the value of a token. Steps have it at the row that predicts the token.
enum class RowConvention : std::uint8_t {
  token,     ///< at the token; one row per token
  next,      ///< at the row that predicts the token; one row per token, of which the last predicts nothing
  response,  ///< at the token's place in the response; one row per response token
};

/// How one field that samples bring is delivered, if not unchanged.
struct FieldSettings {
  /// Set: the first dimension of a row is the layers, and a pipeline stage gets its own.
  std::optional<LayerMap> layers;
  FieldWidth wire = FieldWidth::as_brought;      ///< in transfer from owners to trainers
  FieldWidth hand_out = FieldWidth::as_brought;  ///< in micro-batches; narrow only if the wire is
  FieldStages stage = FieldStages::last;
  std::optional<LineFormat> read_as{};  ///< how JSON Lines write it, if they do not show it themselves
  /// Set: the convention that the samples' rows follow. Labels and loss masks of one row per token need it.
  std::optional<RowConvention> at{};
  FieldSharing share = FieldSharing::none;
  /// For counted rows: the field of token ranges, [rows, 2], such that each context-parallel rank gets only
  /// the rows with tokens on it. Empty: rows are not cut.
  std::string cut_by{};
  /// The profiles (Config::profiles) whose passes get the field; others do not have it. None: all passes,
  /// including those without a profile.
  std::vector<std::string> profiles{};
  /// For rows of routes, whose elements are numbers of experts: pad rows are routed to this many experts in
  /// turn. 0: their elements are zeros, which all route to the first.
  std::int64_t spread_pads = 0;

  friend bool operator==(const FieldSettings&, const FieldSettings&) = default;
};

using NamedFields = std::map<std::string, FieldSettings, std::less<>>;

/// Whether equal values of the field of that name are stored once; and whether those of any field are.
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
/// those of any field are.
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
