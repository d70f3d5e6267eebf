#pragma once

#include <gtest/gtest.h>

#include "batch/equal_values.hpp"
#include "evenkeel/service/data_service.hpp"
#include "service/step_record.hpp"

namespace evenkeel::test {

/// Returns a column in the order of the samples, no matter where shared rows are stored.
inline Column unfolded(const Column& column) {
  return column.samples().are_shared() ? with_separate_rows(column) : column;
}

/// Requires that both steps have the same micro-batches, with the same fields in any order, and equal losses.
inline void expect_equal(const Step& step, const Step& expected) {
  ASSERT_EQ(step.micro_batches.size(), expected.micro_batches.size());
  EXPECT_EQ(step.record->plan, expected.record->plan);
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    const PackedMicroBatch& one = step.micro_batches[m].tensors;
    const PackedMicroBatch& other = expected.micro_batches[m].tensors;
    EXPECT_EQ(step.micro_batches[m].loss, expected.micro_batches[m].loss);
    EXPECT_EQ(step.micro_batches[m].mini_batch, expected.micro_batches[m].mini_batch);
    EXPECT_EQ(one.layout, other.layout);
    EXPECT_EQ(one.padded_length, other.padded_length);
    EXPECT_EQ(one.samples, other.samples);
    EXPECT_EQ(one.fields.size(), other.fields.size());
    for (const Column& column : other.fields) {
      const Column* found = one.find(column.spec().name);
      ASSERT_NE(found, nullptr) << column.spec().name;
      EXPECT_EQ(unfolded(*found), unfolded(column)) << column.spec().name << " of micro-batch " << m;
    }
  }
}

}  // namespace evenkeel::test
