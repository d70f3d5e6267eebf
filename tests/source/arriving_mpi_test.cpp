// Tests samples that arrive in a buffer while a job reads them (source.kind: stream). Rank 0 runs the buffer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "source/arriving.hpp"
#include "source/arriving/patience.hpp"
#include "support/error_message.hpp"
#include "support/scratch_folder.hpp"
#include "support/service_ahead.hpp"

namespace evenkeel::arriving_test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::message_of;
using testing_support::ScratchFolder;

TEST_F(Arriving, steps_have_whole_groups_in_the_order_of_completion) {
  open_groups_of(2);
  send_groups(0, 5);
  end();
  SampleStream stream(world_, config_of());
  EXPECT_EQ(stream.num_steps(), SampleStream::unknown_num_steps);
  EXPECT_THAT(lengths_of(stream, 0), ElementsAre(2, 2, 3, 3));
  EXPECT_THAT(lengths_of(stream, 1), ElementsAre(4, 4, 5, 5));
  EXPECT_THAT(lengths_of(stream, 2), ElementsAre(6, 6)) << "the last step has what is left";
  EXPECT_THROW(static_cast<void>(stream.read(3)), EndOfSamples);
}

TEST_F(Arriving, ranks_have_equal_shares_like_those_of_files) {
  open_groups_of(2);
  send_groups(0, 3);
  end();
  SampleStream stream(world_, config_of({"batch.global_batch=6"}));
  EXPECT_EQ(stream.read(0).size(), 6 / world_.size() + (world_.rank() < 6 % world_.size() ? 1 : 0));
}

TEST_F(Arriving, stopped_waiting_can_be_continued_by_another_prefetcher) {
  open_groups_of(2);
  send_groups(0, 2);
  const Config config = config_of({"exchange.prefetch=2"});
  SampleStream stream(world_, config);
  const auto read = [&](std::int64_t step) { return stream.read(step); };
  ServiceState position;
  {
    test::ServiceAhead steps(world_, config, stream.num_steps(), read);
    ASSERT_TRUE(steps.next());
    position = steps.state();
    stream.stop_waiting();
  }
  stream.resume_waiting();
  send_groups(2, 4);
  end();
  test::ServiceAhead steps(world_, config, stream.num_steps(), read, position);
  const std::optional<Step> next = steps.next();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->index, 1);
  EXPECT_FALSE(steps.next());
}

TEST_F(Arriving, a_step_waits_until_its_groups_are_complete) {
  open_groups_of(2);
  SampleStream stream(world_, config_of());
  std::thread producer;
  if (buffer_) {
    producer = std::thread([&] {
      for (const char* name : {"a", "b"}) {
        std::this_thread::sleep_for(20ms);
        (*buffer_)->accept_samples(received(rollout_line(name, 0)));
        (*buffer_)->accept_samples(received(rollout_line(name, 1)));
      }
    });
  }
  EXPECT_THAT(lengths_of(stream, 0), ElementsAre(4, 4, 4, 4));
  if (producer.joinable()) producer.join();
}

TEST_F(Arriving, a_prefetcher_ends_with_the_samples_and_keeps_their_fields_and_groups) {
  open_groups_of(2);
  send_groups(0, 4);
  end();
  const Config config = config_of({"exchange.prefetch=2"});
  SampleStream stream(world_, config);
  test::ServiceAhead prefetcher(world_, config, stream.num_steps(),
                                [&](std::int64_t step) { return stream.read(step); });
  std::int64_t steps = 0;
  while (const std::optional<Step> step = prefetcher.next()) {
    EXPECT_EQ(step->index, steps++);
    EXPECT_EQ(step->num_samples, 4);
    for (const MicroBatch& micro_batch : step->micro_batches) {
      EXPECT_NE(micro_batch.tensors.find("index"), nullptr);
      EXPECT_NE(micro_batch.tensors.find("version"), nullptr);
    }
  }
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(prefetcher.next(), std::nullopt);
  EXPECT_EQ(prefetcher.state().next_step, 2);
}

