#include "io/samples/tensor_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "batch/integers.hpp"
#include "evenkeel/base/error.hpp"
#include "io/numpy/npy.hpp"
#include "io/numpy/npz.hpp"

namespace evenkeel {
namespace {

constexpr double largest_whole_real = 1 << 24;  ///< up to which float32 has each whole number

StoredTensor described(std::string name, const NpyArray& array) {
  return {std::move(name), array.shape(), std::string(name_of(array.dtype())), column_dtype(array.dtype())};
}

class NpzTensors : public TensorFile {
 public:
  NpzTensors(const std::filesystem::path& path, std::int64_t max_bytes) : file_(path) {
    path_ = path.string();
    for (const std::string& name : file_.names()) {
      arrays_.push_back(file_.open(name, max_bytes));
      tensors_.push_back(described(name, arrays_.back()));
      if (!file_.is_stored(name)) {
        const StoredTensor& tensor = tensors_.back();
        max_bytes -=
            tensor.rows() * row_elements(tensor) * static_cast<std::int64_t>(size_of(arrays_.back().dtype()));
      }
    }
  }

  [[nodiscard]] std::vector<const InputFile*> files() const override { return {&file_.file()}; }
  void read_rows(std::size_t tensor, RowRange rows, std::span<std::byte> out) const override {
    arrays_[tensor].read_rows(rows, *tensors_[tensor].dtype, out);
  }

 private:
  NpzFile file_;
  std::vector<NpyArray> arrays_;
};

class NpyTensors : public TensorFile {
 public:
  explicit NpyTensors(const std::vector<std::filesystem::path>& paths) {
    path_ = paths.front().string();
    if (paths.size() > 1) path_ = (paths.front().parent_path() / "*.npy").string();
    for (const std::filesystem::path& path : paths) {
      arrays_.emplace_back(path);
      const std::string name = path.stem().string();
      if (find(name))
        throw InputError(path.string(), "has an array '" + name + "', as another of the files has");
      tensors_.push_back(described(name, arrays_.back()));
    }
  }

  [[nodiscard]] std::vector<const InputFile*> files() const override {
    std::vector<const InputFile*> files;
    for (const NpyArray& array : arrays_) files.push_back(array.file());
    return files;
  }
  void read_rows(std::size_t tensor, RowRange rows, std::span<std::byte> out) const override {
    arrays_[tensor].read_rows(rows, *tensors_[tensor].dtype, out);
  }

  void expect_rows(std::size_t tensor, RowRange rows, ReadAhead& ahead) const override {
    ahead.add(*arrays_[tensor].file(), arrays_[tensor].bytes_of(rows));
  }

 private:
  std::vector<NpyArray> arrays_;
};

}  // namespace

std::optional<std::size_t> TensorFile::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(tensors_, name, &StoredTensor::name);
  if (found == tensors_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - tensors_.begin());
}

bool TensorFile::has_integers(std::size_t tensor) const noexcept {
  const std::optional<DType> dtype = tensors_[tensor].dtype;
  return dtype == DType::boolean || (dtype && is_integer(*dtype));
}

std::vector<std::int64_t> TensorFile::read_integers(std::size_t tensor, RowRange rows) const {
  const DType dtype = *tensors_[tensor].dtype;
  const auto count = static_cast<std::size_t>(rows.size() * row_elements(tensors_[tensor]));
  std::vector<std::int64_t> integers(count);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(integers));
  const std::size_t narrow = size_of(dtype);
  // Narrow elements are read to the end of the room and widened from its start.
  const std::span<std::byte> elements = bytes.last(count * narrow);
  read_rows(tensor, rows, elements);
  const auto widen_reals = [&]<typename T>(T element) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(&element, elements.data() + i * sizeof element, sizeof element);
      if (std::trunc(element) != element || std::abs(element) > largest_whole_real) {
        throw InputError(path_, "tensor '" + tensors_[tensor].name + "' holds " + std::to_string(element) +
                                    "; whole numbers are needed");
      }
      integers[i] = static_cast<std::int64_t>(element);
    }
  };
  if (dtype == DType::float32) {
    widen_reals(float{});
    return integers;
  }
  if (dtype == DType::float64) {
    widen_reals(double{});
    return integers;
  }
  with_integer_type(dtype == DType::boolean ? DType::uint8 : dtype, [&]<typename T>(T element) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(&element, elements.data() + i * sizeof element, sizeof element);
      integers[i] = element;
    }
  });
  return integers;
}

std::int64_t row_elements(const StoredTensor& tensor) noexcept {
  std::int64_t elements = 1;
  for (std::size_t d = 1; d < tensor.shape.size(); ++d) elements *= tensor.shape[d];
  return elements;
}

std::unique_ptr<TensorFile> open_npz(const std::filesystem::path& path, std::int64_t max_bytes) {
  return std::make_unique<NpzTensors>(path, max_bytes);
}

std::unique_ptr<TensorFile> open_npy_files(const std::vector<std::filesystem::path>& paths) {
  return std::make_unique<NpyTensors>(paths);
}

}  // namespace evenkeel
