#include "plan/transfer/restore_order.hpp"

namespace evenkeel {

std::vector<std::int64_t> inverse_order(std::span<const Item> order) {
  const auto n = static_cast<std::int64_t>(order.size());
  std::vector<std::int64_t> inverse(order.size(), -1);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Item item = order[i];
    if (item < 0 || item >= n) {
      throw InputError(
          "order", "names item " + std::to_string(item) + ", but there are " + std::to_string(n) + " items");
    }
    std::int64_t& at = inverse[static_cast<std::size_t>(item)];
    if (at >= 0) throw InputError("order", "names item " + std::to_string(item) + " twice");
    at = static_cast<std::int64_t>(i);
  }
  return inverse;
}

}  // namespace evenkeel
