#include "mesh/mpi_call.hpp"

#include <array>
#include <string>

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

}  // namespace evenkeel
