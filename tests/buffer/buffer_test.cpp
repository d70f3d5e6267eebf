#include "buffer/buffer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "buffer/rollout_lines.hpp"
#include "buffer/store/store.hpp"
#include "evenkeel/base/error.hpp"
#include "support/report_of.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::groups_of;
using testing_support::received;
using testing_support::report_of;
using testing_support::rollout_line;
using testing_support::ScratchFolder;

std::vector<Uid> uids_of(const std::vector<stream::WaitingGroup>& groups) {
  std::vector<Uid> uids;
  for (const stream::WaitingGroup& group : groups) uids.push_back(group.uid);
  return uids;
}

std::vector<Uid> ready_in(Buffer& buffer) {
  return uids_of(buffer.wait_for_groups(0, 1000, 0ms).groups);
}

stream::StepFormed step_of(Buffer& buffer, std::int64_t number, std::size_t num_groups) {
  const WaitingGroups waiting = buffer.wait_for_groups(0, 1000, 0ms);
  stream::StepFormed step{number, waiting.stream.version, {}, {}, {}};
  for (std::size_t i = 0; i < num_groups; ++i)
    step.groups.push_back({waiting.groups[i].uid, std::ssize(waiting.groups[i].samples)});
  return step;
}

void expect_balance(const Buffer& buffer) {
  const stream::Status status = buffer.status().stream;
  std::int64_t sum = status.trained.samples + status.formed.samples + status.waiting.samples;
  for (const stream::Amount& dropped : status.dropped) sum += dropped.samples;
  EXPECT_EQ(status.received.samples, sum);
}

TEST(Buffer, reports_accepted_samples_and_duplicates) {
  Buffer buffer(make_memory_store(1 << 20), groups_of(2));
  const Intake first =
      buffer.accept_samples(received(rollout_line("a", 0) + rollout_line("a", 1) + rollout_line("a", 1)));
  EXPECT_EQ(first.accepted, 2);
  EXPECT_EQ(first.duplicates, 1);
  const Intake second = buffer.accept_samples(received(rollout_line("a", 1) + rollout_line("b", 0)));
  EXPECT_EQ(second.accepted, 1);
  EXPECT_EQ(second.duplicates, 1);
  EXPECT_THAT(ready_in(buffer), ElementsAre(Uid("a")));
  EXPECT_EQ(buffer.status().stream.duplicates, 2);
  expect_balance(buffer);
}

TEST(Buffer, refuses_a_known_key_with_different_content_in_every_state) {
  const ScratchFolder folder;
  const auto open = [&] {
    return std::make_unique<Buffer>(open_lmdb_store(folder / "store", least_lmdb_capacity), groups_of(2));
  };
  auto buffer = open();
  const std::string one = rollout_line("a", 0, 0, 3);
  const std::string other = rollout_line("a", 0, 0, 4);
  const auto refusal = [&](const std::string& lines) {
    return report_of<FieldsError>([&] { buffer->accept_samples(received(lines)); });
  };
  EXPECT_EQ(refusal(one + other).where, "body:2") << "in one request";
  EXPECT_EQ(buffer->status().stream.received.samples, 0);
  buffer->accept_samples(received(one));
  const ErrorReport report = refusal(rollout_line("a", 1) + other);
  EXPECT_EQ(report.where, "body:2");
  EXPECT_EQ(report.message, "sample 0 of group 'a' was already received with different content");
  EXPECT_THAT(report.hint, HasSubstr("an index of its own"));
  EXPECT_EQ(buffer->status().stream.received.samples, 1) << "nothing of the request is taken";
  buffer->accept_samples(received(rollout_line("a", 1)));
  buffer->form_step(step_of(*buffer, 0, 1));
  EXPECT_EQ(refusal(other).where, "body:1") << "in a step";
  buffer.reset();
  buffer = open();
  EXPECT_EQ(refusal(other).where, "body:1") << "after a restart";
  buffer->mark_trained(0);
  buffer.reset();
  buffer = open();
  EXPECT_EQ(refusal(other).where, "body:1") << "trained";
  EXPECT_EQ(buffer->accept_samples(received(rollout_line("b", 0) + "  " + one)).duplicates, 1)
      << "among others";
  buffer->end_stream();
  EXPECT_EQ(buffer->accept_samples(received(one)).duplicates, 1) << "after the end";
  EXPECT_EQ(refusal(other).where, "body:1");
  EXPECT_THROW(buffer->accept_samples(received(rollout_line("c", 0))), InputError);
}

