#include <gtest/gtest.h>

#include <boost/mpi/communicator.hpp>
#include <map>
#include <memory_resource>
#include <mutex>
#include <span>

#include "evenkeel/service/data_service.hpp"
#include "service/equal_steps.hpp"
#include "service/steps_in_all_modes.hpp"
#include "support/columns_in.hpp"

// A program that supplies its own memory (such as pinned memory) gets all of its data in it.

namespace evenkeel::own_memory_test {
namespace {

using test::configs_for;
using test::expect_equal;
using test::results_of;
using test::share_of;
using testing_support::ColumnsIn;

/// Records the blocks that it has allocated.
class OwnMemory final : public std::pmr::memory_resource {
 public:
  [[nodiscard]] bool holds(const Column& column) {
    const std::lock_guard lock(mutex_);
    const std::span<const std::byte> bytes = column.bytes();
    const auto after = blocks_.upper_bound(bytes.data());
    if (after == blocks_.begin()) return false;
    const auto& [first, size] = *std::prev(after);
    return bytes.data() + bytes.size() <= first + size;
  }
  [[nodiscard]] bool is_empty() {
    const std::lock_guard lock(mutex_);
    return blocks_.empty();
  }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* const block = std::pmr::new_delete_resource()->allocate(bytes, alignment);
    const std::lock_guard lock(mutex_);
    blocks_[static_cast<const std::byte*>(block)] = bytes;
    return block;
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    {
      const std::lock_guard lock(mutex_);
      blocks_.erase(static_cast<const std::byte*>(block));
    }
    std::pmr::new_delete_resource()->deallocate(block, bytes, alignment);
  }
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::mutex mutex_;
  std::map<const std::byte*, std::size_t> blocks_;
};

/// Requires that everything in the step is in this memory, except for tensors that tensor-parallel ranks of a
/// node share.
void expect_in(OwnMemory& memory, const Step& step) {
  for (const MicroBatch& micro_batch : step.micro_batches) {
    for (const Column& column : micro_batch.tensors.fields) {
      if (!column.bytes().empty() && !column.is_borrowed()) {
        EXPECT_TRUE(memory.holds(column)) << column.spec().name;
      }
    }
  }
}

TEST(OwnMemory, provides_all_steps_and_results_in_every_mode_and_path) {
  const boost::mpi::communicator world;
  OwnMemory memory;
  for (const Config& plain : configs_for(world.size())) {
    for (const ExchangePath path : {ExchangePath::automatic, ExchangePath::shared_memory,
                                    ExchangePath::point_to_point, ExchangePath::alltoallv}) {
      Config config = plain;
      config.exchange.path = path;
      DataService expected(world, plain);  // later steps may have shapes that the first one did not have
      const Step same = expected.step(share_of(0, world.rank(), world.size()));
      const RaggedBatch home = expected.collect(same, results_of(same));
      const ColumnsIn own(memory);
      DataService service(world, config);
      const Step made = service.step(share_of(0, world.rank(), world.size()));
      expect_equal(made, same);
      expect_in(memory, made);
      const RaggedBatch back = service.collect(made, results_of(made));
      ASSERT_EQ(back.fields().size(), home.fields().size());
      for (const Column& column : back.fields()) {
        EXPECT_EQ(column, home.at(column.spec().name));
        EXPECT_TRUE(column.bytes().empty() || memory.holds(column)) << column.spec().name;
      }
    }
  }
  EXPECT_TRUE(memory.is_empty());
}

}  // namespace
}  // namespace evenkeel::own_memory_test
