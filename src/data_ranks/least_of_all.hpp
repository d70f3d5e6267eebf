#pragma once

#include <array>
#include <cstdint>

#include "evenkeel/mesh/communicator.hpp"
#include "mesh/open_requests.hpp"

namespace evenkeel {

/// The least that ranks bring of two numbers: an all-reduce in which a data rank leaves its core to others.
/// Its memory is taken once, when it is made.
class LeastOfAll {
 public:
  using Numbers = std::array<std::int64_t, 2>;

  LeastOfAll() { open_.resize(1); }

  /// Collective over `everyone`. A rank that is not hurried sleeps while others have not come.
  [[nodiscard]] Numbers of(const Numbers& mine, const Communicator& everyone, bool is_hurried);

 private:
  Numbers least_{};  // before the call that writes it
  OpenRequests open_{OpenRequests::Kind::others};
};

}  // namespace evenkeel
