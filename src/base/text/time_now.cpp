#include "base/text/time_now.hpp"

#include <array>
#include <ctime>

namespace evenkeel {

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%FT%TZ", &utc);
  return {text.data(), length};
}

}  // namespace evenkeel
