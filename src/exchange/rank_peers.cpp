#include "exchange/rank_peers.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>

#include "mesh/mpi_call.hpp"

namespace evenkeel {

void RankPeers::take_largest(std::span<std::int64_t> numbers) {
  const double start = MPI_Wtime();
  std::array<std::int64_t, 1024> here{};
  std::array<std::int64_t, 1024> most;
  // As many words on all ranks, whatever they have: few at first, which is all there are as a rule.
  std::size_t words = 16;
  do {
    const std::size_t count = work_.failed() ? 0 : std::min(numbers.size(), words - 1);
    here.front() = work_.failed() ? 1 : 0;
    std::ranges::copy(numbers.first(count), here.begin() + 1);
    check_mpi(MPI_Allreduce(here.data(), most.data(), static_cast<int>(words), MPI_INT64_T, MPI_MAX, comm_),
              "MPI_Allreduce");
    if (most.front() != 0) {
      work_.leave_out();
      break;
    }
    std::copy_n(most.begin() + 1, count, numbers.begin());
    numbers = numbers.subspan(count);
    words = here.size();
  } while (!numbers.empty());
  seconds_ += MPI_Wtime() - start;
}

}  // namespace evenkeel
