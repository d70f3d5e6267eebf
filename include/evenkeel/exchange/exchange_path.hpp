#pragma once

#include <cstdint>

namespace evenkeel {

/// How tokens get from owners to consumers. All paths deliver the same bytes.
enum class ExchangePath : std::uint8_t {
  automatic,       ///< the one that suits the job: today point-to-point
  point_to_point,  ///< non-blocking messages in derived datatypes, one or more a pair of ranks
  alltoallv,       ///< MPI_Alltoallw over the same datatypes
};

}  // namespace evenkeel
