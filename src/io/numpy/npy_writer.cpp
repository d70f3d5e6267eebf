#include <string>

#include "evenkeel/base/error.hpp"
#include "io/files/atomic_file.hpp"
#include "io/numpy/npy.hpp"
#include "io/numpy/npy_header.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t max_digits = 21;  // of the first dimension, which others may want to raise in place

NpyDType checked_dtype(DType dtype, const std::string& path) {
  if (const std::optional<NpyDType> found = npy::npy_dtype(dtype)) return *found;
  throw InputError(path, "cannot hold " + std::string(name_of(dtype)) + ", which NumPy does not have",
                   "Write float32, or a safetensors file");
}

/// The bytes of an array of that shape.
std::size_t checked_bytes(NpyDType dtype, std::span<const std::int64_t> shape, const std::string& path) {
  if (shape.size() > npy::max_dimensions) {
    throw InputError(path, "cannot hold " + std::to_string(shape.size()) + " dimensions; NumPy has at most " +
                               std::to_string(npy::max_dimensions));
  }
  const std::optional<std::int64_t> elements = npy::elements_of(shape, size_of(dtype));
  if (!elements) {
    throw InputError(path, "shape " + npy::text_of(shape) + " of " + std::string(name_of(dtype)) +
                               " has a negative dimension or 2^63 bytes or more");
  }
  return static_cast<std::size_t>(*elements) * size_of(dtype);
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

npy::Preamble npy::preamble_for(DType dtype, std::span<const std::int64_t> shape, const std::string& path) {
  const NpyDType element = checked_dtype(dtype, path);
  const std::size_t bytes = checked_bytes(element, shape, path);
  return {preamble_of(element, shape), bytes};
}

void npy::require_bytes(DType dtype, std::span<const std::int64_t> shape, std::size_t bytes,
                        std::size_t needed, const std::string& path) {
  if (bytes == needed) return;
  throw InputError(path, "is to hold " + std::to_string(bytes) + " bytes; shape " + npy::text_of(shape) +
                             " of " + std::string(evenkeel::name_of(dtype)) + " needs " +
                             std::to_string(needed));
}

void write_npy(const std::filesystem::path& path, DType dtype, std::span<const std::int64_t> shape,
               std::span<const std::byte> bytes) {
  const npy::Preamble preamble = npy::preamble_for(dtype, shape, path.string());
  npy::require_bytes(dtype, shape, bytes.size(), preamble.data_bytes, path.string());
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(preamble.text)));
  file.write(bytes);
  file.commit();
}

}  // namespace evenkeel