TEST_F(Arriving, a_resumed_job_gets_only_untrained_steps_again) {
  open_groups_of(2);
  send_groups(0, 6);
  std::vector<std::int64_t> second;
  ServiceState before;
  {
    SampleStream stream(world_, config_of());
    stream.describe(before);
    static_cast<void>(lengths_of(stream, 0));
    second = lengths_of(stream, 1);
    stream.report_saved_before(1);
    EXPECT_THROW(static_cast<void>(stream.read(0)), InputError);
  }
  SampleStream again(world_, config_of());
  ServiceState now;
  again.describe(now);
  EXPECT_EQ(now.sources, before.sources) << "the same buffer";
  EXPECT_EQ(lengths_of(again, 1), second);
  EXPECT_THAT(lengths_of(again, 2), ElementsAre(6, 6, 7, 7));
  EXPECT_THAT(
      message_of([&] { static_cast<void>(again.read(0)); }),
      AllOf(HasSubstr("step 0"), HasSubstr("freed the samples of steps up to 0"), HasSubstr("Resume")));
  EXPECT_THAT(message_of([&] { static_cast<void>(again.read(5)); }), HasSubstr("has formed steps up to 2"));
}

TEST_F(Arriving, a_version_is_the_number_of_the_step_that_is_formed) {
  open_groups_of(2);
  send_groups(0, 4);
  SampleStream stream(world_, config_of());
  static_cast<void>(lengths_of(stream, 0));
  static_cast<void>(lengths_of(stream, 1));
  on_buffer([](Buffer& buffer) { EXPECT_EQ(buffer.status().stream.version, 1); });
  EXPECT_THROW(stream.publish(7), ConfigError) << "stream.version is step";
}

TEST_F(Arriving, a_trainer_can_publish_versions) {
  open_groups_of(2);
  send_groups(0, 2);
  SampleStream stream(world_, config_of({"stream.version=trainer"}));
  if (world_.size() > 1) {
    EXPECT_THAT(message_of([&] { stream.publish(3 + world_.rank()); }), HasSubstr("version"))
        << "a version that differs between ranks";
  }
  stream.publish(7);
  static_cast<void>(lengths_of(stream, 0));
  on_buffer([](Buffer& buffer) {
    EXPECT_EQ(buffer.status().stream.version, 7);
    EXPECT_EQ(buffer.untrained_steps(0).front().version, 7);
  });
}

TEST_F(Arriving, stale_samples_are_dropped_and_the_rest_form_the_step) {
  stream::StreamSettings settings = testing_support::groups_of(2);
  settings.max_staleness = 0;
  open(settings);
  send_groups(0, 3);
  send_groups(3, 5, 1);
  SampleStream stream(world_, config_of());
  EXPECT_THAT(lengths_of(stream, 0), ElementsAre(2, 2, 3, 3));
  EXPECT_THAT(lengths_of(stream, 1), ElementsAre(5, 5, 6, 6)) << "g2 has version 0";
  const ArrivalFigures arrived = stream.arrival_figures();
  EXPECT_EQ(arrived.received, 10);
  EXPECT_EQ(arrived.formed, 8);
  EXPECT_EQ(arrived.dropped.at("stale"), 2);
  EXPECT_EQ(arrived.staleness, (std::map<std::int64_t, std::int64_t>{{0, 8}}));
}

TEST_F(Arriving, stale_samples_are_masked_on_request) {
  stream::StreamSettings settings = testing_support::groups_of(2);
  settings.max_staleness = 0;
  settings.on_stale = OnStale::mask;
  open(settings);
  send_groups(0, 3);
  send_groups(3, 4, 1);
  SampleStream stream(world_, config_of());
  const auto sum_of_masks = [&](std::int64_t step) {
    float mine = 0;
    const RaggedBatch batch = stream.read(step);
    if (batch.size() > 0)
      for (const float mask : batch.at("loss_mask").values<float>()) mine += mask;
    return boost::mpi::all_reduce(world_, mine, std::plus<>());
  };
  EXPECT_EQ(sum_of_masks(0), 1 + 1 + 2 + 2) << "all response tokens";
  EXPECT_EQ(sum_of_masks(1), 4 + 4) << "g2 has version 0";
}

TEST_F(Arriving, a_response_mask_follows_its_convention_if_stale_samples_are_masked) {
  stream::StreamSettings settings = testing_support::groups_of(1);
  settings.max_staleness = 0;
  settings.on_stale = OnStale::mask;
  open(settings);
  for (int i = 0; buffer_ && i < 4; ++i) {
    (*buffer_)->accept_samples(
        received(R"({"uid": ")" + std::to_string(i) +
                 R"(", "index": 0, "version": 0, "prompt_ids": [5, 6], "response_ids": [7, 8], )"
                 R"("response_mask": [0, 0, 0, 1]})"
                 "\n"));
  }
  const Config config = config_of({"fields.response_mask.at=token"});
  SampleStream stream(world_, config);
  DataService service(world_, config);
  EXPECT_EQ(service.step(stream.read(0)).num_loss_tokens, 4);
}

