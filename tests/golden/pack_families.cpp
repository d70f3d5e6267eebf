#include "golden/families.hpp"

namespace evenkeel::golden {

std::map<std::string, Family> pack_families() {
  return {};
}

}  // namespace evenkeel::golden
