#include "batch/mask.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace evenkeel {
namespace {

using testing::ElementsAre;

struct Mask {
  DType dtype;
  std::vector<std::int64_t> trailing;

  friend void PrintTo(const Mask& mask, std::ostream* out) {
    *out << name_of(mask.dtype) << testing::PrintToString(mask.trailing);
  }
};

class MasksOfEveryWidth : public testing::TestWithParam<Mask> {
 protected:
  /// 21 rows, of which every third is set, indicated only by its last byte.
  [[nodiscard]] static Column every_third_row() {
    Column mask({"loss_mask", GetParam().dtype, FieldKind::token, GetParam().trailing}, 21);
    for (std::int64_t row = 0; row < mask.rows(); row += 3) *(mask.row(row + 1) - 1) = std::byte{1};
    return mask;
  }
};

TEST_P(MasksOfEveryWidth, rows_with_any_byte_set_are_counted) {
  const Column mask = every_third_row();
  EXPECT_EQ(count_set(mask, {0, 21}), 7);
  EXPECT_EQ(count_set(mask, {1, 3}), 0);
  EXPECT_EQ(count_set(mask, {18, 19}), 1);
  EXPECT_EQ(count_set(mask, {4, 4}), 0);
}

TEST_P(MasksOfEveryWidth, writes_values_in_set_rows_and_zeros_elsewhere) {
  const Column mask = every_third_row();
  std::vector<float> values(5, -1);
  write_mask(mask, {2, 6}, 0.5F, std::span(values).first(4));
  EXPECT_THAT(values, ElementsAre(0, 0.5F, 0, 0, -1));
  write_mask(mask, {3, 3}, 0.5F, {});
}

TEST(Masks, a_zero_of_either_sign_is_not_set) {
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    Column mask({"loss_mask", dtype, FieldKind::token, {}}, 3);
    *(mask.row(1) - 1) = std::byte{0x80};  // -0.0
    *(mask.row(2) - 1) = std::byte{0xBF};  // another negative number
    EXPECT_EQ(count_set(mask, {0, 3}), 1) << name_of(dtype);
    std::vector<float> values(3, -1);
    write_mask(mask, {0, 3}, 0.5F, values);
    EXPECT_THAT(values, ElementsAre(0, 0.5F, 0)) << name_of(dtype);
  }
}

TEST(Masks, the_highest_bit_of_an_integer_counts) {
  for (const DType dtype : {DType::uint8, DType::int32, DType::int64}) {
    Column mask({"loss_mask", dtype, FieldKind::token, {}}, 1);
    *(mask.row(1) - 1) = std::byte{0x80};
    EXPECT_EQ(count_set(mask, {0, 1}), 1) << name_of(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, MasksOfEveryWidth,
                         testing::Values(Mask{DType::uint8, {}}, Mask{DType::float16, {}},
                                         Mask{DType::float32, {}}, Mask{DType::int64, {}},
                                         Mask{DType::uint8, {3}}, Mask{DType::int64, {2}}));

}  // namespace
}  // namespace evenkeel