TEST_F(Arriving, a_sample_that_cannot_be_planned_is_named_by_step_group_and_index) {
  open_groups_of(2);
  send_groups(0, 4);
  SampleStream stream(world_, config_of());
  const Config config = config_of({"micro_batch.max_tokens=3"});
  DataService service(world_, config);
  Steps steps = service.steps(stream);
  EXPECT_TRUE(steps.next()) << "of lengths up to 3";
  const auto next = [&] { static_cast<void>(steps.next()); };
  EXPECT_THAT(message_of(next), AllOf(HasSubstr("step 1, sample 5 (index 1 of group 'g2'): has 4 tokens"),
                                      HasSubstr("above the cap of 3"), HasSubstr(R"({"in_step": true})")));
}

TEST_F(Arriving, a_sample_that_a_later_pass_cannot_plan_is_named_by_step_group_and_index) {
  open_groups_of(2);
  send_groups(0, 2);
  SampleStream stream(world_, config_of());
  const Config config = config_of({"profiles.update.micro_batch.max_tokens=2"});
  DataService service(world_, config);
  Step step = service.step(stream.read(0));
  EXPECT_THAT(message_of([&] { static_cast<void>(service.step(std::move(step), "update")); }),
              HasSubstr("step 0, sample 3 (index 1 of group 'g1'): has 3 tokens"));
}

TEST_F(Arriving, samples_with_different_shared_tokens_are_both_named) {
  open_groups_of(2);
  const auto line = [](int index, int value) {
    return R"({"uid": "g", "index": )" + std::to_string(index) +
           R"(, "version": 0, "prompt_ids": [5, 6], "response_ids": [7], "values": [)" +
           std::to_string(value) + ", 1, 1]}\n";
  };
  on_buffer([&](Buffer& buffer) { buffer.accept_samples(received(line(1, 1) + line(0, 2))); });
  const Config config = config_of({"prefix.share=true", "batch.global_batch=2"});
  SampleStream stream(world_, config);
  DataService service(world_, config);
  EXPECT_THAT(message_of([&] { static_cast<void>(service.step(stream.read(0))); }),
              AllOf(HasSubstr("step 0, field 'values' (sample "), HasSubstr("sample 1: index 1 of group 'g'"),
                    HasSubstr("sample 2: index 0 of group 'g'")));
}

TEST_F(Arriving, filtered_samples_are_counted) {
  open_groups_of(2);
  send_groups(0, 6);
  SampleStream stream(world_, config_of({"batch.too_long=drop", "batch.max_length=5"}));
  EXPECT_THAT(lengths_of(stream, 0), ElementsAre(2, 2, 3, 3));
  EXPECT_THAT(lengths_of(stream, 1), ElementsAre(4, 4, 5, 5));
  end();
  EXPECT_THROW(static_cast<void>(stream.read(2)), EndOfSamples);
  on_buffer([](Buffer& buffer) {
    const stream::Status status = buffer.status().stream;
    EXPECT_EQ(status.dropped[static_cast<std::size_t>(stream::DropReason::filtered)].samples, 4);
    EXPECT_EQ(status.waiting.samples, 0);
  });
}

TEST_F(Arriving, long_samples_are_split_if_a_filter_does) {
  open_groups_of(2);
  send_groups(3, 5);
  SampleStream stream(world_, config_of({"batch.too_long=split", "batch.max_length=3"}));
  EXPECT_THAT(lengths_of(stream, 0), ElementsAre(3, 2, 3, 2, 3, 3, 3, 3));
}

TEST_F(Arriving, a_job_continues_after_its_buffer_returns) {
  open_groups_of(2);
  SampleStream stream(world_, config_of());
  std::thread producer;
  if (buffer_) {
    producer = std::thread([&] {
      buffer_->close_and_open_again();
      for (const char* name : {"a", "b"})
        (*buffer_)->accept_samples(received(rollout_line(name, 0) + rollout_line(name, 1)));
    });
  }
  EXPECT_EQ(lengths_of(stream, 0).size(), 4);
  if (producer.joinable()) producer.join();
}

