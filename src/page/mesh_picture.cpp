#include "page/mesh_picture.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace evenkeel {

std::string to_text(const MeshPicture& mesh) {
  const std::string cp = mesh.flexible_cp ? "flexible" : std::to_string(mesh.sizes.cp);
  return fmt::format("tp {} x cp {} x dp {} x pp {}", mesh.sizes.tp, cp, mesh.sizes.dp, mesh.sizes.pp);
}

nlohmann::json to_json(const MeshPicture& mesh) {
  return {{"tp", mesh.sizes.tp},
          {"cp", mesh.flexible_cp ? nlohmann::json("flexible") : nlohmann::json(mesh.sizes.cp)},
          {"dp", mesh.sizes.dp},
          {"pp", mesh.sizes.pp}};
}

}  // namespace evenkeel
