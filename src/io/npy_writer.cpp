#include <string>

#include "evenkeel/base/error.hpp"
#include "io/atomic_file.hpp"
#include "io/npy.hpp"
#include "io/npy_header.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t max_digits = 21;  // of the first dimension, which others may want to raise in place

NpyDType checked_dtype(DType dtype, const std::string& path) {
  if (const std::optional<NpyDType> found = npy::npy_dtype(dtype)) return *found;
  throw InputError(path, "cannot hold " + std::string(name_of(dtype)) + ", which NumPy has not",
                   "Write float32, or a safetensors file");
}

void require_fit(NpyDType dtype, std::span<const std::int64_t> shape, std::size_t bytes,
                 const std::string& path) {
  if (shape.size() > npy::max_dimensions) {
    throw InputError(path, "cannot hold " + std::to_string(shape.size()) + " dimensions; NumPy has at most " +
                               std::to_string(npy::max_dimensions));
  }
  const std::string what = "shape " + npy::text_of(shape) + " of " + std::string(name_of(dtype));
  const std::optional<std::int64_t> elements = npy::elements_of(shape, size_of(dtype));
  if (!elements) throw InputError(path, what + " has a negative dimension or 2^63 bytes or more");
  const std::size_t needed = static_cast<std::size_t>(*elements) * size_of(dtype);
  if (needed != bytes) {
    throw InputError(
        path, "is to hold " + std::to_string(bytes) + " bytes; " + what + " needs " + std::to_string(needed));
  }
}

/// All that stands ahead of the elements, padded as NumPy does: where nothing is missing to the alignment, a
/// whole one is added.
std::string preamble_of(NpyDType dtype, std::span<const std::int64_t> shape) {
  std::string header = "{'descr': '" + std::string(npy::descr_of(dtype)) +
                       "', 'fortran_order': False, 'shape': " + npy::text_of(shape) + ", }";
  if (!shape.empty()) header.append(max_digits - std::to_string(shape.front()).size(), ' ');
  const std::size_t ahead = npy::magic.size() + 4;
  header.append(alignment - (ahead + header.size() + 1) % alignment, ' ');
  header += '\n';
  const std::size_t length = header.size();
  std::string text(npy::magic);
  text += {1, 0, static_cast<char>(length % 256), static_cast<char>(length / 256)};
  return text + header;
}

}  // namespace

void write_npy(const std::filesystem::path& path, DType dtype, std::span<const std::int64_t> shape,
               std::span<const std::byte> bytes) {
  const NpyDType element = checked_dtype(dtype, path.string());
  require_fit(element, shape, bytes.size(), path.string());
  const std::string preamble = preamble_of(element, shape);
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(preamble)));
  file.write(bytes);
  file.commit();
}

}  // namespace evenkeel
