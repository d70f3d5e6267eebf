#include "mesh/mpi_call.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include "base/activity.hpp"
#include "base/narrow.hpp"
#include "base/poll_pause.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

void check_mpi(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw MpiError(std::string(call), std::string(text.data(), static_cast<std::size_t>(length)) + " (code " +
                                        std::to_string(code) + ")");
}

OpenRequests::~OpenRequests() {
  if (!has_active_requests()) return;
  for (MPI_Request& request : requests_)
    if (kind_ == Kind::receives && request != MPI_REQUEST_NULL) MPI_Cancel(&request);
  const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  const PollPause pause;
  for (int all = 0;;) {
    // Retry after an error, since the memory must not be released while MPI may still use it.
    if (MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, MPI_STATUSES_IGNORE) ==
            MPI_SUCCESS &&
        all != 0)
      return;
    if (std::chrono::steady_clock::now() >= last) return;
    pause();
  }
}

void OpenRequests::resize(std::int64_t count) {
  requests_.assign(
      static_cast<std::size_t>(narrow<int>(count, "messages of one exchange", hint_for_large_steps)),
      MPI_REQUEST_NULL);
}

bool OpenRequests::has_active_requests() const noexcept {
  return std::ranges::any_of(requests_, [](MPI_Request request) { return request != MPI_REQUEST_NULL; });
}

void OpenRequests::wait_for_all() {
  if (!has_active_requests()) return;  // If there are no open requests, MPI may not even be initialized.
  const Waiting waiting("MPI_Waitall");
  check_mpi(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE),
            "MPI_Waitall");
}

std::optional<int> OpenRequests::wait_for_any() {
  int index = 0;
  const Waiting waiting("MPI_Waitany");
  check_mpi(MPI_Waitany(static_cast<int>(requests_.size()), requests_.data(), &index, MPI_STATUS_IGNORE),
            "MPI_Waitany");
  return index == MPI_UNDEFINED ? std::nullopt : std::optional(index);
}

}  // namespace evenkeel
