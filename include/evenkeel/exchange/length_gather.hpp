#pragma once

#include <boost/mpi/communicator.hpp>
#include <optional>
#include <span>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/plan/length_table.hpp"

namespace evenkeel {

/// Collective over `comm`: every rank's sample shapes become the length table on every rank. A status word
/// travels with the counts: when any rank brings an error instead of samples, all ranks throw that error (the
/// lowest such rank's), and none waits for another. 32 bytes a sample plus 8 a rank are gathered; no tokens
/// move.
[[nodiscard]] LengthTable gather_lengths(const boost::mpi::communicator& comm,
                                         std::span<const SampleShape> mine,
                                         const std::optional<ErrorReport>& my_error);

}  // namespace evenkeel
