// Safetensors files: every byte of every tensor that is exposed is within the file.
#include <numeric>

#include "fuzz/target.hpp"
#include "io/safetensors/safetensors.hpp"

namespace evenkeel::fuzz {

void run(Bytes input) {
  const SafetensorsFile file(file_with(text_of(input), "tensors.safetensors"));
  std::size_t bytes = 0;
  for (const std::string& name : file.names()) {
    const TensorView& tensor = file.at(name);
    bytes += tensor.bytes.size();
    static_cast<void>(std::accumulate(
        tensor.bytes.begin(), tensor.bytes.end(), std::uint64_t{0},
        [](std::uint64_t sum, std::byte byte) { return sum + std::to_integer<std::uint64_t>(byte); }));
  }
  require(bytes <= input.size(), "tensors lie in the file");
}

}  // namespace evenkeel::fuzz
