#include "batch/row_view.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/streaming.hpp"
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

/// Integers that both dtypes can represent, including the extremes.
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

/// Returns random layers in random order, sometimes none.
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

/// Returns a column with these layers of another column, as sent or where it is received.
Column column_of(const Column& source, const std::vector<std::int64_t>& layers, DType dtype) {
  FieldSpec spec = source.spec();
  spec.dtype = dtype;
  spec.trailing.front() = std::ssize(layers);
  return Column::uninitialized(std::move(spec), source.rows());
}

/// Element e of layer l of a row, computed in the obvious way.
std::size_t wrong_elements(const Column& source, const std::vector<std::int64_t>& layers,
                           const Column& target) {
  const std::int64_t all_layers = source.spec().trailing.front();
  const std::int64_t in_layer = all_layers == 0 ? 0 : source.spec().row_elements() / all_layers;
  std::size_t wrong = 0;
  std::size_t next = 0;
  for (std::int64_t row = 0; row < source.rows(); ++row) {
    for (const std::int64_t layer : layers) {
      for (std::int64_t e = 0; e < in_layer; ++e) {
        const auto from = static_cast<std::size_t>((row * all_layers + layer) * in_layer + e);
        wrong += integer_at(target, next++) == integer_at(source, from) ? 0U : 1U;
      }
    }
  }
  return wrong + (next * size_of(target.spec().dtype) == target.bytes().size() ? 0U : 1U);
}

/// Copies everything in pieces of this many bytes.
void copy_in_pieces(const ViewedRows& from, const ViewedRows& to, std::size_t bytes, std::size_t piece,
                    bool streams) {
  for (std::size_t at = 0; at < bytes; at += piece)
    copy_rows({from.first, from.view, at}, {to.first, to.view, at}, std::min(piece, bytes - at), streams);
  streaming::finish();
}

RC_GTEST_PROP(RowView, copies_the_elements_of_a_plain_loop, ()) {
  const DType brought = *rc::gen::elementOf(integer_dtypes);
  const DType way = *rc::gen::elementOf(integer_dtypes);
  const DType handed_out = *rc::gen::elementOf(std::vector{brought, way});
  const auto all = *rc::gen::inRange<std::int64_t>(0, 9);
  FieldSpec spec{"x", brought, FieldKind::token, {all}};
  for (auto more = *rc::gen::inRange(0, 3); more > 0; --more)
    spec.trailing.push_back(*rc::gen::inRange<std::int64_t>(0, 5));
  const Column source = made_up_integers(spec, *rc::gen::inRange<std::int64_t>(0, 20), way);
  const std::vector<std::int64_t> layers = any_layers(all);
  const bool streams = *rc::gen::arbitrary<bool>();

  Column on_the_way = column_of(source, layers, way);
  Column over_the_way = column_of(source, layers, handed_out);
  Column straight = column_of(source, layers, handed_out);
  const RowView taken = view_of_rows(spec, layers, way);
  const RowView put = view_of_rows(straight.spec(), std::nullopt, way);
  const std::size_t bytes = on_the_way.bytes().size();
  RC_ASSERT(taken.wire_bytes() == on_the_way.row_bytes());
  const std::size_t piece = size_of(way) * *rc::gen::inRange<std::size_t>(1, 50);
  copy_in_pieces({source.row(0), &taken}, {on_the_way.row(0)}, bytes, piece, streams);
  copy_in_pieces({on_the_way.row(0)}, {over_the_way.row(0), &put}, bytes, piece, streams);
  copy_in_pieces({source.row(0), &taken}, {straight.row(0), &put}, bytes, piece, streams);
  RC_ASSERT(wrong_elements(source, layers, on_the_way) == 0U);
  RC_ASSERT(wrong_elements(source, layers, over_the_way) == 0U);
  RC_ASSERT(straight == over_the_way);
}

