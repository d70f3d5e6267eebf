#include "transport/shared/shared_heap.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/field.hpp"
#include "support/columns_in.hpp"

namespace evenkeel {
namespace {

using testing_support::ColumnsIn;

constexpr std::size_t block = SharedHeap::smallest_block;

std::byte* take(SharedHeap& heap, std::size_t bytes) {
  return static_cast<std::byte*>(heap.allocate(bytes));
}

TEST(SharedHeap, another_mapping_of_the_file_shows_what_was_written) {
  SharedHeap heap;
  std::byte* const mine = take(heap, 2 * block);
  std::memset(mine, 0x5a, 2 * block);
  const auto place = heap.find(mine + block, 3);
  ASSERT_TRUE(place);
  const std::string path = "/proc/self/fd/" + std::to_string(place->file);
  const int file = open(path.c_str(), O_RDONLY);
  ASSERT_GE(file, 0);
  std::byte seen{};
  EXPECT_EQ(pread(file, &seen, 1, place->offset), 1);
  EXPECT_EQ(seen, std::byte{0x5a});
  close(file);
  heap.deallocate(mine, 2 * block);
}

TEST(SharedHeap, reuses_the_same_pages_step_after_step) {
  SharedHeap heap;
  SharedHeap::Usage after_first;
  for (int step = 0; step < 200; ++step) {
    std::vector<std::byte*> blocks;
    for (std::size_t i = 1; i <= 9; ++i) blocks.push_back(take(heap, i * 3 * block + i));
    for (std::size_t i = 9; i >= 1; --i) heap.deallocate(blocks[i - 1], i * 3 * block + i);
    if (step == 0) after_first = heap.usage();
  }
  EXPECT_EQ(heap.usage().in_use, 0);
  EXPECT_EQ(heap.usage().reserved, after_first.reserved);
  EXPECT_EQ(heap.usage().peak, after_first.peak);
  EXPECT_GE(after_first.peak, static_cast<std::int64_t>(135 * block));
}

TEST(SharedHeap, small_blocks_come_from_the_standard_heap) {
  SharedHeap heap;
  std::byte* const small = take(heap, block - 1);
  EXPECT_FALSE(heap.find(small, block - 1));
  EXPECT_EQ(heap.usage().reserved, 0);
  heap.deallocate(small, block - 1);
}

TEST(SharedHeap, knows_only_its_own_bytes) {
  SharedHeap heap;
  SharedHeap other;
  std::byte* const mine = take(heap, block);
  EXPECT_TRUE(heap.find(mine, block));
  EXPECT_FALSE(other.find(mine, block));
  EXPECT_FALSE(heap.find(mine, static_cast<std::size_t>(heap.usage().reserved) + 1));
  int local = 0;
  EXPECT_FALSE(heap.find(reinterpret_cast<const std::byte*>(&local), sizeof local));
  heap.deallocate(mine, block);
}

TEST(SharedHeap, a_block_larger_than_all_before_gets_a_file_of_its_own) {
  SharedHeap heap;
  std::byte* const first = take(heap, block);
  const auto large_bytes = static_cast<std::size_t>(heap.usage().reserved) + 5 * block;
  std::byte* const large = take(heap, large_bytes);
  ASSERT_TRUE(heap.find(large, large_bytes));
  EXPECT_NE(heap.find(large, 1)->file, heap.find(first, 1)->file);
  heap.deallocate(first, block);
  heap.deallocate(large, large_bytes);
}

/// Returns the number of bytes for which the system has allocated pages.
std::size_t bytes_behind(const SharedHeap& heap, const std::byte* address) {
  struct stat status {};
  EXPECT_EQ(fstat(static_cast<int>(heap.find(address, 1).value().file), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

TEST(SharedHeap, allocates_pages_before_they_are_written) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  SharedHeap heap;
  std::byte* const first = take(heap, 32 * mebibyte);
  EXPECT_GE(bytes_behind(heap, first), 32 * mebibyte);
  std::byte* const second = take(heap, 10 * mebibyte);  // in a file that has space for more
  EXPECT_GE(bytes_behind(heap, second), 10 * mebibyte);
  EXPECT_LT(bytes_behind(heap, second), 20 * mebibyte);
  const std::size_t before = bytes_behind(heap, second);
  heap.deallocate(second, 10 * mebibyte);
  std::byte* const again = take(heap, 9 * mebibyte);
  EXPECT_EQ(bytes_behind(heap, again), before) << "handed out again";
  heap.deallocate(again, 9 * mebibyte);
  heap.deallocate(first, 32 * mebibyte);
}

TEST(SharedHeap, a_failed_allocation_does_not_affect_later_ones) {
  SharedHeap heap;
  std::byte* const before = take(heap, block);
  for (const std::size_t bytes : {std::size_t{1} << 50, std::size_t{1} << 56, std::size_t{1} << 62}) {
    EXPECT_THROW((void)take(heap, bytes), LimitError);
  }
  std::byte* const after = take(heap, 20 * block);
  std::memset(after, 1, 20 * block);
  heap.deallocate(after, 20 * block);
  heap.deallocate(before, block);
  EXPECT_EQ(heap.usage().in_use, 0);
}

TEST(StandardHeap, a_block_for_which_there_is_no_memory_is_an_error) {
  EXPECT_THROW((void)standard_heap().allocate(std::size_t{1} << 50), LimitError);
  EXPECT_THROW((void)Column({"x", DType::int64, FieldKind::token, {}}, std::int64_t{1} << 47), LimitError);
}

TEST(SharedHeap, serves_threads_at_the_same_time) {
  SharedHeap heap;
  const auto work = [&heap](std::byte mark) {
    for (int round = 0; round < 100; ++round) {
      std::byte* const mine = take(heap, block + 100);
      std::memset(mine, std::to_integer<int>(mark), block + 100);
      ASSERT_EQ(mine[block], mark);
      heap.deallocate(mine, block + 100);
    }
  };
  std::thread other(work, std::byte{1});
  work(std::byte{2});
  other.join();
  EXPECT_EQ(heap.usage().in_use, 0);
}

RC_GTEST_PROP(SharedHeap, blocks_in_use_never_overlap_and_keep_their_bytes,
              (std::vector<std::uint8_t> draws)) {
  SharedHeap heap;
  struct Taken {
    std::byte* data;
    std::size_t bytes;
    std::byte mark;
  };
  std::vector<Taken> taken;
  const auto check_and_give_back = [&](std::size_t at) {
    const Taken one = taken[at];
    taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(at));
    for (std::size_t i = 0; i < one.bytes; i += 509) RC_ASSERT(one.data[i] == one.mark);
    heap.deallocate(one.data, one.bytes);
  };
  for (std::size_t i = 0; i < draws.size(); ++i) {
    if (draws[i] % 3 == 0 && !taken.empty()) check_and_give_back(draws[i] % taken.size());
    const std::size_t bytes = block / 2 + draws[i] * std::size_t{4001};
    taken.push_back({take(heap, bytes), bytes, static_cast<std::byte>(i)});
    std::memset(taken.back().data, static_cast<int>(i % 256), bytes);
  }
  while (!taken.empty()) check_and_give_back(taken.size() / 2);
  RC_ASSERT(heap.usage().in_use == 0);
}

TEST(ColumnMemory, determines_the_memory_of_new_columns_only) {
  SharedHeap heap;
  const FieldSpec spec{"input_ids", DType::int64, FieldKind::token, {}};
  const std::int64_t rows = 20000;
  const auto is_shared = [&](const Column& column) {
    return heap.find(column.bytes().data(), column.bytes().size()).has_value();
  };
  Column before(spec, rows);
  before.values<std::int64_t>()[7] = 77;
  {
    const ColumnsIn in_heap(heap);
    Column inside(spec, rows);
    EXPECT_TRUE(is_shared(inside));
    EXPECT_FALSE(is_shared(before));
    const std::byte* const address = inside.bytes().data();
    const Column moved = std::move(inside);
    EXPECT_EQ(moved.bytes().data(), address);
    const Column copied = before;
    EXPECT_TRUE(is_shared(copied));
    EXPECT_EQ(copied, before);
  }
  EXPECT_FALSE(is_shared(Column(spec, rows)));
  EXPECT_EQ(heap.usage().in_use, 0);
}

TEST(ColumnMemory, columns_of_different_memory_can_be_assigned_and_swapped) {
  SharedHeap heap;
  const FieldSpec spec{"values", DType::int64, FieldKind::token, {}};
  Column standard(spec, 20000);
  standard.values<std::int64_t>()[3] = 3;
  {
    const ColumnsIn in_heap(heap);
    Column shared(spec, 30000);
    shared.values<std::int64_t>()[4] = 4;
    std::swap(standard, shared);
    EXPECT_EQ(standard.rows(), 30000);
    EXPECT_EQ(standard.values<std::int64_t>()[4], 4);
    EXPECT_EQ(shared.values<std::int64_t>()[3], 3);
    standard = shared;
    EXPECT_EQ(standard, shared);
    standard = Column();
  }
  EXPECT_EQ(heap.usage().in_use, 0);
}

}  // namespace
}  // namespace evenkeel
