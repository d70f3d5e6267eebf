#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/activity.hpp"
#include "c/mpi/failures.hpp"
#include "c/mpi/handles.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel::c {
namespace {

/// A group of ranks that communicate through the caller's functions.
class CallerRanks final : public NonMpiRanks {
 public:
  CallerRanks(const evenkeel_group_calls& calls, void* group, int rank, int size, bool allows_threads)
      : calls_(calls), group_(group), rank_(rank), size_(size), allows_threads_(allows_threads) {}
  CallerRanks(const CallerRanks&) = delete;
  CallerRanks& operator=(const CallerRanks&) = delete;
  ~CallerRanks() override { calls_.release(group_); }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] bool allows_threads() const override { return allows_threads_; }

  void broadcast(std::span<std::byte> bytes, int root) const override {
    call("broadcast", [&] { return calls_.broadcast(group_, bytes.data(), std::ssize(bytes), root); });
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) const override {
    call("all_gather", [&] { return calls_.all_gather(group_, mine.data(), std::ssize(mine), all.data()); });
  }
  void all_gather_lists(const std::byte* mine, const ListSizes& lists, std::byte* all) const override {
    call("all_gather_lists", [&] {
      std::vector<std::int64_t> sizes;
      for (const int size : lists.sizes) sizes.push_back(size * static_cast<std::int64_t>(lists.bytes_each));
      return calls_.all_gather_lists(group_, mine, sizes.data(), all);
    });
  }
  void all_reduce(std::span<std::int64_t> values, ReduceOp op) const override {
    call("all_reduce", [&] {
      return calls_.all_reduce(group_, values.data(), std::ssize(values), op == ReduceOp::max ? 1 : 0);
    });
  }
  void all_to_all(std::span<const std::byte> out, std::span<const std::int64_t> out_bytes,
                  std::span<std::byte> in, std::span<const std::int64_t> in_bytes) const override {
    call("all_to_all",
         [&] { return calls_.all_to_all(group_, out.data(), out_bytes.data(), in.data(), in_bytes.data()); });
  }
  [[nodiscard]] Communicator duplicate() const override {
    return split("duplicate", EVENKEEL_SPLIT_DUPLICATE);
  }
  [[nodiscard]] Communicator split(int color, int key) const override {
    return split("split", EVENKEEL_SPLIT_BY_COLOR, color, key);
  }
  [[nodiscard]] Communicator split_by_node() const override {
    return split("split_by_node", EVENKEEL_SPLIT_BY_NODE);
  }

 private:
  // Throws MpiError if the caller's function fails. Like an error of MPI, it may occur on this rank only.
  template <typename Call>
  void call(const char* name, Call&& make) const {
    const Waiting waiting(name);
    if (make() != EVENKEEL_OK) {
      throw MpiError(std::string("process group, ") + name, evenkeel_last_error_what(),
                     "If no other rank has failed, check that all ranks make the same calls");
    }
  }
  [[nodiscard]] Communicator split(const char* name, std::int32_t how, int color = 0, int key = 0) const {
    void* made = nullptr;
    std::int32_t rank = 0;
    std::int32_t size = 0;
    call(name, [&] { return calls_.split(group_, how, color, key, &made, &rank, &size); });
    if (made == nullptr) return {};
    return Communicator(std::make_shared<CallerRanks>(calls_, made, rank, size, allows_threads_));
  }

  evenkeel_group_calls calls_;
  void* group_;
  int rank_;
  int size_;
  bool allows_threads_;
};

void require_all_calls(const evenkeel_group_calls* calls) {
  require(calls, "calls");
  const auto require_call = [](auto* function, const char* name) {
    require(reinterpret_cast<const void*>(function), name);
  };
  require_call(calls->broadcast, "calls->broadcast");
  require_call(calls->all_gather, "calls->all_gather");
  require_call(calls->all_gather_lists, "calls->all_gather_lists");
  require_call(calls->all_reduce, "calls->all_reduce");
  require_call(calls->all_to_all, "calls->all_to_all");
  require_call(calls->split, "calls->split");
  require_call(calls->release, "calls->release");
}

}  // namespace
}  // namespace evenkeel::c

using namespace evenkeel;
using namespace evenkeel::c;

evenkeel_status evenkeel_ranks_create(const evenkeel_group_calls* calls, void* group, int32_t rank,
                                      int32_t size, int32_t allows_threads, evenkeel_ranks** ranks) {
  return create_handle(ranks, "ranks", [&] {
    require_all_calls(calls);
    if (size < 1)
      throw WrongArgument("argument size", "is " + std::to_string(size) + "; it must be at least 1");
    require_index(rank, size, "rank", "ranks");
    return new evenkeel_ranks{
        Communicator(std::make_shared<CallerRanks>(*calls, group, rank, size, allows_threads != 0))};
  });
}

evenkeel_status evenkeel_ranks_of_mpi(MPI_Comm comm, evenkeel_ranks** ranks) {
  return run_guarded_over_mpi([&] {
    require(ranks, "ranks");
    *ranks = nullptr;
    const Communicator given{boost::mpi::communicator(comm, boost::mpi::comm_attach)};
    require_ranks_of_one_group(given);
    *ranks = new evenkeel_ranks{given};
  });
}

evenkeel_status evenkeel_ranks_fail(const evenkeel_ranks* ranks, evenkeel_status status) {
  return run_guarded_over_mpi([&] {
    require(ranks, "ranks");
    require_ranks_of_one_group(ranks->ranks);
    fail_together(ranks->ranks, try_locally([&] { throw_error(report_of_status(status)); }));
  });
}

void evenkeel_ranks_destroy(evenkeel_ranks* ranks) {
  delete ranks;
}