TEST_F(Arriving, an_unreachable_buffer_learns_of_trained_steps_when_it_returns) {
  open_groups_of(2);
  send_groups(0, 2);
  end();
  SampleStream stream(world_, config_of());
  static_cast<void>(lengths_of(stream, 0));
  EXPECT_THROW(static_cast<void>(stream.read(1)), EndOfSamples);
  std::promise<void> closed;
  std::thread restart;
  if (buffer_) {
    restart = std::thread([&] { buffer_->close_and_open_again(200ms, closed); });
    closed.get_future().wait();
  }
  stream.report_saved_before(1);
  if (restart.joinable()) restart.join();
  on_buffer([](Buffer& buffer) { EXPECT_EQ(buffer.status().stream.trained.samples, 4); });
}

TEST_F(Arriving, figures_are_available_while_another_thread_waits) {
  open_groups_of(2);
  send_groups(0, 2);
  SampleStream stream(world_, config_of());
  static_cast<void>(lengths_of(stream, 0));
  std::thread waiting([&] { static_cast<void>(stream.read(1)); });
  EXPECT_EQ(stream.arrival_figures().formed, 4);
  send_groups(2, 4);
  waiting.join();
  EXPECT_EQ(stream.arrival_figures().formed, 8);
}

TEST_F(Arriving, figures_remain_the_last_known_while_the_buffer_is_unreachable) {
  open_groups_of(2);
  send_groups(0, 2);
  SampleStream stream(world_, config_of());
  static_cast<void>(lengths_of(stream, 0));
  const ArrivalFigures before = stream.arrival_figures();
  std::promise<void> closed;
  std::thread restart;
  if (buffer_) {
    restart = std::thread([&] { buffer_->close_and_open_again(300ms, closed); });
    closed.get_future().wait();
  }
  EXPECT_EQ(stream.arrival_figures(), before);
  if (restart.joinable()) restart.join();
}

TEST_F(Arriving, patience_ends_with_the_same_error_on_every_rank) {
  open_groups_of(2);
  send_groups(0, 1);
  const Config config = config_of({"stream.patience=0.1", "exchange.prefetch=0"});
  SampleStream stream(world_, config);
  test::ServiceAhead prefetcher(world_, config, stream.num_steps(),
                                [&](std::int64_t step) { return stream.read(step); });
  const std::string message = message_of([&] { static_cast<void>(prefetcher.next()); });
  EXPECT_THAT(message,
              AllOf(HasSubstr("stream.patience"), HasSubstr("1 is complete"), HasSubstr("producers")));
  std::vector<std::string> all;
  boost::mpi::all_gather(world_, message, all);
  for (const std::string& other : all) EXPECT_EQ(other, message);
}

TEST_F(Arriving, a_waiting_reader_can_be_stopped) {
  open_groups_of(2);
  SampleStream stream(world_, config_of());
  stream.stop_waiting();
  EXPECT_THROW(static_cast<void>(stream.read(0)), EndOfSamples);
}

TEST_F(Arriving, rules_that_differ_from_the_buffers_are_refused_on_every_rank) {
  open_groups_of(2);
  EXPECT_THAT(message_of([&] { SampleStream(world_, config_of({"stream.group_size=4"})); }),
              AllOf(HasSubstr("stream.group_size"), HasSubstr("is 4"), HasSubstr("has 2")));
  EXPECT_THAT(message_of([&] { SampleStream(world_, config_of({"stream.max_staleness=4"})); }),
              AllOf(HasSubstr("stream.max_staleness"), HasSubstr("has none")));
  EXPECT_THAT(message_of([&] { SampleStream(world_, config_of({"batch.global_batch=5"})); }),
              AllOf(HasSubstr("batch.global_batch"), HasSubstr("is 5"), HasSubstr("groups of 2")));
}

TEST_F(Arriving, the_buffers_ticket_deadline_overrides_that_of_the_job) {
  open_groups_of(2);
  send_groups(0, 2);
  std::vector<std::string> notes;
  set_waiting_notes_destination([&](const std::string& note) { notes.push_back(note); });
  SampleStream stream(world_, config_of({"stream.ticket_deadline=7"}));
  set_waiting_notes_destination([](const std::string&) {});
  EXPECT_THAT(lengths_of(stream, 0), ElementsAre(2, 2, 3, 3));
  if (world_.rank() == 0)
    EXPECT_THAT(notes, ElementsAre(AllOf(HasSubstr("stream.ticket_deadline is 7"), HasSubstr("uses 600"))));
  else
    EXPECT_TRUE(notes.empty());
}

