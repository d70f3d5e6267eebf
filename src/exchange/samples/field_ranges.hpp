#pragma once

#include <cstdint>
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

/// What a rank's integers are, of the fields that are to travel narrow, on the way to those of all ranks.
class OwnRanges {
 public:
  OwnRanges() = default;
  /// Looks through those fields of `mine` that travel narrow (see travels_narrow). Local; O(their bytes).
  OwnRanges(const RaggedBatch& mine, const std::map<std::string, FieldSettings, std::less<>>& settings,
            bool sends_messages);

  /// Collective over `comm`: the ranges over all ranks, by name, in one all-reduce; in none where `fields`,
  /// which are the same on all ranks, have none that is narrow. Takes no memory, so that it may stand where
  /// nobody may fail alone; what it returns stays here. Precondition: all ranks have equal settings, and send
  /// messages or do not.
  [[nodiscard]] std::map<std::string, IntegerRange, std::less<>>& agree(const Communicator& comm,
                                                                        std::span<const FieldSpec> fields);

 private:
  std::map<std::string, IntegerRange, std::less<>> ranges_;  // by name
  std::vector<std::int64_t> words_;                          // of each: ~least and most
};

}  // namespace evenkeel
