#pragma once

#include <mpi.h>

#include <string_view>

namespace evenkeel {

/// Throws MpiError with the call's name and MPI's own text unless `code` is MPI_SUCCESS. Works only on
/// communicators whose errors return (Mesh sees to that).
void check_mpi(int code, std::string_view call);

}  // namespace evenkeel
