#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <boost/mpi/operations.hpp>
#include <chrono>
#include <functional>
#include <iostream>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "evenkeel/config/config.hpp"
#include "evenkeel/data_ranks/serve.hpp"
#include "evenkeel/service/data_service.hpp"
#include "evenkeel/service/prefetcher.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "service/equal_steps.hpp"
#include "service/faults/faults.hpp"
#include "support/failing_new.hpp"
#include "support/ranked_tests.hpp"

// What one rank cannot do is everybody's error, also where data ranks read. Here allocation after allocation
// fails on a trainer or a data rank, in each collective operation: all trainers must throw the same error, in
// time, and be able to go on with the same data ranks.

namespace evenkeel {
namespace {

using test::allocations_to_fail;
using test::expect_equal;
using test::Outcome;
using test::outcome_of;
using test::patience;
using test::Watchdog;
using testing_support::FailingNew;

int data_ranks = 1;

/// Lets trainers arm the memory of data ranks, which are inside serve(). Its words are in memory that all
/// ranks share: a thread of each data rank looks at them, and neither allocates nor calls MPI meanwhile.
class RemoteFaults {
 public:
  explicit RemoteFaults(const boost::mpi::communicator& world) : rank_(world.rank()) {
    void* mine = nullptr;
    MPI_Win_allocate_shared(sizeof(Words), 1, MPI_INFO_NULL, world, static_cast<void*>(&mine), &window_);
    new (mine) Words;
    for (int rank = 0; rank < world.size(); ++rank) {
      MPI_Aint bytes = 0;
      int unit = 0;
      void* words = nullptr;
      MPI_Win_shared_query(window_, rank, &bytes, &unit, static_cast<void*>(&words));
      words_.push_back(static_cast<Words*>(words));
    }
    world.barrier();
    if (rank_ < data_ranks) obeying_ = std::jthread([this](const std::stop_token& stop) { obey(stop); });
  }
  RemoteFaults(const RemoteFaults&) = delete;
  RemoteFaults& operator=(const RemoteFaults&) = delete;
  ~RemoteFaults() {
    obeying_ = {};
    MPI_Win_free(&window_);
  }

  /// Called on one trainer for a data rank, else on the rank itself.
  void arm(int rank, std::int64_t fails, FailingNew::Reach reach) {
    if (rank == rank_) return FailingNew::arm(fails, reach);
    static_cast<void>(order(rank, {fails, reach == FailingNew::Reach::rest}));
  }
  /// Returns how many allocations there were.
  std::int64_t disarm(int rank) {
    if (rank == rank_) return FailingNew::disarm();
    return order(rank, {disarmed, false});
  }

 private:
  struct Order {
    std::int64_t fails;
    bool rest;
  };
  struct Words {
    std::atomic<std::int64_t> asked{0};
    std::atomic<std::int64_t> done{0};
    std::atomic<std::int64_t> fails{0};
    std::atomic<bool> rest{false};
    std::atomic<std::int64_t> count{0};
  };
  static constexpr std::int64_t disarmed = -2;

  std::int64_t order(int rank, const Order& given) {
    Words& words = *words_[static_cast<std::size_t>(rank)];
    words.fails = given.fails;
    words.rest = given.rest;
    const std::int64_t number = ++words.asked;
    while (words.done != number) std::this_thread::sleep_for(std::chrono::microseconds(50));
    return words.count;
  }
  void obey(const std::stop_token& stop) {
    Words& words = *words_[static_cast<std::size_t>(rank_)];
    for (; !stop.stop_requested(); std::this_thread::sleep_for(std::chrono::microseconds(50))) {
      const std::int64_t number = words.asked;
      if (words.done == number) continue;
      if (words.fails == disarmed) {
        words.count = FailingNew::disarm();
      } else {
        FailingNew::arm(words.fails, words.rest ? FailingNew::Reach::rest : FailingNew::Reach::one);
      }
      words.done = number;
    }
  }

