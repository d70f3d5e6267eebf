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

/// Value ranges of this rank's integers in fields with narrow transfers, before the ranks agree on them.
class OwnRanges {
 public:
  OwnRanges() = default;
  /// Computes the ranges of the fields of `mine` that are transferred narrow (see is_sent_narrow). Local;
  /// O(bytes of these fields).
  OwnRanges(const RaggedBatch& mine, const std::map<std::string, FieldSettings, std::less<>>& settings,
            bool sends_messages);

  /// Collective over `comm`: returns the ranges over all ranks, by name, after one all-reduce. Communicates
  /// only if any of `fields`, which must be equal on all ranks, is transferred narrow; otherwise returns this
  /// rank's ranges. Precondition: all ranks have equal settings and equal `sends_messages`.
  [[nodiscard]] std::map<std::string, IntegerRange, std::less<>> agree(
      const Communicator& comm, std::span<const FieldSpec> fields) const;

 private:
  std::map<std::string, IntegerRange, std::less<>> ranges_;
};

}  // namespace evenkeel
