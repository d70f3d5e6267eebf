#include "io/safetensors/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "io/files/input_file.hpp"
#include "io/safetensors/header.hpp"
#include "io/safetensors/layout.hpp"
#include "io/samples/tensor_file.hpp"

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

/// An element type that columns do not support. Its values are read as int64.
constexpr std::string_view unsigned_64 = "U64";

std::optional<DType> supported_dtype(std::string_view stored) {
  const auto* const same = std::ranges::find(all_dtypes, stored, safetensors::name_of);
  if (same != all_dtypes.end()) return *same;
  return stored == unsigned_64 ? std::optional(DType::int64) : std::nullopt;
}

class SafetensorsTensors : public TensorFile {
 public:
  template <typename... File>
  explicit SafetensorsTensors(const File&... file) : file_(file...) {
    path_ = file_.path();
    SafetensorsLayout layout = read_safetensors_layout(file_);
    metadata_ = std::move(layout.metadata);
    for (SafetensorsEntry& entry : layout.entries) {
      begins_.push_back(layout.data_begin + entry.begin);
      const std::optional<DType> dtype = supported_dtype(entry.dtype);
      tensors_.push_back({std::move(entry.name), std::move(entry.shape), std::move(entry.dtype), dtype});
    }
  }

  [[nodiscard]] std::vector<const InputFile*> files() const override { return {&file_}; }

  void read_rows(std::size_t tensor, RowRange rows, std::span<std::byte> out) const override {
    const DType dtype = *tensors_[tensor].dtype;
    const std::int64_t first = rows.begin * row_elements(tensors_[tensor]);
    file_.read({reinterpret_cast<char*>(out.data()), out.size()}, place_of(tensor, first));
    if (dtype == DType::boolean) return require_truth_values(tensor, first, out);
    if (tensors_[tensor].stored == unsigned_64) require_below_2_to_63(tensor, first, out);
  }

  void add_rows_to_read_ahead(std::size_t tensor, RowRange rows, ReadAhead& ahead) const override {
    const std::int64_t elements = row_elements(tensors_[tensor]);
    ahead.add(file_, {place_of(tensor, rows.begin * elements), place_of(tensor, rows.end * elements)});
  }

 private:
  [[nodiscard]] std::int64_t place_of(std::size_t tensor, std::int64_t element) const {
    return begins_[tensor] + element * static_cast<std::int64_t>(size_of(*tensors_[tensor].dtype));
  }

  void require_truth_values(std::size_t tensor, std::int64_t first, std::span<const std::byte> values) const {
    const auto bad = std::ranges::find_if(values, [](std::byte value) { return value > std::byte{1}; });
    if (bad == values.end()) return;
    fail(tensor, first + (bad - values.begin()),
         std::to_string(std::to_integer<int>(*bad)) + "; a truth value is 0 or 1");
  }

  void require_below_2_to_63(std::size_t tensor, std::int64_t first,
                             std::span<const std::byte> values) const {
    for (std::size_t i = 0; i < values.size() / sizeof(std::uint64_t); ++i) {
      std::uint64_t value = 0;
      std::memcpy(&value, values.data() + i * sizeof value, sizeof value);
      if (std::in_range<std::int64_t>(value)) continue;
      fail(tensor, first + static_cast<std::int64_t>(i),
           std::to_string(value) + "; int64 holds at most " +
               std::to_string(std::numeric_limits<std::int64_t>::max()));
    }
  }

  [[noreturn]] void fail(std::size_t tensor, std::int64_t element, const std::string& what) const {
    throw InputError(path_, "tensor '" + tensors_[tensor].name + "' element " + std::to_string(element) +
                                " (at byte " + std::to_string(place_of(tensor, element)) + ") is " + what);
  }

  InputFile file_;
  std::vector<std::int64_t> begins_;
};

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

std::unique_ptr<TensorFile> open_safetensors(const std::filesystem::path& path) {
  return std::make_unique<SafetensorsTensors>(path);
}

std::unique_ptr<TensorFile> open_safetensors(const std::string& name, std::string_view content) {
  return std::make_unique<SafetensorsTensors>(name, content);
}

}  // namespace evenkeel
