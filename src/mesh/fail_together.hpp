#pragma once

#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

/// Runs `work` and returns the report of its exception, or nullopt. Local; never throws. The report of an
/// exception other than Error contains the exception's text or type; std::bad_alloc becomes the report of a
/// LimitError "out of memory".
template <typename Work>
[[nodiscard]] std::optional<ErrorReport> try_locally(Work&& work) noexcept;

/// Same as try_locally(), for work whose input is equal on all ranks. Since the work fails in the same way on
/// all ranks, fail_together() does not name a rank.
template <typename Work>
[[nodiscard]] std::optional<ErrorReport> try_on_replicated_data(Work&& work) noexcept;

/// Same as try_locally(), for work in which ranks wait for each other. Rethrows an MpiError that occurs only
/// on this rank, because the other ranks are not in fail_together(), where they could learn about the error.
template <typename Work>
[[nodiscard]] std::optional<ErrorReport> try_collective_work(Work&& work);

/// Collective over `comm`: if any rank passes a report, every rank throws the report of the lowest such rank,
/// as the exception type of the report's kind. Costs one small all-reduce if all ranks pass nullopt. Call
/// this after any work that may fail on a single rank, and before the next collective call; otherwise, ranks
/// would wait for a rank that has already thrown.
void fail_together(const Communicator& comm, const std::optional<ErrorReport>& mine);

/// Returns whether the report describes an MpiError that occurred only on this rank. An MpiError from
/// fail_together() names a rank, unless a rank passed it from try_on_replicated_data().
[[nodiscard]] inline bool is_local_mpi_error(const ErrorReport& report) noexcept {
  return report.kind == ErrorKind::mpi && report.rank < 0;
}

/// Collective over `comm`, for ranks that already know that rank `first` failed: every rank throws the report
/// of rank `first`, and ignores the reports of other ranks. Precondition: `mine` has a value on rank `first`.
[[noreturn]] void fail_with_report_of(const Communicator& comm, int first,
                                      const std::optional<ErrorReport>& mine);

/// Collective: runs the local `work` on every rank. If it throws on any rank, all ranks throw the same error
/// (see fail_together()); otherwise, returns its result.
template <typename Work>
std::invoke_result_t<Work> run_together(const Communicator& comm, Work&& work) {
  using Result = std::invoke_result_t<Work>;
  if constexpr (std::is_void_v<Result>) {
    fail_together(comm, try_locally(std::forward<Work>(work)));
  } else {
    std::optional<Result> result;
    fail_together(comm, try_locally([&] { result.emplace(std::forward<Work>(work)()); }));
    return std::move(*result);
  }
}

/// One rank's work between two calls of fail_together(), in several parts. After a part has thrown, later
/// parts are skipped, but the rank still takes part in collective calls until agree() throws the error on all
/// ranks.
class GuardedWork {
 public:
  GuardedWork() = default;
  /// Starts with an error that has already occurred on this rank, or without an error if `error` is nullopt.
  explicit GuardedWork(const std::optional<ErrorReport>& error) noexcept { add(error); }
  GuardedWork(const GuardedWork&) = default;
  GuardedWork& operator=(const GuardedWork&) = delete;
  ~GuardedWork() = default;

  /// Runs `work`, which may fail on this rank only, and records its error. Does nothing if
  /// is_skipping_parts().
  template <typename Work>
  void operator()(Work&& work) noexcept {
    if (!is_skipping_parts()) error_ = try_locally(std::forward<Work>(work));
  }
  /// Runs a part that uses replicated data (see try_on_replicated_data).
  template <typename Work>
  void run_on_replicated_data(Work&& work) noexcept {
    if (!is_skipping_parts()) error_ = try_on_replicated_data(std::forward<Work>(work));
  }
  /// Runs a part in which ranks wait for each other, even if an earlier part failed. Keeps the first error.
  /// Throws MpiError if it occurs only on this rank.
  template <typename Work>
  void run_always(Work&& work) {
    std::optional<ErrorReport> error = try_collective_work(std::forward<Work>(work));
    if (!error_) error_ = std::move(error);
  }
  /// Records an error that occurred outside this object. Does nothing if there already is an error.
  void add(const std::optional<ErrorReport>& error) noexcept {
    if (!error_) error_ = error;
  }

  /// Skips all later parts because the work of another rank has failed. That rank will report its error.
  void skip_remaining() noexcept { is_skipping_rest_ = true; }

  /// Returns whether later parts are skipped.
  [[nodiscard]] bool is_skipping_parts() const noexcept { return is_skipping_rest_ || error_.has_value(); }
  [[nodiscard]] const std::optional<ErrorReport>& error() const noexcept { return error_; }
  /// Collective over `comm`: if any rank has an error, every rank throws the error of the lowest such rank.
  void agree(const Communicator& comm) const { fail_together(comm, error_); }

 private:
  std::optional<ErrorReport> error_;
  bool is_skipping_rest_ = false;
};

/// Prints that memory ran out in a collective call, and ends the process.
[[noreturn]] void abort_out_of_memory();

/// Runs `work`, in which ranks wait for each other. Ends the process if `work` throws std::bad_alloc, since
/// the other ranks would otherwise wait for this one. See "Out of memory" in docs/design.md.
template <typename Work>
std::invoke_result_t<Work> abort_if_out_of_memory(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    abort_out_of_memory();
  }
}

/// Returns the report of the exception being handled. Precondition: called inside a catch block.
[[nodiscard]] ErrorReport current_exception_report() noexcept;
/// Returns the report of the exception being handled; an Error is marked as thrown by every rank.
/// Precondition: called inside a catch block.
[[nodiscard]] ErrorReport replicated_exception_report() noexcept;

template <typename Work>
std::optional<ErrorReport> try_locally(Work&& work) noexcept {
  try {
    std::forward<Work>(work)();
    return std::nullopt;
  } catch (...) {
    return current_exception_report();
  }
}

template <typename Work>
std::optional<ErrorReport> try_collective_work(Work&& work) {
  std::optional<ErrorReport> error = try_locally(std::forward<Work>(work));
  if (error && is_local_mpi_error(*error)) throw_error(*error);
  return error;
}

template <typename Work>
std::optional<ErrorReport> try_on_replicated_data(Work&& work) noexcept {
  try {
    std::forward<Work>(work)();
    return std::nullopt;
  } catch (...) {
    return replicated_exception_report();
  }
}

}  // namespace evenkeel
