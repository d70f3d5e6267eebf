#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Which of some places has the least load; of equal loads the lowest place. A heap, so that a change costs
/// O(log places).
class LeastLoaded {
 public:
  struct Place {
    Cost load = 0;
    std::int64_t place = 0;

    friend auto operator<=>(const Place&, const Place&) = default;
  };

  /// Place p has loads[p]. Precondition: there is one.
  explicit LeastLoaded(const std::vector<Cost>& loads) : heap_(loads.size()) {
    for (std::size_t p = 0; p < loads.size(); ++p) heap_[p] = {loads[p], static_cast<std::int64_t>(p)};
    for (std::size_t at = heap_.size() / 2; at-- > 0;) sift_down(at);
  }

  [[nodiscard]] const Place& least() const noexcept { return heap_.front(); }

  /// The least loaded one has this load from now on.
  void set_least(Cost load) {
    heap_.front().load = load;
    sift_down(0);
  }

 private:
  void sift_down(std::size_t at) {
    const Place moved = heap_[at];
    for (;;) {
      std::size_t child = 2 * at + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
      if (!(heap_[child] < moved)) break;
      heap_[at] = heap_[child];
      at = child;
    }
    heap_[at] = moved;
  }

  std::vector<Place> heap_;
};

}  // namespace evenkeel
