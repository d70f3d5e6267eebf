// Errors on one rank in collective calls of the C API are returned on every rank.

#include <gtest/gtest.h>

#include <boost/mpi/communicator.hpp>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "c/held.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel::test {
namespace {

using testing_support::made_up_batch;

const std::string job = "micro_batch: {max_tokens: 100}\nprofiles: {update: {}}";

std::set<int> bad_ranks() {
  const boost::mpi::communicator world;
  return {0, world.size() / 2, world.size() - 1};
}

bool is_here(int rank) {
  return boost::mpi::communicator().rank() == rank;
}

Held<evenkeel_samples> own_samples(std::int64_t response = 5) {
  const std::int64_t rank = boost::mpi::communicator().rank();
  return c_samples(
      made_up_batch({{SampleId{rank * 2}, 0, 3, response}, {SampleId{rank * 2 + 1}, 0, 4, 6}}, {}));
}

evenkeel_status step_of(const Held<evenkeel_service>& service, const evenkeel_samples* samples,
                        const char* profile = nullptr) {
  evenkeel_step* step = nullptr;
  const evenkeel_status status = evenkeel_service_step(service.get(), samples, profile, &step);
  EXPECT_EQ(step == nullptr, status != EVENKEEL_OK);
  evenkeel_step_destroy(step);
  return status;
}

Held<evenkeel_step> good_step(const Held<evenkeel_service>& service) {
  const Held<evenkeel_samples> samples = own_samples();
  return made<evenkeel_step>(
      [&](auto** step) { return evenkeel_service_step(service.get(), samples.get(), nullptr, step); });
}

Held<evenkeel_results> results_for(const Held<evenkeel_step>& step) {
  auto results = made<evenkeel_results>([&](auto** r) { return evenkeel_results_create(step.get(), r); });
  for (std::int64_t m = 0; m < evenkeel_step_num_micro_batches(step.get()); ++m) {
    evenkeel_field tokens{};
    EXPECT_EQ(evenkeel_step_find_field(step.get(), m, "input_ids", &tokens), EVENKEEL_OK);
    tokens.name = "echo";
    EXPECT_EQ(evenkeel_results_put(results.get(), m, &tokens), EVENKEEL_OK);
  }
  return results;
}

TEST(CErrors, reach_all_ranks_if_creating_a_service_fails) {
  const Held<evenkeel_config> good = c_config(job);
  const Held<evenkeel_config> other = c_config("micro_batch: {max_tokens: 101}");
  const auto status_of = [](const evenkeel_config* config, bool has_place = true) {
    evenkeel_service* service = nullptr;
    const evenkeel_status status =
        evenkeel_service_create(c_ranks().get(), config, has_place ? &service : nullptr);
    EXPECT_EQ(service == nullptr, status != EVENKEEL_OK);
    evenkeel_service_destroy(service);
    return status;
  };
  expect_everywhere(status_of(c_config("mesh: {tp: 64}").get()), EVENKEEL_ERROR_MESH);
  for (const int bad : bad_ranks()) {
    expect_everywhere(status_of(is_here(bad) ? nullptr : good.get()), EVENKEEL_ERROR_INPUT);
    EXPECT_TRUE(last_error_has("argument config: is NULL (rank " + std::to_string(bad) + ")"));
    EXPECT_EQ(evenkeel_last_error_rank(), bad);
    EXPECT_STREQ(evenkeel_last_error_where(), "argument config");
    EXPECT_STREQ(evenkeel_last_error_what(), "is NULL");
    expect_everywhere(status_of(good.get(), !is_here(bad)), EVENKEEL_ERROR_INPUT);
    if (boost::mpi::communicator().size() > 1) {
      expect_everywhere(status_of(is_here(bad) ? other.get() : good.get()), EVENKEEL_ERROR_CONFIG);
    }
  }
  expect_everywhere(status_of(good.get()), EVENKEEL_OK);
}

TEST(CErrors, reach_all_ranks_if_resuming_from_a_state_fails) {
  const Held<evenkeel_config> config = c_config(job);
  const Held<evenkeel_service> service = c_service(job);
  std::int64_t bytes = 0;
  const auto state =
      made<char>([&](char** text) { return evenkeel_service_state(service.get(), text, &bytes); });
  const auto status_of = [&](const char* text, std::int64_t length) {
    evenkeel_service* resumed = nullptr;
    const evenkeel_status status =
        evenkeel_service_resume(c_ranks().get(), config.get(), text, length, 0, &resumed);
    evenkeel_service_destroy(resumed);
    return status;
  };
  for (const int bad : bad_ranks()) {
    expect_everywhere(status_of(is_here(bad) ? nullptr : state.get(), bytes), EVENKEEL_ERROR_INPUT);
    expect_everywhere(status_of(state.get(), is_here(bad) ? -1 : bytes), EVENKEEL_ERROR_INPUT);
    expect_everywhere(status_of(state.get(), is_here(bad) ? bytes - 1 : bytes), EVENKEEL_ERROR_INPUT);
    expect_everywhere(status_of(is_here(bad) ? "nonsense" : state.get(), is_here(bad) ? 8 : bytes),
                      EVENKEEL_ERROR_INPUT);
  }
  expect_everywhere(status_of(state.get(), bytes), EVENKEEL_OK);
}

TEST(CErrors, name_invalid_communicators) {
  evenkeel_ranks* ranks = nullptr;
  EXPECT_EQ(evenkeel_ranks_of_mpi(MPI_COMM_NULL, &ranks), EVENKEEL_ERROR_MESH);
  EXPECT_EQ(evenkeel_ranks_of_mpi(MPI_COMM_WORLD, nullptr), EVENKEEL_ERROR_ARGUMENT);
  const boost::mpi::communicator world;
  if (world.size() > 1) {
    const int side = world.rank() == 0 ? 0 : 1;
    const boost::mpi::communicator own = world.split(side);
    MPI_Comm both = MPI_COMM_NULL;
    MPI_Intercomm_create(own, 0, world, side == 0 ? 1 : 0, 7, &both);
    EXPECT_EQ(evenkeel_ranks_of_mpi(both, &ranks), EVENKEEL_ERROR_MESH);
    MPI_Comm_free(&both);
  }
  EXPECT_EQ(ranks, nullptr);
}

TEST(CErrors, reach_all_ranks_if_one_cannot_create_its_service) {
  const Held<evenkeel_config> config = c_config(job);
  for (const int bad : bad_ranks()) {
    const Held<evenkeel_ranks> ranks = c_ranks();
    evenkeel_service* service = nullptr;
    evenkeel_status status = EVENKEEL_OK;
    if (is_here(bad)) {
      evenkeel_config* none = nullptr;
      const evenkeel_status own = evenkeel_config_load("/nowhere/at/all.yaml", nullptr, 0, &none);
      status = evenkeel_ranks_fail(ranks.get(), own);
    } else {
      status = evenkeel_service_create(ranks.get(), config.get(), &service);
    }
    expect_everywhere(status, EVENKEEL_ERROR_IO);
    EXPECT_TRUE(last_error_has("/nowhere/at/all.yaml"));
    EXPECT_EQ(evenkeel_last_error_rank(), bad);
    EXPECT_EQ(service, nullptr);
  }
  expect_everywhere(evenkeel_ranks_fail(c_ranks().get(), EVENKEEL_OK), EVENKEEL_ERROR_INPUT);
}

TEST(CErrors, reach_all_ranks_if_samples_or_results_cannot_be_created) {
  const Held<evenkeel_service> service = c_service(job);
  for (const int bad : bad_ranks()) {
    const Held<evenkeel_samples> samples = own_samples();
    if (is_here(bad)) {
      evenkeel_set_last_error(EVENKEEL_ERROR_LIMIT, "the disk", "is full", "Free some", -1);
      EXPECT_EQ(evenkeel_samples_fail(samples.get(), EVENKEEL_ERROR_LIMIT), EVENKEEL_OK);
    }
    expect_everywhere(step_of(service, samples.get()), EVENKEEL_ERROR_LIMIT);
    EXPECT_TRUE(last_error_has("the disk: is full (rank " + std::to_string(bad) + "). Free some"));
    const Held<evenkeel_step> step = good_step(service);
    const Held<evenkeel_results> results = results_for(step);
    if (is_here(bad)) {
      evenkeel_set_last_error(EVENKEEL_ERROR_IO, nullptr, "lost", nullptr, -1);
      EXPECT_EQ(evenkeel_results_fail(results.get(), EVENKEEL_ERROR_IO), EVENKEEL_OK);
    }
    evenkeel_samples* home = nullptr;
    expect_everywhere(evenkeel_service_collect(service.get(), step.get(), results.get(), &home),
                      EVENKEEL_ERROR_IO);
    EXPECT_EQ(home, nullptr);
  }
  EXPECT_EQ(evenkeel_samples_fail(own_samples().get(), EVENKEEL_OK), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(evenkeel_results_fail(nullptr, EVENKEEL_ERROR_IO), EVENKEEL_ERROR_ARGUMENT);
}

TEST(CErrors, reach_all_ranks_if_a_step_fails_and_the_service_continues) {
  const Held<evenkeel_service> service = c_service(job);
  const Held<evenkeel_samples> good = own_samples();
  for (const int bad : bad_ranks()) {
    expect_everywhere(step_of(service, is_here(bad) ? nullptr : good.get()), EVENKEEL_ERROR_INPUT);
    EXPECT_TRUE(last_error_has("argument samples: is NULL"));
    evenkeel_step* step = nullptr;
    expect_everywhere(
        evenkeel_service_step(service.get(), good.get(), nullptr, is_here(bad) ? nullptr : &step),
        EVENKEEL_ERROR_INPUT);
    EXPECT_EQ(step, nullptr);
    const Held<evenkeel_samples> long_ones = own_samples(is_here(bad) ? 200 : 5);
    expect_everywhere(step_of(service, long_ones.get()), EVENKEEL_ERROR_LIMIT);
    const std::int64_t id = 7;
    const std::int64_t length = 1;
    const auto without_tokens = made<evenkeel_samples>(
        [&](auto** s) { return evenkeel_samples_create(1, &id, nullptr, &length, &length, s); });
    expect_everywhere(step_of(service, is_here(bad) ? without_tokens.get() : good.get()),
                      EVENKEEL_ERROR_INPUT);
    expect_everywhere(step_of(service, good.get(), "nobody"), EVENKEEL_ERROR_CONFIG);
    if (boost::mpi::communicator().size() > 1)
      expect_everywhere(step_of(service, good.get(), is_here(bad) ? "update" : nullptr),
                        EVENKEEL_ERROR_INPUT);
    expect_everywhere(step_of(service, good.get()), EVENKEEL_OK);
  }
}

TEST(CErrors, reach_all_ranks_if_a_later_pass_fails_and_the_step_is_consumed) {
  const Held<evenkeel_service> service = c_service(job);
  for (const int bad : bad_ranks()) {
    const Held<evenkeel_step> step = good_step(service);
    expect_everywhere(
        evenkeel_service_step_again(service.get(), is_here(bad) ? nullptr : step.get(), "update", nullptr),
        EVENKEEL_ERROR_INPUT);
    const Held<evenkeel_step> other = good_step(service);
    const Held<evenkeel_samples> unfit = c_samples(made_up_batch(std::vector<SampleShape>(5), {}));
    expect_everywhere(evenkeel_service_step_again(service.get(), other.get(), "update",
                                                  is_here(bad) ? unfit.get() : nullptr),
                      EVENKEEL_ERROR_INPUT);
    EXPECT_EQ(evenkeel_step_num_micro_batches(other.get()), 0);
    expect_everywhere(evenkeel_service_step_again(service.get(), other.get(), "update", nullptr),
                      EVENKEEL_ERROR_INPUT);
    evenkeel_samples* home = nullptr;
    expect_everywhere(evenkeel_service_collect(service.get(), other.get(), nullptr, &home),
                      EVENKEEL_ERROR_INPUT);
    evenkeel_field field{};
    EXPECT_EQ(evenkeel_step_find_field(other.get(), 0, "input_ids", &field), EVENKEEL_ERROR_ARGUMENT);
    EXPECT_EQ(evenkeel_service_report_time(service.get(), other.get(), 0, 1.0), EVENKEEL_ERROR_ARGUMENT);
  }
}

/// Returns a result of one token, whose name is already used.
evenkeel_field field_of(const std::int64_t* value) {
  evenkeel_field field{};
  field.name = "echo";
  field.dtype = EVENKEEL_INT64;
  field.kind = EVENKEEL_TOKEN;
  field.rows = 1;
  field.data = value;
  return field;
}

TEST(CErrors, reach_all_ranks_if_fields_cannot_be_added) {
  const Held<evenkeel_service> service = c_service(job);
  const std::int64_t value = 1;
  const evenkeel_field odd = field_of(&value);
  for (const int bad : bad_ranks()) {
    const Held<evenkeel_step> step = good_step(service);
    const Held<evenkeel_samples> samples = own_samples();
    if (is_here(bad)) {
      EXPECT_EQ(evenkeel_samples_add(samples.get(), &odd), EVENKEEL_ERROR_INPUT);
    }
    expect_everywhere(step_of(service, samples.get()), EVENKEEL_ERROR_INPUT);
    EXPECT_TRUE(last_error_has("field 'echo': has 1 row;"));
    expect_everywhere(evenkeel_service_step_again(service.get(), step.get(), "update", samples.get()),
                      EVENKEEL_ERROR_INPUT);
    EXPECT_TRUE(boost::mpi::communicator().size() > 1 || last_error_has("field 'echo': has 1 row;"));
  }
}

TEST(CErrors, reach_all_ranks_if_results_are_invalid_and_the_step_can_still_be_collected) {
  const Held<evenkeel_service> service = c_service(job);
  const Held<evenkeel_step> step = good_step(service);
  const auto status_of = [&](const evenkeel_results* results, bool has_place = true) {
    evenkeel_samples* home = nullptr;
    const evenkeel_status status =
        evenkeel_service_collect(service.get(), step.get(), results, has_place ? &home : nullptr);
    EXPECT_EQ(home == nullptr, status != EVENKEEL_OK);
    evenkeel_samples_destroy(home);
    return status;
  };
  const std::int64_t value = 1;
  for (const int bad : bad_ranks()) {
    const Held<evenkeel_results> good = results_for(step);
    expect_everywhere(status_of(good.get(), !is_here(bad)), EVENKEEL_ERROR_INPUT);
    expect_everywhere(status_of(is_here(bad) ? nullptr : good.get()), EVENKEEL_ERROR_INPUT);
    using Field = evenkeel_field;
    for (void (*const spoil)(Field&) :
         {+[](Field& f) { f.name = nullptr; }, +[](Field& f) { f.dtype = 0; }, +[](Field& f) { f.kind = 9; },
          +[](Field& f) { f.rows = -1; }, +[](Field& f) { f.data = nullptr; },
          +[](Field& f) { f.num_trailing = -1; },
          +[](Field& f) { f.rows = std::numeric_limits<std::int64_t>::max(); },
          +[](Field& f) {
            f.kind = EVENKEEL_ROWS;
            f.num_samples = 1;
          }}) {
      evenkeel_field wrong = field_of(&value);
      spoil(wrong);
      const Held<evenkeel_results> results = results_for(step);
      if (is_here(bad)) {
        EXPECT_EQ(evenkeel_results_put(results.get(), 0, &wrong), EVENKEEL_ERROR_ARGUMENT);
      }
      expect_everywhere(status_of(results.get()), EVENKEEL_ERROR_INPUT);
      EXPECT_EQ(evenkeel_last_error_rank(), bad);
    }
    const Held<evenkeel_results> twice = results_for(step);
    if (is_here(bad)) {
      const evenkeel_field again = field_of(&value);
      EXPECT_EQ(evenkeel_results_put(twice.get(), 0, &again), EVENKEEL_ERROR_INPUT);
      EXPECT_EQ(evenkeel_results_put(twice.get(), 99, &again),
                EVENKEEL_ERROR_INPUT);  // the first error is kept
    }
    expect_everywhere(status_of(twice.get()), EVENKEEL_ERROR_INPUT);
    evenkeel_samples* home = nullptr;
    expect_everywhere(
        evenkeel_service_collect(service.get(), is_here(bad) ? nullptr : step.get(), good.get(), &home),
        EVENKEEL_ERROR_INPUT);
    expect_everywhere(evenkeel_service_collect_on(service.get(), step.get(), good.get(), -1, &home),
                      EVENKEEL_ERROR_INPUT);
    expect_everywhere(status_of(good.get()), EVENKEEL_OK);
  }
}

TEST(CErrors, are_returned_to_the_rank_that_reports_invalid_times) {
  const Held<evenkeel_service> service = c_service(job);
  const Held<evenkeel_step> step = good_step(service);
  const auto status_of = [&](std::int64_t micro_batch, double seconds) {
    return evenkeel_service_report_time(service.get(), step.get(), micro_batch, seconds);
  };
  EXPECT_EQ(status_of(0, 1), EVENKEEL_OK);
  EXPECT_EQ(status_of(0, 0), EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(status_of(0, std::nan("")), EVENKEEL_ERROR_INPUT);
  EXPECT_EQ(status_of(-1, 1), EVENKEEL_ERROR_ARGUMENT);
  EXPECT_EQ(status_of(1000, 1), EVENKEEL_ERROR_ARGUMENT);
}

}  // namespace
}  // namespace evenkeel::test
