#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "evenkeel/exchange/block_list.hpp"

namespace evenkeel {

using Chunks = std::vector<MpiDatatype>;
using WantedRanks = std::function<bool(int rank)>;

/// Chunks of the lists between this rank and those that are wanted.
[[nodiscard]] std::vector<Chunks> chunks_of(const std::vector<BlockList>& lists, std::int64_t max_bytes,
                                            const WantedRanks& wanted);

/// One round of messages under way: what is sent and received is fixed from construction to wait().
class Messages {
 public:
  /// Sends `sends[r]` to those ranks that `to` wants and receives from those that `from` wants.
  Messages(MPI_Comm comm, const std::vector<BlockList>& sends, const WantedRanks& to,
           const std::vector<BlockList>& receives, const WantedRanks& from, std::int64_t max_bytes);

  void wait();

  /// Messages that this rank sends.
  [[nodiscard]] std::int64_t num_sent() const noexcept { return num_sent_; }

 private:
  template <typename Start>
  void post(const std::vector<Chunks>& sides, Start&& start);

  std::vector<Chunks> outgoing_;
  std::vector<Chunks> incoming_;
  std::vector<MPI_Request> requests_;
  std::int64_t num_sent_ = 0;
};

}  // namespace evenkeel
