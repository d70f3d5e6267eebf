#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "mesh/open_requests.hpp"
#include "transport/block_list.hpp"

namespace evenkeel {

using Chunks = std::vector<MpiDatatype>;
using WantedRanks = std::function<bool(int rank)>;

/// Chunks of the lists between this rank and those that are wanted.
[[nodiscard]] std::vector<Chunks> chunks_of(const std::vector<BlockList>& lists, std::int64_t max_bytes,
                                            const WantedRanks& wanted);

/// One round of messages. Made ready first, which takes memory and is local; then it is begun and waited for,
/// which throws only when MPI fails.
class Messages {
 public:
  /// For `sends[r]` to those ranks that `to` wants and `receives[r]` from those that `from` wants.
  Messages(const std::vector<BlockList>& sends, const WantedRanks& to, const std::vector<BlockList>& receives,
           const WantedRanks& from, std::int64_t max_bytes);

  /// What is sent must stand as it is from here to the end of wait(), or of this object.
  void begin(MPI_Comm comm);
  void wait();

  /// Messages that this rank sends.
  [[nodiscard]] std::int64_t num_sent() const noexcept { return num_sent_; }

 private:
  template <typename Start>
  static void post(const std::vector<Chunks>& sides, OpenRequests& requests, Start&& start);
  static std::int64_t count(const std::vector<Chunks>& sides);

  std::vector<Chunks> outgoing_;
  std::vector<Chunks> incoming_;
  OpenRequests receiving_{OpenRequests::Kind::receives};
  OpenRequests sending_{OpenRequests::Kind::others};
  std::int64_t num_sent_ = 0;
};

}  // namespace evenkeel
