#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "evenkeel/base/grid.hpp"

namespace evenkeel {

/// The process grid as reports show it.
struct MeshPicture {
  GridPoint sizes{};
  bool flexible_cp = false;  ///< micro-batches have groups of their own, and the grid has no cp

  friend bool operator==(const MeshPicture&, const MeshPicture&) = default;
};

/// Such as "tp 1 x cp flexible x dp 8 x pp 1".
[[nodiscard]] std::string to_text(const MeshPicture& mesh);
/// One key an axis: its size, or "flexible" for cp.
[[nodiscard]] nlohmann::json to_json(const MeshPicture& mesh);

}  // namespace evenkeel