TEST(RowView, copies_many_rows_at_once_like_single_rows) {
  const std::vector<std::int64_t> layers{11, 5, 6, 7};
  for (const DType to : {DType::int16, DType::uint8, DType::int32}) {
    const Column source = made_up_integers({"x", DType::int16, FieldKind::token, {12, 37}}, 5001, to);
    Column target = column_of(source, layers, to);
    const RowView view = view_of_rows(source.spec(), layers, to);
    for (const bool streams : {false, true}) {
      std::ranges::fill(target.bytes(), std::byte{0});
      copy_rows({source.row(0), &view}, {target.row(0)}, target.bytes().size(), streams);
      streaming::finish();
      EXPECT_EQ(wrong_elements(source, layers, target), 0U) << name_of(to);
    }
  }
}

TEST(RowView, copies_elements_of_any_dtype_unchanged) {
  for (const DType dtype : all_dtypes) {
    Column source({"x", dtype, FieldKind::token, {3}}, 2);
    const std::size_t size = size_of(dtype);
    std::iota(reinterpret_cast<std::uint8_t*>(source.bytes().data()),
              reinterpret_cast<std::uint8_t*>(source.bytes().data()) + source.bytes().size(),
              std::uint8_t{1});
    Column target({"x", dtype, FieldKind::token, {2}}, 2);
    const RowView view = view_of_rows(source.spec(), std::vector<std::int64_t>{2, 0}, dtype);
    copy_rows({source.row(0), &view}, {target.row(0)}, target.bytes().size(), false);
    const auto element = [&](const Column& column, std::size_t i) {
      return column.bytes().subspan(i * size, size);
    };
    for (const auto& [to, from] : {std::pair{0U, 2U}, {1U, 0U}, {2U, 5U}, {3U, 3U}})
      EXPECT_TRUE(
          std::ranges::equal(element(std::as_const(target), to), element(std::as_const(source), from)))
          << name_of(dtype);
  }
}

TEST(RowView, joins_adjacent_layers_and_is_plain_if_nothing_changes) {
  const FieldSpec spec{"x", DType::int16, FieldKind::token, {6, 4}};
  using Layers = std::vector<std::int64_t>;
  EXPECT_EQ(view_of_rows(spec, Layers{0, 1, 4, 5}, DType::int16).pieces,
            (std::vector<RowView::Piece>{{0, 16}, {32, 16}}));
  EXPECT_TRUE(RowView().is_plain());
  EXPECT_TRUE(view_of_rows(spec, std::nullopt, DType::int16).is_plain());
  EXPECT_TRUE(view_of_rows(spec, Layers{0, 1, 2, 3, 4, 5}, DType::int16).is_plain());
  EXPECT_FALSE(view_of_rows(spec, Layers{0, 1, 2, 3, 4, 5}, DType::uint8).is_plain());
  EXPECT_FALSE(view_of_rows(spec, Layers{5, 4, 3, 2, 1, 0}, DType::int16).is_plain());
  const RowView nothing = view_of_rows(spec, Layers{}, DType::int16);
  EXPECT_FALSE(nothing.is_plain());
  EXPECT_EQ(nothing.wire_bytes(), 0U);
  EXPECT_EQ(view_of_rows(spec, Layers{2}, DType::uint8).wire_bytes(), 4U);
}

RC_GTEST_PROP(RangeOfValues, matches_a_plain_loop, ()) {
  const DType dtype = *rc::gen::elementOf(integer_dtypes);
  const Column column =
      made_up_integers({"x", dtype, FieldKind::token, {}}, *rc::gen::inRange<std::int64_t>(0, 40), dtype);
  IntegerRange expected;
  for (std::size_t i = 0; i < static_cast<std::size_t>(column.rows()); ++i)
    expected = expected.enclosing_range({integer_at(column, i), integer_at(column, i)});
  RC_ASSERT(range_of_values(column) == expected);
}

}  // namespace
}  // namespace evenkeel
