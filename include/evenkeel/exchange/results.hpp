#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/batch/field.hpp"
#include "evenkeel/mesh/mesh.hpp"

namespace evenkeel {

/// What one rank moved in an exchange, in bytes of payload unless it says otherwise.
struct ExchangeVolume {
  std::int64_t sent = 0;           ///< to other ranks, by owners
  std::int64_t between_nodes = 0;  ///< of these, to ranks of other nodes
  std::int64_t kept = 0;           ///< from this rank to itself
  std::int64_t copied = 0;         ///< from the rank of this node that received them for it
  std::int64_t passed_on = 0;      ///< to and from leaders inside this node, for transfers between nodes
  std::int64_t messages = 0;       ///< not bytes: messages that this rank sent to ranks of other nodes

  ExchangeVolume& operator+=(const ExchangeVolume& other) noexcept;

  friend bool operator==(const ExchangeVolume&, const ExchangeVolume&) = default;
};

/// What a consumer computed for one micro-batch: columns whose kind says what each row belongs to.
/// - token: one row a local packed row; row t of a sequence belongs to token t.
/// - response_token: one row a local packed row too; the row that predicts response token t, row t-1, is its
/// result.
///   With shared prefixes: one row a prediction (see SharedSequences).
/// - sample: one row a sample.
/// - rows, text, bytes: any number a sample, the same on all members of its group; only the first one's are
///   used.
/// A shared row's token result goes to every sample that has the row.
struct MicroBatchResults {
  std::vector<Column> fields;
};

/// Whether this rank's results are used: those of the first tensor-parallel rank of the last pipeline stage
/// of each (dp, cp) place are. All tensor-parallel ranks have the same results, and earlier stages have none.
[[nodiscard]] bool reports_results(const Mesh& mesh) noexcept;

}  // namespace evenkeel
