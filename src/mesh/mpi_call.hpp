#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace evenkeel {

/// Throws MpiError, with the call's name and MPI's error text, unless `code` is MPI_SUCCESS. Communicators
/// must have the error handler MPI_ERRORS_RETURN, as all communicators of Mesh do.
void check_mpi(int code, std::string_view call);

/// MPI requests in flight. MPI reads or writes the buffers of these requests until they complete, even if
/// this rank fails, so the buffers must outlive this object.
///
/// If requests are still in flight, for example because an exception was thrown, the destructor completes
/// them: it cancels receives that have not been matched, and waits up to one second for the other requests.
/// One second is enough: the other ranks run the same exchange and do not know about the error, so they
/// complete their side of these requests, unless they have ended.
class OpenRequests {
 public:
  enum class Kind { receives, others };

  explicit OpenRequests(Kind kind) noexcept : kind_(kind) {}
  OpenRequests(const OpenRequests&) = delete;
  OpenRequests& operator=(const OpenRequests&) = delete;
  ~OpenRequests();

  /// Allocates `count` inactive requests. Throws LimitError if `count` does not fit in an int.
  void resize(std::int64_t count);
  [[nodiscard]] std::size_t size() const noexcept { return requests_.size(); }
  /// Returns a pointer to a request, for the MPI call that starts it. Precondition: index < size().
  [[nodiscard]] MPI_Request* at(std::size_t index) noexcept { return &requests_[index]; }

  /// Waits until all requests are complete. Throws MpiError.
  void wait_for_all();
  /// Waits until any request is complete and returns its index; nullopt if all were already complete. Throws
  /// MpiError.
  [[nodiscard]] std::optional<int> wait_for_any();

 private:
  [[nodiscard]] bool any() const noexcept;

  Kind kind_;
  std::vector<MPI_Request> requests_;
};

}  // namespace evenkeel