TEST(Buffer, stores_no_sample_of_a_refused_request) {
  Buffer buffer(make_memory_store(1 << 20), groups_of(2));
  const ErrorReport report = report_of<InputError>(
      [&] { buffer.accept_samples(received(rollout_line("a", 0) + rollout_line("a", 2))); });
  EXPECT_EQ(report.where, "body:2");
  EXPECT_EQ(buffer.status().stream.received.samples, 0);
  EXPECT_EQ(buffer.accept_samples(received(rollout_line("a", 0))).accepted, 1);
}

TEST(Buffer, refuses_samples_with_different_fields) {
  Buffer buffer(make_memory_store(1 << 20), groups_of(1));
  buffer.accept_samples(received(rollout_line("a", 0)));
  std::string other = rollout_line("b", 0);
  other.replace(other.find("{"), 1, R"({"reward": 1.0, )");
  EXPECT_THROW(buffer.accept_samples(received(other)), FieldsError);
  EXPECT_EQ(buffer.status().stream.received.samples, 1);
}

TEST(Buffer, distinguishes_requests_that_can_never_fit_from_those_that_can_later) {
  const ScratchFolder folder;
  Buffer buffer(open_lmdb_store(folder / "store", least_lmdb_capacity), groups_of(1));
  std::string tiny;
  for (int i = 0; i < 85'000; ++i) tiny += rollout_line(std::to_string(i), 0, 0, 1);
  ASSERT_LT(std::ssize(tiny), least_lmdb_capacity);
  EXPECT_THAT(report_of<LimitError>([&] { return buffer.accept_samples(received(tiny)); }).message,
              HasSubstr("do not fit into the buffer's capacity"));
  const std::size_t sixth = tiny.find('\n', tiny.size() / 6) + 1;
  const std::size_t third = tiny.find('\n', tiny.size() / 3) + 1;
  EXPECT_GT(buffer.accept_samples(received(tiny.substr(0, sixth))).accepted, 14'000);
  EXPECT_THROW(buffer.accept_samples(received(tiny.substr(sixth, third - sixth))), FullError);
}

TEST(Buffer, can_train_samples_when_it_is_full_of_tiny_ones) {
  const ScratchFolder folder;
  Buffer buffer(open_lmdb_store(folder / "store", least_lmdb_capacity), groups_of(1));
  int number = 0;
  const auto more = [&] {
    std::string tiny;
    for (int i = 0; i < 500; ++i) tiny += rollout_line("sample " + std::to_string(++number), 0);
    return tiny;
  };
  try {
    while (true) buffer.accept_samples(received(more()));
  } catch (const FullError&) {
  }
  const WaitingGroups waiting = buffer.wait_for_groups(0, number, 0ms);
  std::array<stream::StepFormed, 2> steps{{{0, 0, {}, {}, {}}, {1, 0, {}, {}, {}}}};
  for (std::size_t i = 0; i < waiting.groups.size(); ++i)
    steps[i % 3 == 0 ? 1 : 0].groups.push_back({waiting.groups[i].uid, 1});
  for (const stream::StepFormed& step : steps) {
    buffer.form_step(step);
    buffer.mark_trained(step.step);
  }
  EXPECT_GT(buffer.accept_samples(received(more())).accepted, 0);
}

TEST(Buffer, reports_to_producers_and_the_job_that_it_is_full_without_a_possible_step) {
  const std::string sample = rollout_line("a", 0, 0, 3000);
  Buffer buffer(make_memory_store(std::ssize(sample) * 3), groups_of(2));
  buffer.begin_job(2);
  buffer.accept_samples(received(sample));
  buffer.accept_samples(received(rollout_line("b", 0, 0, 3000)));
  EXPECT_EQ(buffer.wait_for_groups(2, 2, 0ms).full, "");
  const ErrorReport report =
      report_of<FullError>([&] { buffer.accept_samples(received(rollout_line("a", 1, 0, 3000))); });
  EXPECT_THAT(report.message, HasSubstr("a step needs 2 groups; 0 are complete and 2 are not"));
  EXPECT_THAT(report.hint, HasSubstr("--capacity"));
  EXPECT_THAT(buffer.wait_for_groups(2, 2, 0ms).full, HasSubstr("a step needs 2 groups"));
  buffer.abort_group("b", {}, "stuck");
  buffer.accept_samples(received(rollout_line("a", 1, 0, 3000)));
  EXPECT_EQ(buffer.wait_for_groups(2, 2, 0ms).full, "");
}

TEST(Buffer, skips_unknown_steps_after_being_restored_from_an_older_copy) {
  const ScratchFolder folder;
  {
    Buffer buffer(open_lmdb_store(folder / "store", least_lmdb_capacity), groups_of(1));
    buffer.accept_samples(received(rollout_line("a", 0) + rollout_line("b", 0) + rollout_line("c", 0)));
    for (const std::int64_t step : {3, 4}) buffer.form_step(step_of(buffer, step, 1));
    EXPECT_THROW(buffer.mark_trained(7), InputError);
    buffer.skip_through(7);
  }
  Buffer buffer(open_lmdb_store(folder / "store", least_lmdb_capacity), groups_of(1));
  EXPECT_EQ(buffer.status().stream.trained.samples, 2);
  EXPECT_THROW(buffer.form_step(step_of(buffer, 7, 1)), InputError);
  buffer.form_step(step_of(buffer, 8, 1));
  buffer.mark_trained(8);
  expect_balance(buffer);
}

TEST(Buffer, accepts_samples_again_once_training_has_freed_space) {
  Buffer buffer(make_memory_store(10'000), groups_of(1));
  int taken = 0;
  EXPECT_THROW(
      while (true) {
        buffer.accept_samples(received(rollout_line("g" + std::to_string(taken), 0, 0, 100)));
        ++taken;
      },
      FullError);
  EXPECT_GT(taken, 5);
  EXPECT_EQ(buffer.accept_samples(received(rollout_line("g0", 0, 0, 100))).duplicates, 1) << "needs no room";
  buffer.form_step(step_of(buffer, 0, 3));
  EXPECT_THROW(buffer.accept_samples(received(rollout_line("more", 0, 0, 100))), FullError);
  buffer.mark_trained(0);
  EXPECT_EQ(buffer.accept_samples(received(rollout_line("more", 0, 0, 100))).accepted, 1);
  expect_balance(buffer);
}

TEST(Buffer, in_memory_counts_the_records_of_samples_toward_its_capacity) {
  constexpr std::int64_t capacity = 100'000;
  Buffer buffer(make_memory_store(capacity), groups_of(1));
  std::int64_t taken = 0;
  const auto next = [&] { return rollout_line("g" + std::to_string(taken), 0); };
  EXPECT_THROW(for (;; ++taken) buffer.accept_samples(received(next())), FullError);
  constexpr std::int64_t of_node = 128;  // of a map node, for the body and for the event
  EXPECT_LT(taken, capacity / (std::ssize(next()) + 2 * of_node));
  EXPECT_GT(taken, 100);
  EXPECT_LE(buffer.status().used, capacity);
  buffer.form_step(step_of(buffer, 0, static_cast<std::size_t>(taken)));
  buffer.mark_trained(0);
  const std::int64_t keys = taken * 2 * 2 * std::int64_t{sizeof(stream::SeenSlot)};
  EXPECT_LT(buffer.status().used, keys + capacity / 10) << "only the step and keys are kept";
  EXPECT_GT(buffer.status().used, keys);
}

TEST(Buffer, refuses_requests_larger_than_its_capacity) {
  Buffer buffer(make_memory_store(500), groups_of(1));
  EXPECT_THAT(
      report_of<LimitError>([&] { buffer.accept_samples(received(rollout_line("a", 0, 0, 300))); }).message,
      HasSubstr("the buffer's capacity of 500"));
}

TEST(Buffer, returns_a_step_repeatedly_until_it_is_trained) {
  Buffer buffer(make_memory_store(1 << 20), groups_of(1));
  buffer.accept_samples(received(rollout_line("a", 0) + rollout_line("b", 0) + rollout_line("c", 0)));
  const stream::StepFormed step = step_of(buffer, 4, 2);
  buffer.form_step(step);
  buffer.form_step(step);
  stream::StepFormed other = step;
  other.groups.pop_back();
  EXPECT_THROW(buffer.form_step(other), FieldsError);
  EXPECT_THAT(ready_in(buffer), ElementsAre(Uid("c")));
  const std::vector<stream::FormedStep> formed = buffer.untrained_steps(0);
  ASSERT_EQ(formed.size(), 1);
  EXPECT_EQ(formed[0].step, 4);
  EXPECT_THAT(uids_of(formed[0].groups), ElementsAre(Uid("a"), Uid("b")));
  std::string line;
  buffer.read_body(formed[0].groups[1].samples[0].arrival,
                   [&](std::string_view bytes, const BodyFrame&) { line = bytes; });
  EXPECT_EQ(line + "\n", rollout_line("b", 0));
  buffer.mark_trained(4);
  EXPECT_TRUE(buffer.untrained_steps(0).empty());
  EXPECT_THROW(
      buffer.read_body(formed[0].groups[1].samples[0].arrival, [](std::string_view, const BodyFrame&) {}),
      InputError);
  EXPECT_EQ(buffer.accept_samples(received(rollout_line("a", 0))).duplicates, 1);
  expect_balance(buffer);
}

TEST(Buffer, has_the_same_content_after_a_restart) {
  const ScratchFolder folder;
  const auto open = [&] {
    return std::make_unique<Buffer>(open_lmdb_store(folder / "store", least_lmdb_capacity), groups_of(2));
  };
  auto buffer = open();
  buffer->accept_samples(received(rollout_line("a", 0, 1) + rollout_line("a", 1, 2) + rollout_line("b", 0) +
                                  rollout_line("c", 0) + rollout_line("c", 1) + rollout_line("d", 0) +
                                  rollout_line("d", 1)));
  buffer->accept_samples(received(rollout_line("a", 0, 1)));
  buffer->publish(3);
  buffer->begin_job(5);
  buffer->form_step(step_of(*buffer, 7, 1));
  buffer->form_step(step_of(*buffer, 8, 1));
  buffer->mark_trained(7);
  buffer->abort_group("d", std::nullopt, "its tool is broken");
  const BufferStatus before = buffer->status();
  const std::vector<stream::FormedStep> formed = buffer->untrained_steps(0);
  const JsonlSchema schema = buffer->schema();
  expect_balance(*buffer);
  buffer.reset();
  buffer = open();
  EXPECT_EQ(buffer->status().stream, before.stream);
  EXPECT_EQ(buffer->status().groups_per_step, 5);
  EXPECT_EQ(buffer->untrained_steps(0), formed);
  EXPECT_EQ(buffer->schema().fields, schema.fields);
  EXPECT_EQ(buffer->accept_samples(received(rollout_line("a", 1, 2))).duplicates, 1);
  EXPECT_EQ(buffer->accept_samples(received(rollout_line("b", 1))).accepted, 1);
  EXPECT_THAT(ready_in(*buffer), ElementsAre(Uid("b")));
  expect_balance(*buffer);
}

TEST(Buffer, keeps_the_group_size_until_all_received_samples_are_trained) {
  const ScratchFolder folder;
  const auto open = [&](std::int64_t group_size) {
    return std::make_unique<Buffer>(open_lmdb_store(folder / "store", least_lmdb_capacity),
                                    groups_of(group_size));
  };
  open(4)->accept_samples(received(rollout_line("a", 0) + rollout_line("a", 1)));
  const ErrorReport refusal = report_of<InputError>([&] { open(2); });
  EXPECT_THAT(refusal.message, HasSubstr("has 1 untrained group with a group size of 4"));
  EXPECT_THAT(refusal.hint, HasSubstr("--group-size"));
  auto buffer = open(4);
  buffer->accept_samples(received(rollout_line("a", 2) + rollout_line("a", 3)));
  buffer->form_step(step_of(*buffer, 0, 1));
  buffer->mark_trained(0);
  buffer.reset();
  EXPECT_EQ(open(2)->accept_samples(received(rollout_line("b", 0) + rollout_line("b", 1))).accepted, 2);
}

TEST(Buffer, closes_a_group_at_its_deadline_and_records_it) {
  stream::StreamSettings settings = groups_of(4);
  settings.min_group = 1;
  settings.deadline = 0.05;
  Buffer buffer(make_memory_store(1 << 20), settings);
  buffer.accept_samples(received(rollout_line("a", 0)));
  EXPECT_THAT(uids_of(buffer.wait_for_groups(1, 10, 20'000ms).groups), ElementsAre(Uid("a")));
}

/// An in-memory store that can become unavailable for a while.
class InterruptibleStore : public Store {
 public:
  void commit(const StoreChange& change) override {
    require_here();
    store_->commit(change);
  }
  void refresh() override {
    ++asked;
    require_here();
  }
  void read_body(std::int64_t number, const std::function<void(std::string_view)>& take) const override {
    store_->read_body(number, take);
  }
  void read_events(const std::function<void(std::int64_t, std::string_view)>& take) const override {
    store_->read_events(take);
  }
  [[nodiscard]] std::vector<stream::SeenSlot> seen_slots() const override { return store_->seen_slots(); }
  [[nodiscard]] std::optional<std::string> note(const std::string& name) const override {
    return store_->note(name);
  }
  [[nodiscard]] std::int64_t bytes_in_use() const override { return store_->bytes_in_use(); }
  [[nodiscard]] std::int64_t capacity() const noexcept override { return store_->capacity(); }
  [[nodiscard]] std::int64_t cost_of(std::int64_t bytes) const noexcept override {
    return store_->cost_of(bytes);
  }
  [[nodiscard]] std::int64_t cost_of_event(std::int64_t bytes) const noexcept override {
    return store_->cost_of_event(bytes);
  }
  [[nodiscard]] std::string data_loss_risk() const override { return store_->data_loss_risk(); }
  [[nodiscard]] std::string name() const override { return store_->name(); }

  std::atomic<bool> is_gone = false;
  std::atomic<int> asked = 0;

 private:
  void require_here() const {
    if (is_gone) throw IoError("store", "is gone");
  }
  const std::unique_ptr<Store> store_ = make_memory_store(1 << 20);
};

TEST(Buffer, retries_an_unavailable_store_and_recovers) {
  stream::StreamSettings settings = groups_of(4);
  settings.min_group = 1;
  settings.deadline = 0.3;
  auto made = std::make_unique<InterruptibleStore>();
  InterruptibleStore& store = *made;
  Buffer buffer(std::move(made), settings);
  buffer.accept_samples(received(rollout_line("a", 0)));
  store.is_gone = true;
  EXPECT_THROW(buffer.accept_samples(received(rollout_line("b", 0))), IoError);
  store.asked = 0;
  std::this_thread::sleep_for(600ms);
  EXPECT_LT(store.asked, 10) << "though a deadline is due";
  store.is_gone = false;
  EXPECT_THAT(uids_of(buffer.wait_for_groups(1, 10, 20'000ms).groups), ElementsAre(Uid("a")));
  expect_balance(buffer);
}

TEST(Buffer, reports_no_unstored_data_while_the_store_is_unavailable) {
  auto made = std::make_unique<InterruptibleStore>();
  InterruptibleStore& store = *made;
  Buffer buffer(std::move(made), groups_of(1));
  buffer.accept_samples(received(rollout_line("a", 0)));
  buffer.form_step(step_of(buffer, 0, 1));
  store.is_gone = true;
  EXPECT_THROW(buffer.accept_samples(received(rollout_line("b", 0))), IoError);
  const stream::Status status = buffer.status().stream;
  EXPECT_EQ(status.received.samples, 1);
  EXPECT_EQ(status.formed.samples, 1);
  expect_balance(buffer);
  EXPECT_THROW(ready_in(buffer), IoError);
  EXPECT_THROW(static_cast<void>(buffer.wait_for_step(0, 0ms)), IoError);
  EXPECT_THROW(static_cast<void>(buffer.untrained_steps(0)), IoError);
  EXPECT_THROW(static_cast<void>(buffer.schema()), IoError);
}

TEST(Buffer, refuses_a_store_without_a_valid_number_of_groups) {
  for (const char* const groups : {"", "many", "0", "12 groups", "99999999999999999999"}) {
    auto store = make_memory_store(1 << 20);
    StoreChange change;
    change.notes["groups_per_step"] = groups;
    store->commit(change);
    EXPECT_THROW(Buffer(std::move(store), groups_of(4)), InputError) << groups;
  }
}

TEST(Buffer, closes_and_aborts_groups_and_ends_the_stream) {
  stream::StreamSettings settings = groups_of(3);
  settings.min_group = 2;
  Buffer buffer(make_memory_store(1 << 20), settings);
  buffer.accept_samples(received(rollout_line("a", 0) + rollout_line("a", 1) + rollout_line("b", 0) +
                                 rollout_line("c", 0) + rollout_line("c", 1)));
  buffer.close_group("a");
  EXPECT_THAT(ready_in(buffer), ElementsAre(Uid("a")));
  buffer.abort_group("b", std::nullopt, "timeout");
  buffer.end_stream();
  EXPECT_THAT(ready_in(buffer), testing::UnorderedElementsAre(Uid("a"), Uid("c")));
  EXPECT_TRUE(buffer.wait_for_groups(100, 100, 20'000ms).stream.ended);
  EXPECT_THROW(buffer.accept_samples(received(rollout_line("d", 0))), InputError);
  expect_balance(buffer);
}

TEST(Buffer, grants_tickets_once_a_job_has_declared_the_size_of_a_step) {
  stream::StreamSettings settings = groups_of(1);
  settings.max_staleness = 1;
  Buffer buffer(make_memory_store(1 << 20), settings);
  EXPECT_EQ(buffer.grant_tickets(100).groups, 0);
  buffer.begin_job(4);
  EXPECT_EQ(buffer.grant_tickets(5).groups, 5);
  EXPECT_EQ(buffer.grant_tickets(100).groups, 3);
  EXPECT_EQ(buffer.grant_tickets(100).groups, 0);
}

/// Returns a buffer whose job takes four groups at a time, each with one sample.
std::unique_ptr<Buffer> with_tickets(std::unique_ptr<Store> store, double deadline,
                                     OnStale on_stale = OnStale::wait) {
  stream::StreamSettings settings = groups_of(1);
  settings.max_staleness = 0;
  settings.on_stale = on_stale;
  settings.ticket_deadline = deadline;
  auto buffer = std::make_unique<Buffer>(std::move(store), settings);
  buffer->begin_job(4, {.takes_over = true});
  return buffer;
}

TEST(Buffer, grants_tickets_of_dead_holders_again_even_after_a_restart) {
  const ScratchFolder folder;
  const auto open = [&](double deadline) {
    return with_tickets(open_lmdb_store(folder / "store", least_lmdb_capacity), deadline);
  };
  auto buffer = open(0.2);
  EXPECT_EQ(buffer->grant_tickets(3, {.holder = "dead"}).groups, 3);
  buffer.reset();
  buffer = open(600);
  EXPECT_EQ(buffer->grant_tickets(1, {.holder = "alive"}).groups, 1);
  while (buffer->status().stream.tickets > 1) std::this_thread::sleep_for(10ms);  // needs no other request
  EXPECT_EQ(buffer->status().stream.expired_tickets, 3);
  EXPECT_EQ(buffer->status().stream.oldest_tickets->holder, "alive");
  EXPECT_EQ(buffer->grant_tickets(100).groups, 3);
  buffer->publish(1);
  EXPECT_EQ(buffer->grant_tickets(100).groups, 4) << "groups of version 0 would be stale";
}

TEST(Buffer, grants_the_same_tickets_to_the_same_request) {
  auto buffer = with_tickets(make_memory_store(1 << 20), 600);
  const TicketRequest request{.holder = "worker", .identity = "1"};
  EXPECT_EQ(buffer->grant_tickets(3, request).groups, 3);
  EXPECT_EQ(buffer->grant_tickets(3, request).groups, 3) << "whose answer was lost";
  EXPECT_EQ(buffer->grant_tickets(3, {.holder = "worker", .identity = "2"}).groups, 1);
  EXPECT_EQ(buffer->status().stream.tickets, 4);
  buffer->accept_samples(received(rollout_line("a", 0)), "worker");
  EXPECT_EQ(buffer->grant_tickets(3, request).groups, 3);
  EXPECT_EQ(buffer->status().stream.tickets, 3);
}

TEST(Buffer, does_not_count_tickets_if_they_are_unlimited) {
  for (const auto on_stale : {OnStale::drop, OnStale::mask}) {
    auto buffer = with_tickets(make_memory_store(1 << 20), 600, on_stale);
    EXPECT_EQ(buffer->grant_tickets(100).groups, 100);
    EXPECT_EQ(buffer->status().stream.tickets, 0);
    EXPECT_TRUE(buffer->wait_for_groups(0, 0, 0ms).coming.empty());
  }
}

TEST(Buffer, refuses_unpublished_versions_once_one_was_published) {
  Buffer buffer(make_memory_store(1 << 20), groups_of(1));
  EXPECT_EQ(buffer.accept_samples(received(rollout_line("a", 0, 500))).accepted, 1)
      << "the job has yet to begin";
  buffer.publish(0);
  const ErrorReport report = report_of<InputError>(
      [&] { buffer.accept_samples(received(rollout_line("b", 0) + rollout_line("b", 0, 1))); });
  EXPECT_EQ(report.where, "body:2");
  EXPECT_THAT(report.message, HasSubstr("has version 1, but version 0 of the policy is the latest"));
  buffer.publish(1);
  EXPECT_EQ(buffer.accept_samples(received(rollout_line("b", 0, 1))).accepted, 1);
}

TEST(Buffer, keeps_short_abort_reasons_and_reserves_space_for_those_of_unknown_groups) {
  stream::StreamSettings settings = groups_of(2);
  settings.min_group = 1;
  Buffer buffer(make_memory_store(4000), settings);
  EXPECT_THAT(report_of<InputError>([&] { buffer.abort_group("a", 0, std::string(1025, 'r')); }).message,
              HasSubstr("has 1025 bytes, but at most 1024 are allowed"));
  EXPECT_THROW(buffer.abort_group(std::string(1025, 'u'), 0, ""), InputError);
  EXPECT_THROW(buffer.abort_group("", 0, ""), InputError);
  buffer.accept_samples(received(rollout_line("a", 0)));
  while (buffer.status().used < 3000)
    buffer.accept_samples(received(rollout_line("x" + std::to_string(buffer.status().used), 0)));
  EXPECT_THROW(buffer.abort_group("unknown", 0, std::string(1024, 'r')), FullError);
  EXPECT_THROW(for (int i = 0; i < 100; ++i) buffer.abort_group("unknown " + std::to_string(i), 0, ""),
               FullError);
  buffer.abort_group("a", std::nullopt, std::string(1024, 'r'));
  EXPECT_EQ(buffer.status().stream.dropped[1].samples, 1);
}

TEST(Buffer, drops_stale_samples_and_reports_them) {
  stream::StreamSettings settings = groups_of(1);
  settings.max_staleness = 1;
  settings.on_stale = OnStale::drop;
  Buffer buffer(make_memory_store(1 << 20), settings);
  buffer.publish(5);
  const Intake intake = buffer.accept_samples(received(rollout_line("a", 0, 3) + rollout_line("b", 0, 4)));
  EXPECT_EQ(intake.accepted, 1);
  EXPECT_EQ(intake.stale, 1);
  EXPECT_EQ(intake.version, 5);
  EXPECT_EQ(buffer.accept_samples(received(rollout_line("a", 0, 3))).duplicates, 1);
  expect_balance(buffer);
}

TEST(Buffer, commits_requests_of_many_threads_together) {
  const ScratchFolder folder;
  Buffer buffer(open_lmdb_store(folder / "store", least_lmdb_capacity), groups_of(8));
  std::vector<std::thread> threads;
  for (int index = 0; index < 8; ++index) {
    threads.emplace_back([&, index] {
      for (int group = 0; group < 20; ++group)
        EXPECT_EQ(buffer.accept_samples(received(rollout_line("g" + std::to_string(group), index))).accepted,
                  1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ready_in(buffer).size(), 20);
  expect_balance(buffer);
}

TEST(Buffer, finds_a_group_by_the_text_of_its_number) {
  Buffer buffer(make_memory_store(1 << 20), groups_of(2));
  buffer.accept_samples(
      received(R"({"uid": 7, "index": 0, "version": 0, "prompt_ids": [1], "response_ids": [2]})"));
  EXPECT_EQ(buffer.find_uid_by_name("7"), Uid(std::int64_t{7}));
  EXPECT_THROW(static_cast<void>(buffer.find_uid_by_name("8")), UnknownGroupError) << "a number, or a text?";
  EXPECT_EQ(buffer.find_uid_by_name("08"), Uid("08"));
  buffer.abort_group(std::uint64_t{1} << 63, 0, "");
  EXPECT_EQ(buffer.find_uid_by_name("9223372036854775808"), Uid(std::uint64_t{1} << 63));
  buffer.accept_samples(received(rollout_line("7", 0)));
  EXPECT_THROW(static_cast<void>(buffer.find_uid_by_name("7")), InputError);
}

TEST(Buffer, closes_only_groups_with_received_samples) {
  Buffer buffer(make_memory_store(1 << 20), groups_of(2));
  EXPECT_THROW(buffer.close_group("a"), UnknownGroupError);
  buffer.accept_samples(received(rollout_line("a", 0)));
  buffer.close_group("a");
  buffer.close_group("a");  // the group was dropped, but is still known
  EXPECT_EQ(buffer.status().stream.dropped[2].samples, 1);
}

TEST(Buffer, reads_lines_in_the_declared_format_only) {
  const ScratchFolder scratch;
  const auto open = [&](const std::optional<DeclaredFormats>& told) {
    return std::make_unique<Buffer>(open_lmdb_store(scratch / "kept", least_lmdb_capacity), groups_of(1),
                                    told);
  };
  const std::string plain = rollout_line("a", 0);
  const std::string line = plain.substr(0, plain.size() - 2) + R"(, "note": "good"})" + "\n";
  {
    const auto buffer = open(DeclaredFormats{{"note", LineFormat::bytes}});
    EXPECT_EQ(report_of<InputError>([&] { static_cast<void>(received(plain, buffer->formats())); }).where,
              "body");
  }
  {
    const auto buffer = open(DeclaredFormats{{"note", LineFormat::text}});  // no samples have arrived so far
    buffer->accept_samples(received(line, buffer->formats()));
    ASSERT_EQ(buffer->schema().fields.size(), 3);
    EXPECT_EQ(buffer->schema().fields[1].kind, FieldKind::text);
  }
  const std::string refused = report_of<InputError>([&] { open(DeclaredFormats{}); }).message;
  EXPECT_THAT(refused, HasSubstr("has samples in the format note=text,versions=runs"));
  EXPECT_THAT(refused, HasSubstr("is configured to read versions=runs"));
  EXPECT_EQ(open(std::nullopt)->formats().at("note"), LineFormat::text);
  EXPECT_THROW(open(DeclaredFormats{{"versions", LineFormat::axes}}), ConfigError);
}

}  // namespace
}  // namespace evenkeel
