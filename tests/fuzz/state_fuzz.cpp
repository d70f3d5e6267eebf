// States of a job as stored in a file, with a corrected checksum, as an attacker would write it: otherwise,
// every changed byte would be rejected right away.
#include "base/hash.hpp"
#include "evenkeel/service/service_state.hpp"
#include "fuzz/target.hpp"

namespace evenkeel::fuzz {
namespace {

std::string with_right_checksum(std::string text) {
  const std::size_t second_line = text.find('\n', 2);
  const std::size_t digits_at = text.find(": \"");
  if (second_line == std::string::npos || digits_at == std::string::npos || digits_at + 19 > second_line)
    return text;
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4)
    digits += "0123456789abcdef"[fnv1a_64(std::string_view(text).substr(second_line + 1)) >> shift & 15];
  return text.replace(digits_at + 3, 16, digits);
}

}  // namespace

void run(Bytes input) {
  const ServiceState state = parse_state(with_right_checksum(text_of(input)), "evenkeel-state.json");
  require(to_text(parse_state(to_text(state), "written.json")) == to_text(state),
          "a state that was written is read as it was");
}

}  // namespace evenkeel::fuzz