  int rank_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::vector<Words*> words_;
  std::jthread obeying_;
};

RemoteFaults* faults = nullptr;

/// Without data ranks the trainers do all by themselves. Steps enough for every fault.
Config config_of(int of_data_ranks) {
  Config config = parse_config(
      "source: {kind: synthetic, samples: 24, seed: 5}\n"
      "batch: {global_batch: 12, shuffle: true, epochs: 100000}\n"
      "micro_batch: {max_tokens: 65536}\n"
      "fields: {back: {wire: narrow}}\n"
      "exchange: {prefetch: 2}\n"
      "profiles:\n"
      "  update: {micro_batch: {min_count: 3}}\n"
      "  aligned: {pack: {align_lcm: 16}}\n",
      "test");
  config.mesh.data_ranks = of_data_ranks;
  return config;
}

/// The trainers of the job and those of the same job without data ranks.
class DedicatedFaults : public testing::Test {
 protected:
  [[nodiscard]] const boost::mpi::communicator& trainers() const { return service_.mesh().world(); }
  [[nodiscard]] Step step_of(DataService& service) {
    return service.step([&] { return stream_.read(0); });  // data ranks know which step it is
  }
  /// A new service makes the first step, and that of long standing the one after its last.
  void expect_all_in_order() {
    DataService fresh(world_, config_);
    const Step made = step_of(fresh);
    expect_equal(made, expected_);
    EXPECT_EQ(step_of(service_).num_samples, 12);
  }
  /// Lets the allocations of `operation`, which is collective for trainers, fail on one rank after the other.
  void expect_faults_to_be_shared(const std::function<void()>& operation);

  boost::mpi::communicator world_;
  Config config_ = config_of(data_ranks);
  DataService service_{world_, config_};
  SampleStream stream_{world_, config_};
  Config embedded_config_ = config_of(0);
  DataService embedded_{service_.mesh().world(), embedded_config_};
  SampleStream embedded_stream_{service_.mesh().world(), embedded_config_};
  Step expected_ = embedded_.step([&] { return embedded_stream_.read(0); });

