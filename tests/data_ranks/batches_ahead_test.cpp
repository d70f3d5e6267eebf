#include "data_ranks/hosted/batches_ahead.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

/// Samples by which a step is known.
RaggedBatch batch_of(std::int64_t step) {
  return RaggedBatch({SampleShape{SampleId{step}, 0, 1, 1}});
}

std::int64_t step_of(const RaggedBatch& batch) {
  return batch.samples().front().id.value();
}

TEST(BatchesAhead, are_those_of_each_step_in_order) {
  BatchesAhead batches(3, 9, 2, batch_of);
  for (std::int64_t step = 3; step < 9; ++step) EXPECT_EQ(step_of(batches.take(step)), step);
}

TEST(BatchesAhead, are_read_before_they_are_asked_for_and_no_more_than_the_depth) {
  for (const std::int64_t depth : {1, 3}) {
    std::atomic<std::int64_t> begun = 0;
    BatchesAhead batches(0, 100, depth, [&](std::int64_t step) {
      ++begun;
      return batch_of(step);
    });
    for (std::int64_t taken = 0; taken < 5; ++taken) {
      // However long nobody takes one: waiting longer could only let more be read.
      while (begun < taken + depth) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_EQ(begun, taken + depth);
      EXPECT_EQ(step_of(batches.take(taken)), taken);
    }
  }
}

TEST(BatchesAhead, that_cannot_be_read_are_errors_of_their_own_step) {
  BatchesAhead batches(0, 4, 2, [](std::int64_t step) {
    if (step == 1) throw InputError("line 7", "is malformed");
    return batch_of(step);
  });
  EXPECT_EQ(step_of(batches.take(0)), 0);
  EXPECT_THROW(static_cast<void>(batches.take(1)), InputError);
  EXPECT_EQ(step_of(batches.take(2)), 2);
  EXPECT_EQ(step_of(batches.take(3)), 3);
}

TEST(BatchesAhead, of_steps_that_failed_elsewhere_are_left_out) {
  BatchesAhead batches(0, 6, 2, batch_of);
  EXPECT_EQ(step_of(batches.take(2)), 2);
  EXPECT_EQ(step_of(batches.take(5)), 5);
}

TEST(BatchesAhead, end_at_any_time) {
  for (std::int64_t taken = 0; taken < 4; ++taken) {
    BatchesAhead batches(0, 1000, 2, batch_of);
    for (std::int64_t step = 0; step < taken; ++step) static_cast<void>(batches.take(step));
  }
  const BatchesAhead none(0, 0, 2, batch_of);
}

}  // namespace
}  // namespace evenkeel
