#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/batch/field.hpp"

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

/// What becomes of one field that samples bring, where it is not handed out as it is brought.
struct FieldSettings {
  /// Set: the first dimension of a row counts layers, and a pipeline stage is handed those that it has.
  std::optional<LayerMap> layers;
  FieldWidth wire = FieldWidth::as_brought;      ///< on the way from owners to trainers
  FieldWidth hand_out = FieldWidth::as_brought;  ///< in micro-batches; narrow only where the wire is
  FieldStages stage = FieldStages::last;
  /// What JSON lines have it for, where they do not tell themselves: rows, text or bytes.
  std::optional<FieldKind> read_as{};

  friend bool operator==(const FieldSettings&, const FieldSettings&) = default;
};

using NamedFields = std::map<std::string, FieldSettings, std::less<>>;

}  // namespace evenkeel
