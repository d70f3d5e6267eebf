#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/batch/field.hpp"
#include "evenkeel/mesh/mesh.hpp"

namespace evenkeel {

/// The amounts that one rank moved in an exchange, in bytes of payload unless noted otherwise.
struct ExchangeVolume {
  std::int64_t sent = 0;           ///< bytes that this rank, as an owner, sent to other ranks
  std::int64_t between_nodes = 0;  ///< part of `sent` that went to ranks of other nodes
  std::int64_t kept = 0;           ///< bytes from this rank to itself
  /// Bytes copied from the rank of this node that received them on this rank's behalf.
  std::int64_t copied = 0;
  /// Bytes that this rank received inside its node, as a leader or from one, for transfers between nodes.
  std::int64_t forwarded = 0;
  std::int64_t messages = 0;  ///< number of messages (not bytes) that this rank sent to ranks of other nodes

  ExchangeVolume& operator+=(const ExchangeVolume& other) noexcept;

  friend bool operator==(const ExchangeVolume&, const ExchangeVolume&) = default;
};

/// The results that a consumer computed for one micro-batch: columns whose kind determines what each row
/// belongs to.
/// - token: one row per local packed row; row t of a sequence belongs to token t.
/// - response_token: also one row per local packed row; the result of response token t is in row t-1, which
///   predicts it. With shared prefixes: one row per prediction (see SharedSequences).
/// - sample: one row per sample.
/// - rows, text, bytes: any number of rows per sample, the same on all members of the group; only the rows of
///   the first member are used.
/// The token result of a shared row goes to every sample that has the row.
struct MicroBatchResults {
  std::vector<Column> fields;
};

/// Returns whether this rank's results are used, which is true for the first tensor-parallel rank of the last
/// pipeline stage of each place (dp, cp). All tensor-parallel ranks have the same results, and earlier stages
/// do not have any.
[[nodiscard]] bool reports_results(const Mesh& mesh) noexcept;

}  // namespace evenkeel
