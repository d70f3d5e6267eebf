#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "batch/integers.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/plan/field_settings.hpp"

namespace evenkeel {

/// This rank's ranges of values in the integer fields that are transferred in a narrower type, before the
/// ranks agree on common ranges.
class OwnRanges {
 public:
  OwnRanges() = default;
  /// Computes the ranges of the fields of `mine` that are transferred in a narrower type (see
  /// is_sent_narrow). Local; O(bytes of these fields).
  OwnRanges(const RaggedBatch& mine, const std::map<std::string, FieldSettings, std::less<>>& settings,
            bool sends_messages);

  /// Collective over `comm`: returns the ranges over all ranks, by name, after one all-reduce. Communicates
  /// only if any of `fields`, which must be equal on all ranks, is transferred in a narrower type; otherwise
  /// returns this rank's ranges. Precondition: all ranks have equal settings and equal `sends_messages`.
  [[nodiscard]] std::map<std::string, IntegerRange, std::less<>> agree(
      const Communicator& comm, std::span<const FieldSpec> fields) const;

 private:
  std::map<std::string, IntegerRange, std::less<>> ranges_;
};

}  // namespace evenkeel
