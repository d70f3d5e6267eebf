#include <algorithm>
#include <array>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "io/input_file.hpp"
#include "io/safetensors.hpp"
#include "io/safetensors_header.hpp"
#include "io/safetensors_layout.hpp"

namespace evenkeel {
namespace {

constexpr std::array<DType, 8> all_dtypes{DType::boolean, DType::uint8,    DType::int32,   DType::int64,
                                          DType::float16, DType::bfloat16, DType::float32, DType::float64};

DType known_dtype(const SafetensorsEntry& entry, const std::string& path) {
  for (const DType dtype : all_dtypes) {
    if (safetensors::name_of(dtype) == entry.dtype) return dtype;
  }
  throw InputError(path, "tensor '" + entry.name + "' has the dtype " + entry.dtype +
                             "; supported are BOOL, U8, I32, I64, F16, BF16, F32 and F64");
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path) {
  const InputFile file(path);
  SafetensorsLayout layout = read_safetensors_layout(file);
  bytes_.resize(static_cast<std::size_t>(file.size() - layout.data_begin));
  file.read({reinterpret_cast<char*>(bytes_.data()), bytes_.size()}, layout.data_begin);
  metadata_ = std::move(layout.metadata);
  for (SafetensorsEntry& entry : layout.entries) {
    const std::span<const std::byte> bytes = std::span<const std::byte>(bytes_).subspan(
        static_cast<std::size_t>(entry.begin), static_cast<std::size_t>(entry.end - entry.begin));
    const DType dtype = known_dtype(entry, path.string());
    tensors_.push_back({std::move(entry.name), dtype, std::move(entry.shape), bytes});
  }
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const TensorView& tensor : tensors_) names.push_back(tensor.name);
  return names;
}

const TensorView& SafetensorsFile::at(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &TensorView::name);
  if (found != tensors_.end()) return *found;
  std::string known;
  for (const TensorView& tensor : tensors_) known += (known.empty() ? "" : ", ") + tensor.name;
  throw InputError(path_.string(), "has no tensor '" + std::string(name) + "'; its tensors are: " + known);
}

}  // namespace evenkeel
