#include "io/samples/synthetic.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t max_count = std::int64_t{1} << 40;
constexpr std::int64_t max_group = std::int64_t{1} << 20;
constexpr double max_sigma = 10.0;
constexpr float noise = 1.0F / 16;

/// Purpose of a random number. Numbers for different purposes are independent.
enum class Purpose : std::uint64_t {
  prompt_length = 1,
  response_length,
  prompt_token,
  response_token,
  difficulty,
  reward,
  advantage,
};

/// Generates random numbers by SplitMix64. The state is computed from a counter, so any number of a sequence
/// can be computed in constant time. A sequence is identified by the seed, the purpose, and the number of the
/// prompt or sample for which the numbers are drawn.
class Draws {
 public:
  Draws(std::uint64_t seed, Purpose purpose, std::int64_t index)
      : key_(mix_64(mix_64(mix_64(seed + step) + static_cast<std::uint64_t>(purpose)) +
                    static_cast<std::uint64_t>(index))) {}

  [[nodiscard]] std::uint64_t bits(std::int64_t counter) const {
    return mix_64(key_ + (static_cast<std::uint64_t>(counter) + 1) * step);
  }
  /// Returns a uniformly distributed number in [0, 1), with 53 random bits.
  [[nodiscard]] double uniform(std::int64_t counter) const {
    return static_cast<double>(bits(counter) >> 11) * 0x1p-53;
  }

 private:
  static constexpr std::uint64_t step = 0x9e3779b97f4a7c15;
  std::uint64_t key_;
};

// The results of the C library's exp and log may differ in the last bit between platforms, which could change
// a length. These functions use only operations that IEEE 754 rounds correctly. In the range used here, both
// are accurate to about 1e-15.

double portable_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // in [0.5, 1)
  if (mantissa < 0.70710678118654752) {
    mantissa *= 2;
    --exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1);  // log(m) = 2 atanh(s), |s| < 0.172
  double series = 0;
  for (int power = 21; power >= 1; power -= 2) series = series * s * s + 1.0 / power;
  return 2 * s * series + exponent * 0.69314718055994531;
}

double portable_exp(double x) {
  const double exponent = std::floor(x / 0.69314718055994531 + 0.5);
  const double rest = x - exponent * 0.69314718055994531;  // |rest| < 0.347
  double series = 1;
  for (int term = 14; term >= 1; --term) series = 1 + series * rest / term;
  return std::ldexp(series, static_cast<int>(exponent));
}

/// Returns a standard normal number, by the polar method (Marsaglia and Bray 1964).
double draw_normal(const Draws& draws) {
  for (std::int64_t counter = 0;; counter += 2) {
    const double u = 2 * draws.uniform(counter) - 1;
    const double v = 2 * draws.uniform(counter + 1) - 1;
    const double s = u * u + v * v;
    if (s > 0 && s < 1) return u * std::sqrt(-2 * portable_log(s) / s);
  }
}

std::int64_t draw_length(const LengthDistribution& lengths, const Draws& draws) {
  const double x = lengths.median * portable_exp(lengths.sigma * draw_normal(draws));
  const double cut = std::clamp(x, static_cast<double>(lengths.min), static_cast<double>(lengths.max));
  return static_cast<std::int64_t>(std::floor(cut + 0.5));
}

void require(bool holds, const std::string& member, const std::string& value, const std::string& range) {
  if (!holds) throw ConfigError(member, "is " + value + "; it must be " + range);
}

void validate(const LengthDistribution& lengths, const std::string& name) {
  require(std::isfinite(lengths.median) && lengths.median > 0, name + ".median",
          std::to_string(lengths.median), "finite and above 0");
  require(lengths.sigma >= 0 && lengths.sigma <= max_sigma, name + ".sigma", std::to_string(lengths.sigma),
          "from 0 to 10");
  require(lengths.min >= 0, name + ".min", std::to_string(lengths.min), "0 or more");
  require(lengths.max >= lengths.min && lengths.max <= max_count, name + ".max", std::to_string(lengths.max),
          "from min (" + std::to_string(lengths.min) + ") to 2^40");
}

void require_sample_exists(const SyntheticSpec& spec, SampleId id) {
  if (id.value() >= 0 && id.value() < spec.samples()) return;
  throw InputError("sample " + std::to_string(id.value()),
                   "does not exist; the source has " + format_plain_count(spec.samples(), "sample"));
}

std::int64_t prompt_index_of(const SyntheticSpec& spec, SampleId id) {
  return id.value() / spec.group_size;
}

