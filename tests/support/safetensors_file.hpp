#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors/safetensors.hpp"
#include "io/safetensors/tensor_file.hpp"

namespace evenkeel::testing_support {

/// All tensors of a safetensors file, read into memory. Their bytes remain valid if this object is moved.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path) {
    const TensorFile file(path);
    metadata_ = file.metadata();
    for (std::size_t t = 0; t < file.tensors().size(); ++t) {
      const StoredTensor& stored = file.tensors()[t];
      const DType dtype = stored.dtype.value();
      std::vector<std::byte>& bytes = bytes_.emplace_back(
          static_cast<std::size_t>(stored.rows() * row_elements(stored)) * size_of(dtype));
      file.read_rows(t, {0, stored.rows()}, bytes);
      tensors_.push_back({stored.name, dtype, stored.shape, bytes});
    }
  }

  [[nodiscard]] const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }
  /// Returns the tensors in the order of the data.
  [[nodiscard]] const std::vector<TensorView>& tensors() const noexcept { return tensors_; }
  [[nodiscard]] const TensorView& at(std::string_view name) const {
    const auto found = std::ranges::find(tensors_, name, &TensorView::name);
    if (found == tensors_.end()) throw std::out_of_range("no tensor '" + std::string(name) + "'");
    return *found;
  }

 private:
  std::map<std::string, std::string> metadata_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<TensorView> tensors_;
};

}  // namespace evenkeel::testing_support
