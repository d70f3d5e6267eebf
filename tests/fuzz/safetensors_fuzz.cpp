// Safetensors files: every byte of every tensor that is exposed is within the file.
#include <cstddef>
#include <vector>

#include "fuzz/target.hpp"
#include "io/safetensors/tensor_file.hpp"

namespace evenkeel::fuzz {

void run(Bytes input) {
  const TensorFile file(file_with(text_of(input), "tensors.safetensors"));
  std::size_t bytes = 0;
  for (std::size_t t = 0; t < file.tensors().size(); ++t) {
    const StoredTensor& tensor = file.tensors()[t];
    if (!tensor.dtype) continue;
    const auto elements = static_cast<std::size_t>(tensor.rows() * row_elements(tensor));
    bytes += elements * size_of(*tensor.dtype);
    require(bytes <= input.size(), "tensors lie in the file");
    std::vector<std::byte> rows(elements * size_of(*tensor.dtype));
    file.read_rows(t, {0, tensor.rows()}, rows);
  }
}

}  // namespace evenkeel::fuzz