TEST_F(Arriving, a_job_that_was_fenced_ends_on_every_rank) {
  open_groups_of(2);
  send_groups(0, 2);
  SampleStream zombie(world_, config_of());
  SampleStream job(world_, config_of({"stream.take_over=true"}));
  EXPECT_THAT(message_of([&] { static_cast<void>(zombie.read(0)); }), HasSubstr("job 1: is fenced: job 2"));
  EXPECT_THAT(lengths_of(job, 0), ElementsAre(2, 2, 3, 3));
}

TEST_F(Arriving, a_job_tells_the_buffer_which_samples_it_accepts) {
  open_groups_of(2);
  SampleStream stream(world_, config_of({"micro_batch.max_tokens=4"}));
  on_buffer([](Buffer& buffer) {
    EXPECT_THAT(message_of([&] { buffer.accept_samples(received(rollout_line("a", 0, 0, 4))); }),
                HasSubstr("has 5 tokens; the job accepts at most 4"));
    EXPECT_EQ(buffer.accept_samples(received(rollout_line("a", 0, 0, 3))).accepted, 1);
  });
}

TEST_F(Arriving, a_step_whose_groups_were_all_removed_has_no_samples) {
  open_groups_of(2);
  send_groups(0, 4);
  const Config config = config_of();
  EXPECT_THAT(lengths_of(*std::make_unique<SampleStream>(world_, config), 0), ElementsAre(2, 2, 3, 3));
  on_buffer([](Buffer& buffer) {
    buffer.abort_formed_group("g0", "");
    buffer.abort_formed_group("g1", "");
    buffer.end_stream();
  });
  SampleStream stream(world_, config);
  test::ServiceAhead steps(world_, config, stream.num_steps(),
                           [&](std::int64_t step) { return stream.read(step); });
  std::vector<std::int64_t> samples;
  while (const std::optional<Step> step = steps.next()) samples.push_back(step->num_samples);
  EXPECT_THAT(samples, ElementsAre(0, 4));
}

TEST_F(Arriving, fields_are_read_in_the_formats_of_the_buffer) {
  open(testing_support::groups_of(2), {{"where", LineFormat::axes}});
  on_buffer([](Buffer& buffer) {
    for (const int index : {0, 1}) {
      const std::string line = rollout_line("a", index);
      buffer.accept_samples(received(
          line.substr(0, line.size() - 2) + R"(, "where": [[1, 2, 3, 4], [5, 6, 7, 8]]})", buffer.formats()));
    }
  });
  end();
  SampleStream stream(world_, config_of());
  const RaggedBatch batch = stream.read(0);
  for (const Column& column : batch.fields()) {
    if (column.spec().name != "where") continue;
    EXPECT_EQ(column.spec().trailing, std::vector<std::int64_t>{2});
    EXPECT_EQ(column.values<std::int64_t>()[1], 5) << "of the first token";
  }
  EXPECT_EQ(
      SampleStream(world_, config_of({"stream.take_over=true", "fields.where.read_as=axes"})).num_steps(),
      SampleStream::unknown_num_steps);
  EXPECT_THAT(message_of([&] {
                SampleStream(world_, config_of({"stream.take_over=true", "fields.where.read_as=runs"}));
              }),
              AllOf(HasSubstr("fields.where.read_as: is runs"), HasSubstr("reads the field as axes")));
  EXPECT_THAT(message_of([&] {
                SampleStream(world_, config_of({"stream.take_over=true", "fields.other.read_as=text"}));
              }),
              HasSubstr("without a declared format"));
}

TEST_F(Arriving, a_job_may_run_its_own_buffer) {
  const ScratchFolder scratch;
  std::string folder = scratch.path().string();
  boost::mpi::broadcast(world_, folder, 0);
  const std::string yaml =
      "source: {kind: stream}\nbatch: {global_batch: 4}\nstream: {listen: '127.0.0.1:0', dir: '" + folder +
      "/kept', capacity: 16MiB, group_size: 2}\n";
  ServiceState first;
  {
    SampleStream stream(world_, parse_config(yaml, "test"));
    EXPECT_THAT(stream.sources().at(0).path, HasSubstr("http://127.0.0.1:"));
    stream.describe(first);
  }
  SampleStream again(world_, parse_config(yaml, "test"));
  ServiceState second;
  again.describe(second);
  EXPECT_EQ(first.sources.at(0).digest, second.sources.at(0).digest) << "the same folder is the same buffer";
}

}  // namespace
}  // namespace evenkeel::arriving_test