 private:
  [[nodiscard]] bool arms(int bad) const {
    return bad < data_ranks ? trainers().rank() == 0 : world_.rank() == bad;
  }
  [[nodiscard]] std::int64_t allocations_on(int bad, const std::function<void()>& operation);
  void let_fail(int bad, std::int64_t number, FailingNew::Reach reach,
                const std::function<void()>& operation);
};

// What data ranks do after trainers have gone on counts, too.
std::int64_t DedicatedFaults::allocations_on(int bad, const std::function<void()>& operation) {
  if (arms(bad)) faults->arm(bad, -1, FailingNew::Reach::one);
  trainers().barrier();
  operation();
  if (bad < data_ranks) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::int64_t count = arms(bad) ? faults->disarm(bad) : 0;
  boost::mpi::broadcast(trainers(), count, bad < data_ranks ? 0 : bad - data_ranks);
  return count;
}

void DedicatedFaults::let_fail(int bad, std::int64_t number, FailingNew::Reach reach,
                               const std::function<void()>& operation) {
  const Watchdog watchdog(patience);
  trainers().barrier();
  const auto disarm = [&] {
    if (arms(bad)) faults->disarm(bad);
  };
  const Outcome mine = outcome_of([&] {
    if (arms(bad)) faults->arm(bad, number, reach);
    if (bad < data_ranks) trainers().barrier();
    try {
      operation();
    } catch (...) {
      disarm();
      throw;
    }
    disarm();
  });
  const std::array<int, 2> here{static_cast<int>(mine), -static_cast<int>(mine)};
  std::array<int, 2> most{};
  boost::mpi::all_reduce(trainers(), here.data(), 2, most.data(), boost::mpi::maximum<int>());
  ASSERT_EQ(most[0], -most[1]) << "trainers ended differently, this one with " << static_cast<int>(mine);
  ASSERT_NE(mine, Outcome::other);
  expect_all_in_order();
}

void DedicatedFaults::expect_faults_to_be_shared(const std::function<void()>& operation) {
  operation();  // what is made once is made
  for (const int bad : std::set<int>{0, data_ranks - 1, data_ranks, world_.size() - 1}) {
    const std::int64_t count = allocations_on(bad, operation);
    for (const std::int64_t number : allocations_to_fail(count)) {
      for (const auto reach : {FailingNew::Reach::one, FailingNew::Reach::rest}) {
        SCOPED_TRACE("allocation " + std::to_string(number) + " of " + std::to_string(count) + " on " +
                     (bad < data_ranks ? "data rank " + std::to_string(bad)
                                       : "trainer " + std::to_string(bad - data_ranks)) +
                     (reach == FailingNew::Reach::one ? "" : " and all after it"));
        ASSERT_NO_FATAL_FAILURE(let_fail(bad, number, reach, operation));
      }
    }
  }
}

StepResults tokens_of(const Step& step, const std::string& name) {
  StepResults results(step.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m)
    results.put(m, name, FieldKind::token,
                step.micro_batches[m].tensors.find("input_ids")->values<std::int64_t>());
  return results;
}

/// A copy made by the trainer, whose memory is not what is asked about.
Step copied(const Step& step) {
  const FailingNew::Paused paused;
  return step;
}

TEST_F(DedicatedFaults, memory_that_a_rank_lacks_in_a_step_is_every_trainers_error) {
  expect_faults_to_be_shared([&] { static_cast<void>(step_of(service_)); });
}

TEST_F(DedicatedFaults, memory_that_a_rank_lacks_in_a_later_pass_is_every_trainers_error) {
  const Step first = step_of(service_);
  const RaggedBatch back = service_.collect(first, tokens_of(first, "back"));
  for (const char* profile : {"update", "aligned"}) {
    SCOPED_TRACE(profile);
    expect_faults_to_be_shared([&] { static_cast<void>(service_.step(copied(first), profile, back)); });
  }
}

TEST_F(DedicatedFaults, memory_that_a_rank_lacks_on_the_way_back_is_every_trainers_error) {
  const Step step = step_of(service_);
  const StepResults results = tokens_of(step, "back");
  expect_faults_to_be_shared([&] { static_cast<void>(service_.collect(step, results)); });
  expect_faults_to_be_shared([&] { static_cast<void>(service_.collect_on(step, results, 0)); });
}

TEST_F(DedicatedFaults, memory_that_a_rank_lacks_while_a_service_is_made_is_every_trainers_error) {
  expect_faults_to_be_shared([&] { const DataService service(world_, config_); });
}

TEST_F(DedicatedFaults, memory_that_a_rank_lacks_in_the_first_step_of_a_service_is_every_trainers_error) {
  expect_faults_to_be_shared([&] {
    DataService service(world_, config_);
    static_cast<void>(step_of(service));
  });
}

TEST_F(DedicatedFaults, memory_that_a_rank_lacks_while_a_stream_is_opened_is_every_trainers_error) {
  expect_faults_to_be_shared([&] {
    SampleStream stream(world_, config_);
    ServiceState state;
    stream.describe(state);
  });
}

TEST_F(DedicatedFaults, memory_that_a_rank_lacks_while_steps_are_made_ahead_is_every_trainers_error) {
  expect_faults_to_be_shared([&] {
    Prefetcher prefetcher(world_, config_, 3, [&](std::int64_t step) { return stream_.read(step); });
    std::exception_ptr first;
    for (int t = 0; t < 3; ++t) {
      try {
        static_cast<void>(prefetcher.next());
      } catch (const LimitError&) {
        first = std::current_exception();
      }
    }
    if (first) std::rethrow_exception(first);
  });
}

}  // namespace
}  // namespace evenkeel

// A program of its own, in which the first ranks serve, the others test, and operator new fails when a test
// asks it to.
int main(int argc, char** argv) {
  using namespace evenkeel;
  const auto arguments = std::span(argv, static_cast<std::size_t>(argc));
  data_ranks = static_cast<int>(test::number_after(arguments, "--data-ranks", 1));
  const boost::mpi::environment environment(argc, argv, test::wanted_threads(arguments));
  testing::InitGoogleTest(&argc, argv);
  const boost::mpi::communicator world;
  RemoteFaults remote(world);
  faults = &remote;
  if (world.rank() < data_ranks) {
    serve(world, config_of(data_ranks));
    return 0;
  }
  const bool passed = test::run_tests_on_rank(world.rank(), world.size(), data_ranks);
  dismiss_data_ranks();
  return passed ? 0 : 1;
}
