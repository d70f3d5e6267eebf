#pragma once

#include <boost/mpi/communicator.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Runs `work` and returns the report of whatever it threw, or nothing. Local. Exceptions that are not
/// Evenkeel's (out of memory, the standard library's) are reported by their text.
template <typename Work>
[[nodiscard]] std::optional<ErrorReport> try_locally(Work&& work);

/// Collective over `comm`: when any rank brings a report, every rank throws it, the lowest such rank's, as
/// the typed error of its kind. One small all-reduce when nobody does. Whatever may fail on one rank alone
/// goes through this before the next collective call, so that no rank waits for one that has left.
void fail_together(const boost::mpi::communicator& comm, const std::optional<ErrorReport>& mine);

/// Collective: runs local `work` on every rank, then fails together if it threw anywhere; else returns its
/// result.
template <typename Work>
std::invoke_result_t<Work> together(const boost::mpi::communicator& comm, Work&& work) {
  using Result = std::invoke_result_t<Work>;
  if constexpr (std::is_void_v<Result>) {
    fail_together(comm, try_locally(std::forward<Work>(work)));
  } else {
    std::optional<Result> result;
    fail_together(comm, try_locally([&] { result.emplace(std::forward<Work>(work)()); }));
    return std::move(*result);
  }
}

/// The report of the exception being handled. Precondition: called inside a catch block.
[[nodiscard]] ErrorReport report_current_exception();

template <typename Work>
std::optional<ErrorReport> try_locally(Work&& work) {
  try {
    std::forward<Work>(work)();
    return std::nullopt;
  } catch (...) {
    return report_current_exception();
  }
}

}  // namespace evenkeel
