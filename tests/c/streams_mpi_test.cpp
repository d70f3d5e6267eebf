// Steps of configured sources through the C API.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/mpi/communicator.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "c/held.hpp"

namespace evenkeel::test {
namespace {

/// Returns a job with 50 shuffled samples in steps of 8: 7 steps, the last of 2.
std::string made_up_job(int prefetch, int samples = 50) {
  return "source: {kind: synthetic, samples: " + std::to_string(samples) +
         "}\n"
         "batch: {global_batch: 8, shuffle: true, seed: 7}\n"
         "micro_batch: {max_tokens: 16384}\n"
         "profiles: {update: {micro_batch: {max_tokens: 16000}}}\n"
         "exchange: {prefetch: " +
         std::to_string(prefetch) + "}\n";
}

Held<evenkeel_stream> stream_of(const Held<evenkeel_service>& service) {
  return made<evenkeel_stream>(
      [&](auto** stream) { return evenkeel_stream_create(service.get(), nullptr, 0, stream); });
}

Held<evenkeel_step> next_of(const Held<evenkeel_stream>& stream) {
  return made<evenkeel_step>([&](auto** step) { return evenkeel_stream_next(stream.get(), step); });
}

/// Returns all tokens of a step on this rank, preceded by its number.
std::vector<std::int64_t> tokens_of(const evenkeel_step* step) {
  evenkeel_step_info info{};
  EXPECT_EQ(evenkeel_step_get_info(step, &info), EVENKEEL_OK);
  std::vector<std::int64_t> tokens{info.index};
  for (std::int64_t m = 0; m < info.num_micro_batches; ++m) {
    evenkeel_field field{};
    EXPECT_EQ(evenkeel_step_find_field(step, m, "input_ids", &field), EVENKEEL_OK);
    const auto* const first = static_cast<const std::int64_t*>(field.data);
    tokens.insert(tokens.end(), first, first + field.rows);
  }
  return tokens;
}

std::string state_of(const Held<evenkeel_stream>& stream) {
  std::int64_t bytes = 0;
  const auto state =
      made<char>([&](char** text) { return evenkeel_stream_state(stream.get(), text, &bytes); });
  return {state.get(), static_cast<std::size_t>(bytes)};
}

evenkeel_status resume(const std::string& yaml, const std::string& state, bool accept,
                       evenkeel_service** service) {
  const Held<evenkeel_config> config = c_config(yaml);
  return evenkeel_service_resume(c_ranks().get(), config.get(), state.data(), std::ssize(state),
                                 accept ? 1 : 0, service);
}

TEST(CStream, ends_with_its_trainer_while_waiting_for_samples) {
  const Held<evenkeel_service> service = c_service(
      "source: {kind: stream}\n"
      "stream: {listen: '127.0.0.1:0', store: memory}\n"
      "batch: {global_batch: 4}\n"
      "exchange: {prefetch: 2}\n");
  const Held<evenkeel_stream> stream = stream_of(service);
  EXPECT_EQ(evenkeel_stream_num_steps(stream.get()), INT64_MAX);
  EXPECT_EQ(evenkeel_stream_report_saved_before(stream.get(), 0), EVENKEEL_OK);
  EXPECT_EQ(evenkeel_stream_publish(stream.get(), 1), EVENKEEL_ERROR_CONFIG);
  EXPECT_THAT(evenkeel_last_error_message(), testing::HasSubstr("stream.version: is step"));
}

TEST(CStream, delivers_all_steps_and_resumes_after_any_of_them) {
  for (const int prefetch : {0, 2}) {
    const std::string yaml = made_up_job(prefetch);
    std::vector<std::vector<std::int64_t>> steps;
    std::vector<std::string> states;
    const Held<evenkeel_service> service = c_service(yaml);
    const Held<evenkeel_stream> stream = stream_of(service);
    EXPECT_EQ(evenkeel_stream_num_steps(stream.get()), 7);
    while (const Held<evenkeel_step> step = next_of(stream)) {
      steps.push_back(tokens_of(step.get()));
      states.push_back(state_of(stream));
    }
    ASSERT_EQ(steps.size(), 7U);
    EXPECT_EQ(next_of(stream), nullptr);
    for (const std::size_t at : {0, 6}) {
      const auto resumed =
          made<evenkeel_service>([&](auto** handle) { return resume(yaml, states[at], false, handle); });
      const Held<evenkeel_stream> rest = stream_of(resumed);
      for (std::size_t left = at + 1; left < steps.size(); ++left)
        EXPECT_EQ(tokens_of(next_of(rest).get()), steps[left]);
      EXPECT_EQ(next_of(rest), nullptr);
    }
  }
}

TEST(CStream, reports_changed_sources_unless_changes_are_accepted) {
  const Held<evenkeel_service> service = c_service(made_up_job(1));
  const Held<evenkeel_stream> stream = stream_of(service);
  next_of(stream);
  const std::string state = state_of(stream);
  for (const bool accept : {false, true}) {
    evenkeel_service* handle = nullptr;
    const evenkeel_status status = resume(made_up_job(1, 60), state, accept, &handle);
    const Held<evenkeel_service> resumed(handle);
    expect_everywhere(status, accept ? EVENKEEL_OK : EVENKEEL_ERROR_CONFIG);
    if (accept) {
      EXPECT_NE(next_of(stream_of(resumed)), nullptr);
    }
  }
}

TEST(CStream, provides_steps_for_later_passes_of_the_service) {
  const Held<evenkeel_service> service = c_service(made_up_job(2));
  const char* const passes[] = {"", "update"};
  const auto stream = made<evenkeel_stream>(
      [&](auto** handle) { return evenkeel_stream_create(service.get(), passes, 2, handle); });
  std::int64_t samples = 0;
  while (const Held<evenkeel_step> step = next_of(stream)) {
    ASSERT_EQ(evenkeel_service_step_again(service.get(), step.get(), "update", nullptr), EVENKEEL_OK);
    evenkeel_step_info info{};
    ASSERT_EQ(evenkeel_step_get_info(step.get(), &info), EVENKEEL_OK);
    EXPECT_STREQ(info.profile, "update");
    samples += info.num_samples;
    ASSERT_GT(info.num_micro_batches, 0);
    EXPECT_EQ(evenkeel_service_report_time(service.get(), step.get(), 0, 0.5), EVENKEEL_OK);
  }
  EXPECT_EQ(samples, 50);
}

TEST(CStream, keeps_the_measured_costs_of_all_passes_in_its_state) {
  const std::string yaml =
      "source: {kind: synthetic, samples: 160, seed: 3}\n"
      "batch: {global_batch: 8}\n"
      "micro_batch: {max_tokens: 16384}\n"
      "balance: {cost: measured}\n"
      "profiles: {update: {micro_batch: {max_tokens: 12000}}}\n";
  const Held<evenkeel_service> service = c_service(yaml);
  const char* const passes[] = {"", "update"};
  const auto stream = made<evenkeel_stream>(
      [&](auto** handle) { return evenkeel_stream_create(service.get(), passes, 2, handle); });
  const auto report = [&](const Held<evenkeel_step>& step) {
    for (std::int64_t m = 0; m < evenkeel_step_num_micro_batches(step.get()); ++m) {
      evenkeel_micro_batch part{};
      ASSERT_EQ(evenkeel_step_micro_batch(step.get(), m, &part), EVENKEEL_OK);
      double seconds = 1e-3;
      for (std::int64_t i = 0; i < part.num_samples; ++i) {
        const auto length = static_cast<double>(part.samples[i].prompt + part.samples[i].response);
        seconds += 1e-6 * length + 1e-9 * length * length;
      }
      ASSERT_EQ(evenkeel_service_report_time(service.get(), step.get(), m, seconds), EVENKEEL_OK);
    }
  };
  while (const Held<evenkeel_step> step = next_of(stream)) {
    report(step);
    ASSERT_EQ(evenkeel_service_step_again(service.get(), step.get(), "update", nullptr), EVENKEEL_OK);
    report(step);
  }
  const std::string state = state_of(stream);
  EXPECT_NE(state.find("\"update\": {\n   \"overhead\""), std::string::npos) << state;
}

TEST(CStream, continues_after_its_last_returned_step_when_it_was_stopped) {
  for (const int prefetch : {0, 2}) {
    const Held<evenkeel_service> service = c_service(made_up_job(prefetch));
    const Held<evenkeel_stream> stream = stream_of(service);
    for (std::int64_t index = 0; index < 7; ++index) {
      EXPECT_EQ(evenkeel_stream_stop(stream.get()), EVENKEEL_OK);
      EXPECT_EQ(tokens_of(next_of(stream).get()).front(), index);
    }
    EXPECT_EQ(next_of(stream), nullptr);
    EXPECT_EQ(evenkeel_stream_stop(nullptr), EVENKEEL_ERROR_ARGUMENT);
  }
}

TEST(CStream, can_end_at_any_step_and_its_steps_outlive_it) {
  const Held<evenkeel_service> service = c_service(made_up_job(2));
  for (int taken = 0; taken < 3; ++taken) {
    Held<evenkeel_stream> stream = stream_of(service);
    std::vector<Held<evenkeel_step>> steps;
    for (int n = 0; n < taken; ++n) steps.push_back(next_of(stream));
    stream.reset();
    for (const Held<evenkeel_step>& step : steps) EXPECT_GT(tokens_of(step.get()).size(), 1U);
  }
}

TEST(CStream, reports_a_failed_step_on_all_ranks_and_makes_the_others) {
  // Samples of up to thousands of tokens under a cap that only some of them satisfy.
  const std::string yaml =
      "source: {kind: synthetic, samples: 200}\n"
      "batch: {global_batch: 2}\n"
      "micro_batch: {max_tokens: 4096}\n";
  const Held<evenkeel_service> service = c_service(yaml);
  const Held<evenkeel_stream> stream = stream_of(service);
  int failed = 0;
  int well = 0;
  for (std::int64_t n = 0; n < evenkeel_stream_num_steps(stream.get()); ++n) {
    evenkeel_step* handle = nullptr;
    const evenkeel_status status = evenkeel_stream_next(stream.get(), &handle);
    const Held<evenkeel_step> step(handle);
    expect_everywhere(status, step ? EVENKEEL_OK : EVENKEEL_ERROR_LIMIT);
    ++(step ? well : failed);
  }
  EXPECT_GT(failed, 0);
  EXPECT_GT(well, 0);
}

TEST(CStream, reports_errors_of_sources_on_all_ranks) {
  const auto status_of = [](const std::string& yaml, const char* const* profiles, std::int64_t count) {
    const Held<evenkeel_service> service = c_service(yaml);
    evenkeel_stream* stream = nullptr;
    const evenkeel_status status = evenkeel_stream_create(service.get(), profiles, count, &stream);
    EXPECT_EQ(stream, nullptr);
    return status;
  };
  expect_everywhere(status_of("{}", nullptr, 0), EVENKEEL_ERROR_CONFIG);  // the configuration has no source
  expect_everywhere(status_of("source: {kind: jsonl, path: /nowhere/at/all.jsonl}", nullptr, 0),
                    EVENKEEL_ERROR_IO);
  const char* const unknown[] = {"nobody"};
  expect_everywhere(status_of(made_up_job(1), unknown, 1), EVENKEEL_ERROR_CONFIG);
  const boost::mpi::communicator world;
  for (const int bad : {0, world.size() / 2, world.size() - 1}) {
    const bool is_bad = world.rank() == bad;
    const char* const nothing[] = {nullptr};
    const char* const own[] = {""};
    expect_everywhere(status_of(made_up_job(1), is_bad ? nothing : own, 1), EVENKEEL_ERROR_INPUT);
    expect_everywhere(status_of(made_up_job(1), nullptr, is_bad ? -1 : 0), EVENKEEL_ERROR_INPUT);
    const Held<evenkeel_service> service = c_service(made_up_job(1));
    evenkeel_stream* stream = nullptr;
    expect_everywhere(evenkeel_stream_create(service.get(), nullptr, 0, is_bad ? nullptr : &stream),
                      EVENKEEL_ERROR_INPUT);
    const Held<evenkeel_stream> good = stream_of(service);
    char* state = nullptr;
    expect_everywhere(evenkeel_stream_state(good.get(), is_bad ? nullptr : &state, nullptr),
                      EVENKEEL_ERROR_INPUT);
    // A rank that passes no pointer for its step still takes part in making it.
    evenkeel_step* step = nullptr;
    EXPECT_EQ(evenkeel_stream_next(good.get(), is_bad ? nullptr : &step),
              is_bad ? EVENKEEL_ERROR_ARGUMENT : EVENKEEL_OK);
    evenkeel_step_destroy(step);
    EXPECT_NE(next_of(good), nullptr);
  }
}

}  // namespace
}  // namespace evenkeel::test
