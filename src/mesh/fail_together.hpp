#pragma once

#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

/// Runs `work` and returns the report of its exception, or null. Local; throws nothing. Exceptions that are
/// not Evenkeel's are reported by their text or type, std::bad_alloc as a LimitError "out of memory".
template <typename Work>
[[nodiscard]] std::optional<ErrorReport> try_locally(Work&& work) noexcept;

/// The same for work on replicated data. What Evenkeel throws there every rank throws, so that
/// fail_together() names no rank.
template <typename Work>
[[nodiscard]] std::optional<ErrorReport> try_on_replicated_data(Work&& work) noexcept;

/// The same for work in which ranks wait for each other. An MpiError that this rank has alone is thrown: the
/// others are not where they would hear of it.
template <typename Work>
[[nodiscard]] std::optional<ErrorReport> try_with_others(Work&& work);

/// Collective over `comm`: when any rank brings a report, every rank throws it, the lowest such rank's, as
/// the typed error of its kind. One small all-reduce when nobody does. Whatever may fail on one rank alone
/// goes through this before the next collective call, so that no rank waits for one that has left.
void fail_together(const Communicator& comm, const std::optional<ErrorReport>& mine);

/// Whether the report is of an MpiError that no other rank has: what fail_together() throws names a rank.
[[nodiscard]] inline bool is_alone(const ErrorReport& report) noexcept {
  return report.kind == ErrorKind::mpi && report.rank < 0;
}

/// Collective over `comm`, for ranks that have found out already that some rank failed, and which one: all
/// throw what rank `first`, and maybe others, brings.
[[noreturn]] void fail_with_report_of(const Communicator& comm, int first,
                                      const std::optional<ErrorReport>& mine);

/// Collective: runs local `work` on every rank, then fails together if it threw anywhere; else returns its
/// result.
template <typename Work>
std::invoke_result_t<Work> together(const Communicator& comm, Work&& work) {
  using Result = std::invoke_result_t<Work>;
  if constexpr (std::is_void_v<Result>) {
    fail_together(comm, try_locally(std::forward<Work>(work)));
  } else {
    std::optional<Result> result;
    fail_together(comm, try_locally([&] { result.emplace(std::forward<Work>(work)()); }));
    return std::move(*result);
  }
}

/// One rank's work between two agreements, part by part: once a part has thrown, those after it are left out,
/// while the rank goes on taking part in what all ranks do, up to the next agreement.
class GuardedWork {
 public:
  GuardedWork() = default;
  /// Beginning with an error from elsewhere, maybe.
  explicit GuardedWork(const std::optional<ErrorReport>& error) noexcept { add(error); }
  GuardedWork(const GuardedWork&) = default;
  GuardedWork& operator=(const GuardedWork&) = delete;
  ~GuardedWork() = default;

  /// A part on this rank's own data.
  template <typename Work>
  void operator()(Work&& work) noexcept {
    if (!failed()) error_ = try_locally(std::forward<Work>(work));
  }
  /// A part on replicated data (see try_on_replicated_data).
  template <typename Work>
  void on_replicated_data(Work&& work) noexcept {
    if (!failed()) error_ = try_on_replicated_data(std::forward<Work>(work));
  }
  /// A part in which ranks wait for each other, so that it is never left out. The first error stays. Throws
  /// an MpiError that this rank has alone.
  template <typename Work>
  void in_any_case(Work&& work) {
    std::optional<ErrorReport> error = try_with_others(std::forward<Work>(work));
    if (!error_) error_ = std::move(error);
  }
  /// An error from elsewhere. The first one stays.
  void add(const std::optional<ErrorReport>& error) noexcept {
    if (!error_) error_ = error;
  }

  /// Leaves out what follows, since the work of another rank has failed, which will tell.
  void leave_out() noexcept { is_left_out_ = true; }

  /// Whether what follows is left out.
  [[nodiscard]] bool failed() const noexcept { return is_left_out_ || error_.has_value(); }
  [[nodiscard]] const std::optional<ErrorReport>& error() const noexcept { return error_; }
  /// Collective over `comm`: fail_together().
  void agree(const Communicator& comm) const { fail_together(comm, error_); }

 private:
  std::optional<ErrorReport> error_;
  bool is_left_out_ = false;
};

/// Prints that memory ran out in a collective call, and ends the process.
[[noreturn]] void end_out_of_memory();

/// Runs `work`, in which ranks wait for each other, and ends the process if an allocation outside of guarded
/// work fails there: the other ranks would wait for this one. See "Out of memory" in docs/design.md.
template <typename Work>
std::invoke_result_t<Work> end_if_out_of_memory(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    end_out_of_memory();
  }
}

/// The report of the exception being handled. Precondition: called inside a catch block.
[[nodiscard]] ErrorReport report_current_exception() noexcept;
/// The same, as every rank's.
[[nodiscard]] ErrorReport report_current_exception_of_all() noexcept;

template <typename Work>
std::optional<ErrorReport> try_locally(Work&& work) noexcept {
  try {
    std::forward<Work>(work)();
    return std::nullopt;
  } catch (...) {
    return report_current_exception();
  }
}

template <typename Work>
std::optional<ErrorReport> try_with_others(Work&& work) {
  std::optional<ErrorReport> error = try_locally(std::forward<Work>(work));
  if (error && is_alone(*error)) throw_error(*error);
  return error;
}

template <typename Work>
std::optional<ErrorReport> try_on_replicated_data(Work&& work) noexcept {
  try {
    std::forward<Work>(work)();
    return std::nullopt;
  } catch (...) {
    return report_current_exception_of_all();
  }
}

}  // namespace evenkeel
