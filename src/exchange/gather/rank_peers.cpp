#include "exchange/gather/rank_peers.hpp"

#include <algorithm>
#include <array>
#include <chrono>

namespace evenkeel {

void RankPeers::take_largest(std::span<std::int64_t> numbers) {
  const auto start = std::chrono::steady_clock::now();
  std::array<std::int64_t, 1024> all{};
  // As many words on all ranks, whatever they have: few at first, which is all there are as a rule.
  std::size_t words = 16;
  do {
    const std::size_t count = work_.failed() ? 0 : std::min(numbers.size(), words - 1);
    all.fill(0);
    all.front() = work_.failed() ? 1 : 0;
    std::ranges::copy(numbers.first(count), all.begin() + 1);
    comm_.all_reduce(std::span(all).first(words), Extreme::largest);
    if (all.front() != 0) {
      work_.leave_out();
      break;
    }
    std::copy_n(all.begin() + 1, count, numbers.begin());
    numbers = numbers.subspan(count);
    words = all.size();
  } while (!numbers.empty());
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace evenkeel
