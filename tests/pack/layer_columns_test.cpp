#include "pack/layer_columns.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "batch/integers.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel {
namespace {

constexpr std::array integer_dtypes{DType::uint8, DType::int8,   DType::uint16, DType::int16,
                                    DType::int32, DType::uint32, DType::int64};

std::int64_t integer_at(const Column& column, std::size_t element) {
  return with_integer_type(column.spec().dtype, [&]<typename T>(T value) {
    std::memcpy(&value, column.bytes().data() + element * sizeof(T), sizeof(T));
    return static_cast<std::int64_t>(value);
  });
}

void put_integer(Column& column, std::size_t element, std::int64_t number) {
  with_integer_type(column.spec().dtype, [&]<typename T>(T) {
    const T value = static_cast<T>(number);
    std::memcpy(column.bytes().data() + element * sizeof(T), &value, sizeof(T));
  });
}

/// Integers that both dtypes hold, with the extremes of that among them.
Column made_up_integers(FieldSpec spec, std::int64_t rows, DType other) {
  const IntegerRange range{std::max(range_of(spec.dtype).least, range_of(other).least),
                           std::min(range_of(spec.dtype).most, range_of(other).most)};
  Column column(std::move(spec), rows);
  const std::size_t elements = column.bytes().size() / size_of(column.spec().dtype);
  for (std::size_t i = 0; i < elements; ++i) {
    const auto width = static_cast<std::uint64_t>(range.most) - static_cast<std::uint64_t>(range.least);
    const std::uint64_t drawn = testing_support::mix(i, 7);
    const std::uint64_t offset = i % 5 == 0       ? 0
                                 : i % 5 == 1     ? width
                                 : width == ~0ULL ? drawn
                                                  : drawn % (width + 1);
    put_integer(column, i, static_cast<std::int64_t>(static_cast<std::uint64_t>(range.least) + offset));
  }
  return column;
}

/// Layers of parts: any of them, in any order, some in several parts or in none.
std::vector<std::int64_t> any_layers(std::int64_t layers) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(layers));
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::int64_t> some;
  for (const std::int64_t layer : all) {
    if (*rc::gen::arbitrary<bool>()) some.push_back(layer);
  }
  if (*rc::gen::arbitrary<bool>()) std::ranges::reverse(some);
  return some;
}

/// Element e of layer l of a row, the plain way.
void expect_split(const Column& source, const std::vector<std::int64_t>& layers, const Column& target) {
  const std::int64_t all_layers = source.spec().trailing.front();
  const std::int64_t in_layer = all_layers == 0 ? 0 : source.spec().row_elements() / all_layers;
  RC_ASSERT(target.rows() == source.rows());
  std::size_t next = 0;
  for (std::int64_t row = 0; row < source.rows(); ++row) {
    for (const std::int64_t layer : layers) {
      for (std::int64_t e = 0; e < in_layer; ++e) {
        const auto from = static_cast<std::size_t>((row * all_layers + layer) * in_layer + e);
        RC_ASSERT(integer_at(target, next++) == integer_at(source, from));
      }
    }
  }
  RC_ASSERT(next * size_of(target.spec().dtype) == target.bytes().size());
}

RC_GTEST_PROP(CopyLayers, puts_every_element_where_a_plain_loop_does, ()) {
  const DType from = *rc::gen::elementOf(integer_dtypes);
  const DType to = *rc::gen::elementOf(integer_dtypes);
  const auto layers = *rc::gen::inRange<std::int64_t>(0, 9);
  FieldSpec spec{"x", from, FieldKind::token, {layers}};
  for (auto more = *rc::gen::inRange(0, 3); more > 0; --more)
    spec.trailing.push_back(*rc::gen::inRange<std::int64_t>(0, 5));
  const Column source = made_up_integers(spec, *rc::gen::inRange<std::int64_t>(0, 20), to);
  std::vector<std::vector<std::int64_t>> of_parts(*rc::gen::inRange<std::size_t>(0, 4));
  std::vector<Column> targets(of_parts.size());
  std::vector<LayerPart> parts;
  for (std::size_t p = 0; p < of_parts.size(); ++p) {
    of_parts[p] = any_layers(layers);
    FieldSpec part = spec;
    part.dtype = to;
    part.trailing.front() = std::ssize(of_parts[p]);
    targets[p] = Column::unwritten(part, source.rows());
    parts.push_back({of_parts[p], &targets[p]});
  }
  copy_layers(source, parts);
  for (std::size_t p = 0; p < of_parts.size(); ++p) expect_split(source, of_parts[p], targets[p]);
}

