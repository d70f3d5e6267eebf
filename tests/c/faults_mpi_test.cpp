// Memory that one rank lacks in a collective call of C is LIMIT on every rank, and the service goes on.

#include <gtest/gtest.h>

#include <boost/mpi/communicator.hpp>
#include <functional>
#include <string>

#include "c/held.hpp"
#include "service/faults/faults.hpp"
#include "support/failing_new.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel::test {
namespace {

using testing_support::FailingNew;
using testing_support::made_up_batch;
using testing_support::made_up_shape;

Held<evenkeel_samples> own_samples() {
  std::vector<SampleShape> shapes;
  const boost::mpi::communicator world;
  for (std::int64_t id = world.rank(); id < 24; id += world.size()) shapes.push_back(made_up_shape(id));
  return c_samples(made_up_batch(std::move(shapes), {}));
}

/// Lets the allocations of `call` fail on one rank after the other. It returns the status of a collective
/// call.
void expect_faults_to_be_shared(const std::function<evenkeel_status()>& call) {
  const boost::mpi::communicator world;
  EXPECT_EQ(call(), EVENKEEL_OK);  // what is made once is made
  for (int bad = 0; bad < world.size(); ++bad) {
    FailingNew::arm(-1);
    EXPECT_EQ(call(), EVENKEEL_OK);
    std::int64_t count = FailingNew::disarm();
    MPI_Bcast(&count, 1, MPI_INT64_T, bad, MPI_COMM_WORLD);
    ASSERT_GT(count, 0);
    for (const std::int64_t number : allocations_to_fail(count)) {
      for (const auto reach : {FailingNew::Reach::one, FailingNew::Reach::rest}) {
        SCOPED_TRACE("allocation " + std::to_string(number) + " of rank " + std::to_string(bad));
        const Watchdog watchdog(patience);
        if (world.rank() == bad) FailingNew::arm(number, reach);
        std::int32_t mine = call();
        FailingNew::disarm();
        EXPECT_TRUE(mine == EVENKEEL_OK || last_error_has("out of memory")) << evenkeel_last_error_message();
        std::int32_t of_bad = mine;
        MPI_Bcast(&of_bad, 1, MPI_INT32_T, bad, MPI_COMM_WORLD);
        EXPECT_EQ(mine, of_bad);
        EXPECT_TRUE(mine == EVENKEEL_OK || mine == EVENKEEL_ERROR_LIMIT) << mine;
      }
    }
  }
  EXPECT_EQ(call(), EVENKEEL_OK);
}

TEST(CFaults, of_a_step_are_shared) {
  const Held<evenkeel_service> service = c_service("micro_batch: {max_tokens: 100}\nprofiles: {update: {}}");
  const Held<evenkeel_samples> samples = own_samples();
  expect_faults_to_be_shared([&] {
    evenkeel_step* step = nullptr;
    const evenkeel_status status = evenkeel_service_step(service.get(), samples.get(), "update", &step);
    evenkeel_step_destroy(step);
    return status;
  });
}

TEST(CFaults, of_making_a_service_are_shared) {
  const Held<evenkeel_config> config = c_config("micro_batch: {max_tokens: 100}\nprofiles: {update: {}}");
  expect_faults_to_be_shared([&] {
    evenkeel_service* service = nullptr;
    const evenkeel_status status = evenkeel_service_create(MPI_COMM_WORLD, config.get(), &service);
    evenkeel_service_destroy(service);
    return status;
  });
}

TEST(CFaults, of_collecting_are_shared) {
  const Held<evenkeel_service> service = c_service("micro_batch: {max_tokens: 100}");
  const Held<evenkeel_samples> samples = own_samples();
  const auto step = made<evenkeel_step>(
      [&](auto** s) { return evenkeel_service_step(service.get(), samples.get(), nullptr, s); });
  const auto results =
      made<evenkeel_results>([&](auto** r) { return evenkeel_results_create(step.get(), r); });
  for (std::int64_t m = 0; m < evenkeel_step_num_micro_batches(step.get()); ++m) {
    evenkeel_field tokens{};
    ASSERT_EQ(evenkeel_step_find_field(step.get(), m, "input_ids", &tokens), EVENKEEL_OK);
    tokens.name = "echoed_tokens_of_the_micro_batch";
    ASSERT_EQ(evenkeel_results_put(results.get(), m, &tokens), EVENKEEL_OK);
  }
  expect_faults_to_be_shared([&] {
    evenkeel_samples* home = nullptr;
    const evenkeel_status status = evenkeel_service_collect(service.get(), step.get(), results.get(), &home);
    evenkeel_samples_destroy(home);
    return status;
  });
}

TEST(CFaults, of_putting_results_are_shared_by_collecting_them) {
  const Held<evenkeel_service> service = c_service("micro_batch: {max_tokens: 10000}");
  const Held<evenkeel_samples> samples = own_samples();
  const auto step = made<evenkeel_step>(
      [&](auto** s) { return evenkeel_service_step(service.get(), samples.get(), nullptr, s); });
  evenkeel_field tokens{};
  ASSERT_EQ(evenkeel_step_find_field(step.get(), 0, "input_ids", &tokens), EVENKEEL_OK);
  tokens.name = "echoed_tokens_of_the_micro_batch";
  const boost::mpi::communicator world;
  for (std::int64_t number = 0; number < 4; ++number) {
    const Held<evenkeel_results> results =
        made<evenkeel_results>([&](auto** r) { return evenkeel_results_create(step.get(), r); });
    if (world.rank() == 0) FailingNew::arm(number, FailingNew::Reach::rest);
    const evenkeel_status put = evenkeel_results_put(results.get(), 0, &tokens);
    FailingNew::disarm();
    EXPECT_EQ(put == EVENKEEL_OK, world.rank() != 0);
    evenkeel_samples* home = nullptr;
    expect_everywhere(evenkeel_service_collect(service.get(), step.get(), results.get(), &home),
                      EVENKEEL_ERROR_LIMIT);
  }
}

TEST(CFaults, of_streams_are_shared) {
  const char* const job =
      "source: {kind: synthetic, samples: 12}\n"
      "batch: {global_batch: 4}\n"
      "exchange: {prefetch: 0}\n"
      "micro_batch: {max_tokens: 65536}\n";
  Held<evenkeel_service> service = c_service(job);
  expect_faults_to_be_shared([&] {
    evenkeel_stream* stream = nullptr;
    const evenkeel_status status = evenkeel_stream_create(service.get(), nullptr, 0, &stream);
    evenkeel_stream_destroy(stream);
    return status;
  });
  Held<evenkeel_stream> stream;
  const auto open = [&](evenkeel_stream** handle) {
    return evenkeel_stream_create(service.get(), nullptr, 0, handle);
  };
  expect_faults_to_be_shared([&] {
    {
      const FailingNew::Paused paused;
      stream.reset();
      service = c_service(job);  // the same one would continue after the step before
      stream = made<evenkeel_stream>(open);
    }
    evenkeel_step* step = nullptr;
    const evenkeel_status status = evenkeel_stream_next(stream.get(), &step);
    evenkeel_step_destroy(step);
    return status;
  });
}

}  // namespace
}  // namespace evenkeel::test
