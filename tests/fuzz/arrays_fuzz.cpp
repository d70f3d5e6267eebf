// Arrays of NumPy: .npy or .npz, as the first byte says.
#include <vector>

#include "fuzz/target.hpp"
#include "io/numpy/npy.hpp"
#include "io/numpy/npz.hpp"

namespace evenkeel::fuzz {
namespace {

void read_all(const NpyArray& array) {
  const DType dtype = column_dtype(array.dtype());
  const auto elements = static_cast<std::size_t>(array.num_rows() * array.row_elements());
  std::vector<std::byte> rows(elements * size_of(dtype));
  array.read_rows({0, array.num_rows()}, dtype, rows);
}

}  // namespace

void run(Bytes input) {
  if (input.empty()) return;
  const std::string content = text_of(input.subspan(1));
  if (input.front() % 2 == 0) {
    read_all(NpyArray(file_with(content, "array.npy")));
    return;
  }
  NpzFile file(file_with(content, "arrays.npz"));
  for (const std::string& name : file.names()) read_all(file.read(name, 1 << 20));
}

}  // namespace evenkeel::fuzz
