#include "data_ranks/hosted/held_passes.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>

namespace evenkeel {
namespace {

/// Counts the blocks that are taken and not given back.
template <typename T>
struct CountingAllocator {
  using value_type = T;

  explicit CountingAllocator(int& counter) : blocks(&counter) {}
  template <typename U>
  explicit CountingAllocator(const CountingAllocator<U>& other) : blocks(other.blocks) {}

  [[nodiscard]] T* allocate(std::size_t number) {
    ++*blocks;
    return std::allocator<T>{}.allocate(number);
  }
  void deallocate(T* memory, std::size_t number) noexcept {
    --*blocks;
    std::allocator<T>{}.deallocate(memory, number);
  }
  template <typename U>
  [[nodiscard]] bool operator==(const CountingAllocator<U>& other) const noexcept {
    return blocks == other.blocks;
  }

  int* blocks;
};

TEST(HeldPasses, keep_no_memory_of_passes_that_nobody_holds_though_nobody_asks) {
  int blocks = 0;
  const auto make_pass = [&] {
    return std::allocate_shared<const StepRecord>(CountingAllocator<StepRecord>(blocks));
  };
  HeldPasses passes;
  const std::shared_ptr<const StepRecord> held = make_pass();
  passes.add(1, held, HeldPasses::room_for_pass());
  for (std::uint64_t serial = 2; serial <= 20; ++serial)
    passes.add(serial, make_pass(), HeldPasses::room_for_pass());
  EXPECT_LE(blocks, 2);  // the one that is held, and the latest
  EXPECT_EQ(passes.first(), 1U);
}

TEST(HeldPasses, begin_with_the_first_one_that_is_still_held) {
  HeldPasses passes;
  EXPECT_EQ(passes.first(), std::nullopt);
  auto first = std::make_shared<const StepRecord>();
  const auto second = std::make_shared<const StepRecord>();
  passes.add(4, first, HeldPasses::room_for_pass());
  passes.add(7, second, HeldPasses::room_for_pass());
  EXPECT_EQ(passes.first(), 4U);
  first.reset();
  EXPECT_EQ(passes.first(), 7U);
  EXPECT_FALSE(passes.empty());
}

}  // namespace
}  // namespace evenkeel
