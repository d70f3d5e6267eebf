#include "batch/block_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <random>
#include <vector>

#include "evenkeel/batch/field.hpp"
#include "support/columns_in.hpp"
#include "support/counting_memory.hpp"

namespace evenkeel {
namespace {

using testing_support::ColumnsIn;
using testing_support::CountingMemory;

using Blocks = std::vector<std::shared_ptr<std::byte>>;

TEST(BlockPool, reuses_a_block_after_the_last_pointer_into_it_is_destroyed) {
  CountingMemory memory;
  const ColumnsIn own(memory);
  BlockPool pool;
  std::shared_ptr<std::byte> block = pool.allocate_block(100'000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.get()) % BlockPool::alignment, 0U);
  const std::byte* const address = block.get();
  const std::shared_ptr<std::byte> part(block, block.get() + 99'999);
  block.reset();
  EXPECT_NE(pool.allocate_block(100'000).get(), address) << "a part is still held";
  EXPECT_EQ(memory.requests(), 2);
  EXPECT_NE(pool.allocate_block(50'000), nullptr);
  EXPECT_NE(pool.allocate_block(99'000), nullptr);
  EXPECT_EQ(memory.requests(), 2) << "a block serves a request for half of it or more";
  EXPECT_NE(pool.allocate_block(10'000), nullptr);
  EXPECT_EQ(memory.requests(), 3) << "a block does not serve a request for less than half of it";
}

TEST(BlockPool, stops_allocating_after_steps_of_varying_sizes) {
  CountingMemory memory;
  const ColumnsIn own(memory);
  BlockPool pool;
  std::mt19937 random(3);
  std::uniform_int_distribution<std::size_t> some(700'000, 1'000'000);
  std::vector<std::vector<std::size_t>> sizes(40);
  for (std::vector<std::size_t>& of_step : sizes) {
    for (int m = 0; m < 7; ++m) of_step.push_back(some(random));
    of_step.push_back(some(random) / 3);  // a step's last one
  }
  std::vector<Blocks> steps(3);  // made ahead
  std::int64_t after_warm_up = 0;
  for (std::size_t s = 0; s < 400; ++s) {
    Blocks blocks;
    for (const std::size_t bytes : sizes[s % sizes.size()]) blocks.push_back(pool.allocate_block(bytes));
    steps[s % steps.size()] = std::move(blocks);
    if (s == 100) after_warm_up = memory.requests();
  }
  EXPECT_EQ(memory.requests(), after_warm_up);
}

TEST(BlockPool, never_holds_much_more_than_the_maximum_in_use) {
  CountingMemory memory;
  const ColumnsIn own(memory);
  BlockPool pool;
  std::mt19937 random(4);
  std::uniform_int_distribution<std::size_t> digits(8, 20);
  Blocks blocks(10);
  std::vector<std::size_t> sizes(blocks.size());
  std::size_t most = 0;
  for (std::size_t round = 0; round < 2000; ++round) {
    const std::size_t at = round % blocks.size();
    blocks[at].reset();
    sizes[at] = 0;
    const std::size_t bytes = (std::size_t{1} << digits(random)) + round;
    blocks[at] = pool.allocate_block(bytes);
    sizes[at] = std::max<std::size_t>(2 * bytes, 4096);  // the most that it may be given
    std::size_t in_use = 0;
    for (const std::size_t size : sizes) in_use += size;
    most = std::max(most, in_use);
    ASSERT_LE(memory.held(), most + most / 4);
  }
  blocks.clear();
  EXPECT_GT(memory.held(), 0U) << "some are kept";
}

TEST(BlockPool, frees_kept_blocks_before_it_reports_a_lack_of_memory) {
  CountingMemory memory(1'500'000);
  const ColumnsIn own(memory);
  BlockPool pool;
  static_cast<void>(pool.allocate_block(1'000'000));
  static_cast<void>(pool.allocate_block(400'000));
  EXPECT_NE(pool.allocate_block(1'200'000), nullptr);
  EXPECT_THROW(static_cast<void>(pool.allocate_block(3'000'000)), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(pool.allocate_block(~std::size_t{0})), std::bad_alloc);
  EXPECT_NE(pool.allocate_block(1'000'000), nullptr) << "nothing is held by what failed";
}

TEST(BlockPool, frees_all_blocks_of_a_memory_that_columns_no_longer_use) {
  CountingMemory memory;
  std::shared_ptr<std::byte> block;
  {
    const ColumnsIn own(memory);
    block = BlockPool::instance().allocate_block(10'000);
    static_cast<void>(BlockPool::instance().allocate_block(30'000));
  }
  EXPECT_LT(memory.held(), 20'000U) << "one is in use";
  block.reset();
  EXPECT_EQ(memory.held(), 0U);
}

Column numbers_at(std::shared_ptr<std::byte> place) {
  Column column = Column::uninitialized({"numbers", DType::int64, FieldKind::token, {}}, 3, std::move(place));
  std::ranges::copy(std::vector<std::int64_t>{4, 5, 6}, column.values<std::int64_t>().begin());
  return column;
}

bool place_has_column(const Column& column, const std::shared_ptr<std::byte>& place) {
  return column.bytes().data() == place.get();
}

TEST(PlacedColumn, is_written_in_place_and_its_copies_own_their_memory) {
  const auto place = BlockPool::instance().allocate_block(24);
  Column column = numbers_at(place);
  EXPECT_TRUE(place_has_column(column, place));
  EXPECT_FALSE(column.is_borrowed());
  Column copy = column;
  Column assigned;
  assigned = column;
  EXPECT_FALSE(place_has_column(copy, place) || place_has_column(assigned, place));
  copy.values<std::int64_t>()[0] = 7;
  EXPECT_EQ(column, assigned);
  const Column moved = std::move(column);
  EXPECT_TRUE(place_has_column(moved, place));
}

TEST(PlacedColumn, leaves_its_place_when_it_grows) {
  const auto place = BlockPool::instance().allocate_block(24);
  Column column = numbers_at(place);
  column.resize(2);
  EXPECT_TRUE(place_has_column(column, place));
  column.resize(3);
  EXPECT_FALSE(place_has_column(column, place));
  const auto values = std::as_const(column).values<std::int64_t>();
  EXPECT_EQ(std::vector(values.begin(), values.end()), (std::vector<std::int64_t>{4, 5, 0}));
}

TEST(PlacedColumn, lends_its_place_until_the_last_borrower_releases_it) {
  auto place = BlockPool::instance().allocate_block(24);
  const std::weak_ptr<std::byte> block = place;
  Column column = numbers_at(std::move(place));
  Column borrower = column.make_borrowing_copy();
  EXPECT_TRUE(column.is_borrowed());
  EXPECT_TRUE(place_has_column(borrower, block.lock()));
  column.values<std::int64_t>()[0] = 7;
  EXPECT_EQ(borrower, numbers_at(nullptr));
  EXPECT_FALSE(block.expired());
  borrower.resize(1);
  EXPECT_TRUE(block.expired());
}

}  // namespace
}  // namespace evenkeel
