// The functions that libFuzzer and tests call.
#include "fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    evenkeel::fuzz::run({data, size});
    ++evenkeel::fuzz::num_read;
  } catch (const evenkeel::Error& error) {
    evenkeel::fuzz::require(!error.report().message.empty(), "an error says what is wrong");
  }
  return 0;
}
