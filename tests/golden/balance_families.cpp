#include "golden/families.hpp"

namespace evenkeel::golden {

std::map<std::string, Family> balance_families() {
  return {};
}

}  // namespace evenkeel::golden
