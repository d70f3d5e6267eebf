#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace evenkeel {

/// Throws MpiError with the call's name and MPI's own text unless `code` is MPI_SUCCESS. Works only on
/// communicators whose errors return (Mesh sees to that).
void check_mpi(int code, std::string_view call);

/// Calls of MPI that have begun and are not over. Until then MPI reads and writes their memory whatever
/// happens to this rank, so that memory must outlive this; and when an exception leaves the work in between,
/// the destructor sees them to their end: it takes receives back as far as nothing has come for them, and
/// waits for the rest. Others do their part, as they are in the same work and know of no error. Where they
/// have ended, nobody writes any more, and one second is enough.
class OpenRequests {
 public:
  enum class Kind { receives, others };

  explicit OpenRequests(Kind kind) noexcept : kind_(kind) {}
  OpenRequests(const OpenRequests&) = delete;
  OpenRequests& operator=(const OpenRequests&) = delete;
  ~OpenRequests();

  /// Memory for so many, none of which has begun. Throws LimitError where MPI could not count them.
  void resize(std::int64_t count);
  [[nodiscard]] std::size_t size() const noexcept { return requests_.size(); }
  /// For the call that begins one. Precondition: index < size().
  [[nodiscard]] MPI_Request* at(std::size_t index) noexcept { return &requests_[index]; }

  /// Waits until all are over. Throws MpiError.
  void wait_for_all();
  /// Waits for any one, and returns which; nothing when all are over. Throws MpiError.
  [[nodiscard]] std::optional<int> wait_for_any();
  /// Whether all are over. Throws MpiError.
  [[nodiscard]] bool are_over();

 private:
  [[nodiscard]] bool any() const noexcept;

  Kind kind_;
  std::vector<MPI_Request> requests_;
};

}  // namespace evenkeel
