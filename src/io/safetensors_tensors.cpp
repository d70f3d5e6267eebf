#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "io/convert_integers.hpp"
#include "io/safetensors_header.hpp"
#include "io/safetensors_layout.hpp"
#include "io/tensor_file.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t converted_at_once = std::size_t{1} << 20;

/// How elements that no column has become such of one.
struct Widening {
  std::string_view stored;
  NpyDType from;
};
constexpr std::array<Widening, 5> widenings{{{"I8", NpyDType::int8},
                                             {"I16", NpyDType::int16},
                                             {"U16", NpyDType::uint16},
                                             {"U32", NpyDType::uint32},
                                             {"U64", NpyDType::uint64}}};

constexpr std::array<DType, 8> as_they_are{DType::boolean, DType::uint8,    DType::int32,   DType::int64,
                                           DType::float16, DType::bfloat16, DType::float32, DType::float64};

const Widening* widening_of(std::string_view stored) {
  const auto* const found = std::ranges::find(widenings, stored, &Widening::stored);
  return found == widenings.end() ? nullptr : found;
}

std::optional<DType> read_as(std::string_view stored) {
  const auto* const same = std::ranges::find(as_they_are, stored, safetensors::name_of);
  if (same != as_they_are.end()) return *same;
  if (const Widening* widening = widening_of(stored)) return column_dtype(widening->from);
  return std::nullopt;
}

class SafetensorsTensors : public TensorFile {
 public:
  explicit SafetensorsTensors(const std::filesystem::path& path) : file_(path) {
    path_ = path.string();
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
    const std::int64_t first = rows.begin * row_elements(tensors_[tensor]);
    const Widening* const widening = widening_of(tensors_[tensor].stored);
    if (widening != nullptr) return widen(tensor, first, *widening, out);
    const DType dtype = *tensors_[tensor].dtype;
    const std::int64_t place = begins_[tensor] + first * static_cast<std::int64_t>(size_of(dtype));
    file_.read({reinterpret_cast<char*>(out.data()), out.size()}, place);
    if (dtype != DType::boolean) return;
    const auto bad = std::ranges::find_if(out, [](std::byte value) { return value > std::byte{1}; });
    if (bad == out.end()) return;
    fail(tensor, first + (bad - out.begin()), place + (bad - out.begin()),
         std::to_string(std::to_integer<int>(*bad)) + "; a truth value is 0 or 1");
  }

  void expect_rows(std::size_t tensor, RowRange rows, ReadAhead& ahead) const override {
    const StoredTensor& stored = tensors_[tensor];
    const Widening* const widening = widening_of(stored.stored);
    const std::size_t element = widening != nullptr ? size_of(widening->from) : size_of(*stored.dtype);
    const std::int64_t row_bytes = row_elements(stored) * static_cast<std::int64_t>(element);
    ahead.add(file_, {begins_[tensor] + rows.begin * row_bytes, begins_[tensor] + rows.end * row_bytes});
  }

 private:
  void widen(std::size_t tensor, std::int64_t first, const Widening& widening,
             std::span<std::byte> out) const {
    const std::size_t narrow = size_of(widening.from);
    const DType dtype = *tensors_[tensor].dtype;
    const std::size_t wide = size_of(dtype);
    std::vector<char> block(std::min(converted_at_once, out.size() / wide * narrow));
    while (!out.empty()) {
      const std::span<char> part = std::span(block).first(std::min(block.size(), out.size() / wide * narrow));
      const std::int64_t place = begins_[tensor] + first * static_cast<std::int64_t>(narrow);
      file_.read(part, place);
      const std::size_t elements = part.size() / narrow;
      const std::size_t right = convert_integers(widening.from, dtype, part, out.data());
      if (right < elements) {
        std::uint64_t value = 0;
        std::memcpy(&value, part.data() + right * narrow, narrow);
        fail(tensor, first + static_cast<std::int64_t>(right),
             place + static_cast<std::int64_t>(right * narrow),
             std::to_string(value) + "; int64 holds at most " +
                 std::to_string(std::numeric_limits<std::int64_t>::max()));
      }
      first += static_cast<std::int64_t>(elements);
      out = out.subspan(elements * wide);
    }
  }

  [[noreturn]] void fail(std::size_t tensor, std::int64_t element, std::int64_t byte,
                         const std::string& what) const {
    throw InputError(path_, "tensor '" + tensors_[tensor].name + "' element " + std::to_string(element) +
                                " (at byte " + std::to_string(byte) + ") is " + what);
  }

  InputFile file_;
  std::vector<std::int64_t> begins_;
};

}  // namespace

std::unique_ptr<TensorFile> open_safetensors(const std::filesystem::path& path) {
  return std::make_unique<SafetensorsTensors>(path);
}

}  // namespace evenkeel