TEST(CopyLayers, of_many_bytes_which_go_past_the_caches_are_the_same) {
  for (const DType to : {DType::int16, DType::uint8, DType::int32}) {
    const Column source = made_up_integers({"x", DType::int16, FieldKind::token, {12, 37}}, 12001, to);
    const std::vector<std::vector<std::int64_t>> of_parts{{0, 1, 2, 3, 4}, {11, 5}, {6, 7, 8, 9, 10}};
    std::vector<Column> targets;
    std::vector<LayerPart> parts;
    targets.reserve(of_parts.size());
    for (const auto& layers : of_parts) {
      targets.push_back(Column::unwritten({"x", to, FieldKind::token, {std::ssize(layers), 37}}, 12001));
      parts.push_back({layers, &targets.back()});
    }
    copy_layers(source, parts);
    std::size_t wrong = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const std::size_t in_row = of_parts[p].size() * 37;
      for (std::size_t i = 0; i < in_row * 12001; ++i) {
        const auto layer = static_cast<std::size_t>(of_parts[p][i % in_row / 37]);
        const std::size_t from = i / in_row * (12 * 37) + layer * 37 + i % 37;
        wrong += integer_at(targets[p], i) == integer_at(source, from) ? 0U : 1U;
      }
    }
    EXPECT_EQ(wrong, 0U) << name_of(to);
    EXPECT_EQ(with_dtype(with_dtype(source, to), DType::int16), source);
  }
}

TEST(CopyLayers, moves_elements_of_any_dtype_as_they_are) {
  for (const DType dtype : all_dtypes) {
    Column source({"x", dtype, FieldKind::token, {3}}, 2);
    const std::size_t size = size_of(dtype);
    std::iota(reinterpret_cast<std::uint8_t*>(source.bytes().data()),
              reinterpret_cast<std::uint8_t*>(source.bytes().data()) + source.bytes().size(),
              std::uint8_t{1});
    Column target({"x", dtype, FieldKind::token, {2}}, 2);
    copy_layers(source, std::vector<LayerPart>{{std::vector<std::int64_t>{2, 0}, &target}});
    const auto element = [&](const Column& column, std::size_t i) {
      return column.bytes().subspan(i * size, size);
    };
    for (const auto& [to, from] : {std::pair{0U, 2U}, {1U, 0U}, {2U, 5U}, {3U, 3U}})
      EXPECT_TRUE(
          std::ranges::equal(element(std::as_const(target), to), element(std::as_const(source), from)))
          << name_of(dtype);
  }
}

TEST(CopyLayers, without_layers_moves_whole_rows) {
  const Column source = made_up_integers({"x", DType::int16, FieldKind::token, {4, 3}}, 10, DType::uint8);
  Column target({"x", DType::uint8, FieldKind::token, {4, 3}}, 10);
  copy_layers(source, std::vector<LayerPart>{{std::nullopt, &target}});
  EXPECT_EQ(with_dtype(target, DType::int16), source);
}

RC_GTEST_PROP(WithDType, keeps_every_number, ()) {
  const DType from = *rc::gen::elementOf(integer_dtypes);
  const DType to = *rc::gen::elementOf(integer_dtypes);
  const Column column =
      made_up_integers({"x", from, FieldKind::token, {2}}, *rc::gen::inRange<std::int64_t>(0, 40), to);
  const Column other = with_dtype(column, to);
  RC_ASSERT(other.spec().dtype == to);
  RC_ASSERT(other.rows() == column.rows());
  for (std::size_t i = 0; i < static_cast<std::size_t>(2 * column.rows()); ++i)
    RC_ASSERT(integer_at(other, i) == integer_at(column, i));
  RC_ASSERT(with_dtype(other, from) == column);
}

RC_GTEST_PROP(RangeOfValues, is_what_a_plain_loop_finds, ()) {
  const DType dtype = *rc::gen::elementOf(integer_dtypes);
  const Column column =
      made_up_integers({"x", dtype, FieldKind::token, {}}, *rc::gen::inRange<std::int64_t>(0, 40), dtype);
  IntegerRange expected;
  for (std::size_t i = 0; i < static_cast<std::size_t>(column.rows()); ++i)
    expected = expected.joined({integer_at(column, i), integer_at(column, i)});
  RC_ASSERT(range_of_values(column) == expected);
}

}  // namespace
}  // namespace evenkeel