SampleShape shape_of(const SyntheticSpec& spec, SampleId id) {
  const std::int64_t prompt = prompt_index_of(spec, id);
  return {id, static_cast<std::uint64_t>(prompt),
          draw_length(spec.prompt_length, Draws(spec.seed, Purpose::prompt_length, prompt)),
          draw_length(spec.response_length, Draws(spec.seed, Purpose::response_length, id.value()))};
}

void fill_tokens(const SyntheticSpec& spec, const Draws& draws, std::span<std::int64_t> tokens) {
  const auto vocabulary = static_cast<std::uint64_t>(spec.vocab_size);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int64_t>(draws.bits(static_cast<std::int64_t>(i)) % vocabulary);
  }
}

/// Returns 1 if the response is correct, otherwise 0. Each prompt has its own probability of a correct
/// response.
float reward_of(const SyntheticSpec& spec, SampleId id) {
  const double share = Draws(spec.seed, Purpose::difficulty, prompt_index_of(spec, id)).uniform(0);
  return Draws(spec.seed, Purpose::reward, id.value()).uniform(0) < share ? 1.0F : 0.0F;
}

/// Returns (reward - mean) / standard deviation over the sample's group, or 0 if all rewards of the group are
/// equal.
float normalized_reward(const SyntheticSpec& spec, SampleId id) {
  const std::int64_t first = prompt_index_of(spec, id) * spec.group_size;
  double sum = 0;
  for (std::int64_t i = 0; i < spec.group_size; ++i) {
    sum += static_cast<double>(reward_of(spec, SampleId{first + i}));
  }
  const double mean = sum / static_cast<double>(spec.group_size);
  const double variance = mean * (1 - mean);  // because each reward is 0 or 1
  if (variance == 0) return 0;
  return static_cast<float>((static_cast<double>(reward_of(spec, id)) - mean) / std::sqrt(variance));
}

void fill_advantages(const SyntheticSpec& spec, SampleId id, std::span<float> advantages) {
  const float base = normalized_reward(spec, id);
  const Draws draws(spec.seed, Purpose::advantage, id.value());
  for (std::size_t i = 0; i < advantages.size(); ++i) {
    advantages[i] = base + noise * static_cast<float>(draws.uniform(static_cast<std::int64_t>(i)) - 0.5);
  }
}

/// Returns the values of sample `index` in a field with one element per row.
template <typename T>
std::span<T> values_of(RaggedBatch& batch, Column& column, std::int64_t index) {
  const RowRange rows = batch.rows_of(column, index);
  return column.values<T>().subspan(static_cast<std::size_t>(rows.begin),
                                    static_cast<std::size_t>(rows.size()));
}

}  // namespace

void validate(const SyntheticSpec& spec) {
  require(spec.prompts >= 0 && spec.prompts <= max_count, "prompts", std::to_string(spec.prompts),
          "from 0 to 2^40");
  require(spec.group_size >= 1 && spec.group_size <= max_group, "group_size", std::to_string(spec.group_size),
          "from 1 to 2^20");
  require(spec.vocab_size >= 1, "vocab_size", std::to_string(spec.vocab_size), "1 or more");
  validate(spec.prompt_length, "prompt_length");
  validate(spec.response_length, "response_length");
}

SampleShape synthetic_shape(const SyntheticSpec& spec, SampleId id) {
  validate(spec);
  require_sample_exists(spec, id);
  return shape_of(spec, id);
}

RaggedBatch synthetic_samples(const SyntheticSpec& spec, std::span<const SampleId> ids) {
  validate(spec);
  std::vector<SampleShape> shapes;
  shapes.reserve(ids.size());
  for (const SampleId id : ids) {
    require_sample_exists(spec, id);
    shapes.push_back(shape_of(spec, id));
  }
  RaggedBatch batch(std::move(shapes));
  batch.add_field({std::string(input_ids_field), DType::int64, FieldKind::token, {}});
  batch.add_field({"reward", DType::float32, FieldKind::sample, {}});
  batch.add_field({"advantages", DType::float32, FieldKind::response_token, {}});
  const std::span<Column> fields = batch.fields();
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const SampleShape& shape = batch.samples()[static_cast<std::size_t>(i)];
    const auto prompt = static_cast<std::size_t>(shape.prompt);
    const std::span<std::int64_t> tokens = values_of<std::int64_t>(batch, fields[0], i);
    fill_tokens(spec, Draws(spec.seed, Purpose::prompt_token, prompt_index_of(spec, shape.id)),
                tokens.first(prompt));
    fill_tokens(spec, Draws(spec.seed, Purpose::response_token, shape.id.value()), tokens.subspan(prompt));
    values_of<float>(batch, fields[1], i).front() = reward_of(spec, shape.id);
    fill_advantages(spec, shape.id, values_of<float>(batch, fields[2], i));
  }
  return batch;
}

}  // namespace evenkeel
