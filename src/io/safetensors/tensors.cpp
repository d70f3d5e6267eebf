#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "io/safetensors/header.hpp"
#include "io/safetensors/layout.hpp"
#include "io/samples/tensor_file.hpp"

namespace evenkeel {
namespace {

/// The elements that no column has and that become int64.
constexpr std::string_view unsigned_64 = "U64";

std::optional<DType> read_as(std::string_view stored) {
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
      const std::optional<DType> dtype = read_as(entry.dtype);
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

  void expect_rows(std::size_t tensor, RowRange rows, ReadAhead& ahead) const override {
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

std::unique_ptr<TensorFile> open_safetensors(const std::filesystem::path& path) {
  return std::make_unique<SafetensorsTensors>(path);
}

std::unique_ptr<TensorFile> open_safetensors(const std::string& name, std::string_view content) {
  return std::make_unique<SafetensorsTensors>(name, content);
}

}  // namespace evenkeel
