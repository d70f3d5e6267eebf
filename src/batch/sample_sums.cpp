#include "batch/sample_sums.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <string>
#include <type_traits>

#include "batch/integers.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t most = (std::int64_t{1} << 62) - 1;

std::string name_of_field(const Column& field) {
  return "field '" + field.spec().name + "'";
}

[[noreturn]] void throw_invalid_work(const Column& field, SampleId sample, const std::string& value) {
  throw InputError(name_of_field(field),
                   "has " + value + " in sample " + std::to_string(sample.value()) +
                       ", but balance.cost reads the work of samples from this field",
                   "Use whole numbers, 0 or more");
}

template <typename T>
std::int64_t to_integer_work(T value, const Column& field, SampleId sample) {
  if constexpr (std::floating_point<T>) {
    if (!(value >= 0) || std::floor(value) != value || std::isinf(value)) {
      std::array<char, 32> text{};
      char* const end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
      throw_invalid_work(field, sample, std::string(text.data(), end));
    }
    // 2^62 is exact in T, and every smaller value fits in std::int64_t.
    constexpr T limit = static_cast<T>(std::int64_t{1} << 62);
    return value < limit ? static_cast<std::int64_t>(value) : most + 1;
  } else {
    if constexpr (std::is_signed_v<T>)
      if (value < 0) throw_invalid_work(field, sample, std::to_string(value));
    return static_cast<std::int64_t>(value);
  }
}

template <typename T>
std::vector<std::int64_t> sum_values_by_sample(const RaggedBatch& batch, const Column& field) {
  const std::span<const T> values = field.values<T>();
  const auto elements = static_cast<std::size_t>(field.spec().row_elements());
  std::vector<std::int64_t> sums;
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const SampleId id = batch.samples()[static_cast<std::size_t>(i)].id;
    const RowRange rows = batch.rows_of(field, i);
    std::int64_t sum = 0;
    for (const T value : values.subspan(static_cast<std::size_t>(rows.begin) * elements,
                                        static_cast<std::size_t>(rows.size()) * elements)) {
      const std::int64_t own = to_integer_work(value, field, id);
      if (own > most - sum) {
        throw LimitError(name_of_field(field),
                         "adds up to 2^62 or more in sample " + std::to_string(id.value()) +
                             "; balance.cost reads the work of samples from this field, and it must be less",
                         "Use a larger unit, which makes the numbers smaller");
      }
      sum += own;
    }
    sums.push_back(sum);
  }
  return sums;
}

[[noreturn]] void throw_not_numeric(const Column& field, std::string_view what) {
  throw InputError(
      name_of_field(field),
      "has " + std::string(what) + ", but balance.cost reads the work of samples from this field",
      "Use integers, float32 or float64");
}

}  // namespace

std::vector<std::int64_t> sum_by_sample(const RaggedBatch& batch, const Column& field) {
  const FieldRule& rule = field.spec().rule();
  if (!rule.has_numbers()) throw_not_numeric(field, rule.name);
  const DType dtype = field.spec().dtype;
  if (is_integer(dtype))
    return with_integer_type(dtype, [&]<typename T>(T) { return sum_values_by_sample<T>(batch, field); });
  if (dtype == DType::boolean) return sum_values_by_sample<bool>(batch, field);
  if (dtype == DType::float32) return sum_values_by_sample<float>(batch, field);
  if (dtype == DType::float64) return sum_values_by_sample<double>(batch, field);
  throw_not_numeric(field, "elements of " + std::string(name_of(dtype)));
}

}  // namespace evenkeel
