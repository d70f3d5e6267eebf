#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "io/files/input_file.hpp"
#include "io/safetensors/header.hpp"
#include "io/safetensors/layout.hpp"
#include "io/safetensors/safetensors.hpp"

namespace evenkeel {
namespace {

DType known_dtype(const SafetensorsEntry& entry, const std::string& path) {
  std::string supported;
  for (const DType dtype : all_dtypes) {
    const std::string_view name = safetensors::name_of(dtype);
    if (name == entry.dtype) return dtype;
    supported.append(supported.empty() ? "" : ", ").append(name);
  }
  throw InputError(
      path, "tensor '" + entry.name + "' has the dtype " + entry.dtype + "; supported are " + supported);
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
