#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "buffer/buffer.hpp"
#include "buffer/intake/sample_bodies.hpp"
#include "buffer/rollout_lines.hpp"
#include "buffer/sample_tensors.hpp"
#include "buffer/store/store.hpp"
#include "evenkeel/base/error.hpp"
#include "support/report_of.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::received;
using testing_support::report_of;
using testing_support::rollout_line;
using testing_support::sample_tensors;
using testing_support::ScratchFolder;

stream::StreamSettings with_late_fields(std::int64_t group_size) {
  stream::StreamSettings settings = testing_support::groups_of(group_size);
  settings.late_fields = {"old_log_probs", "values"};
  return settings;
}

std::unique_ptr<Buffer> open_in(const ScratchFolder& folder,
                                const stream::StreamSettings& settings = with_late_fields(1)) {
  return std::make_unique<Buffer>(open_lmdb_store(folder / "store", least_lmdb_capacity), settings);
}

FieldIntake add_lines(Buffer& buffer, const std::string& lines) {
  RequestBody body;
  body.write(lines);
  return buffer.add_fields(read_fields(body.file(), buffer.settings().late_fields));
}

/// Samples of rollout_line() have one prompt token and three response tokens.
std::string values_line(const std::string& uid, const std::string& values = "[1.5, 2, 3]") {
  return R"({"uid": ")" + uid + R"(", "index": 0, "values": )" + values + "}\n";
}

std::string log_probs_line(const std::string& uid, const std::string& log_probs = "[-1, -2, -3, -4.5]") {
  return R"({"uid": ")" + uid + R"(", "index": 0, "old_log_probs": )" + log_probs + "}\n";
}

/// Returns a sample as a job receives it.
std::string body_of(const Buffer& buffer, std::int64_t arrival) {
  std::string body;
  buffer.read_body(arrival, [&](std::string_view stored, const BodyFrame& frame) {
    body.append(frame.before).append(stored).append(frame.after);
  });
  return body;
}

/// Returns the samples of the only formed step.
RaggedBatch samples_of_step(Buffer& buffer) {
  std::vector<std::int64_t> arrivals;
  std::string bodies;
  const stream::FormedStep step = buffer.untrained_steps(0).front();
  for (const stream::WaitingGroup& group : step.groups) {
    for (const stream::WaitingSample& sample : group.samples) {
      arrivals.push_back(sample.arrival);
      bodies += body_of(buffer, sample.arrival);
    }
  }
  return parse_samples(bodies, arrivals, buffer.schema(), buffer.formats());
}

std::vector<stream::WaitingGroup> ready_groups(Buffer& buffer) {
  return buffer.wait_for_groups(0, 1000, 0ms).groups;
}

void form_first(Buffer& buffer, std::int64_t step) {
  const stream::WaitingGroup group = ready_groups(buffer).front();
  buffer.form_step({step, 0, {{group.uid, std::ssize(group.samples)}}, {}, {}});
}

TEST(LateFieldsOfBuffer, a_job_gets_a_sample_once_all_its_fields_were_received) {
  Buffer buffer(make_memory_store(1 << 20), with_late_fields(1));
  buffer.accept_samples(received(rollout_line("a", 0)));
  EXPECT_EQ(add_lines(buffer, values_line("a")).added, 1);
  EXPECT_TRUE(ready_groups(buffer).empty());
  EXPECT_EQ(buffer.status().stream.missing_fields.at("old_log_probs"), 1);
  EXPECT_EQ(add_lines(buffer, log_probs_line("a")).added, 1);
  ASSERT_EQ(ready_groups(buffer).size(), 1U);
  form_first(buffer, 0);
  const RaggedBatch batch = samples_of_step(buffer);
  EXPECT_EQ(batch.at("values").spec().kind, FieldKind::response_token);
  EXPECT_THAT(batch.at("values").values<float>(), ElementsAre(1.5F, 2.F, 3.F));
  EXPECT_EQ(batch.at("old_log_probs").spec().kind, FieldKind::token);
  EXPECT_THAT(batch.at("old_log_probs").values<float>(), ElementsAre(-1.F, -2.F, -3.F, -4.5F));
}

TEST(LateFieldsOfBuffer, are_added_to_samples_of_tensors) {
  const ScratchFolder folder;
  auto buffer = open_in(folder, with_late_fields(2));
  for (const std::int64_t index : {0, 1}) {
    RequestBody body;
    body.write(sample_tensors(index));
    buffer->accept_samples(ReceivedSamples(std::move(body), SampleForm::tensors));
  }
  EXPECT_EQ(add_lines(*buffer, R"({"uid": 1, "index": 1, "values": [3, 4], "old_log_probs": 1})"
                               "\n")
                .added,
            1);
  EXPECT_EQ(add_lines(*buffer, R"({"uid": 1, "index": 0, "old_log_probs": 2})"
                               "\n")
                .added,
            1);
  EXPECT_TRUE(ready_groups(*buffer).empty());
  EXPECT_THAT(report_of<InputError>([&] {
                add_lines(*buffer, R"({"uid": 1, "index": 0, "values": [1, 2, 3, 4]})");
              }).message,
              HasSubstr("'values'"));
  EXPECT_EQ(add_lines(*buffer, R"({"uid": 1, "index": 0, "values": [1.5, 2]})").added, 1);
  form_first(*buffer, 0);
  buffer.reset();
  buffer = open_in(folder, with_late_fields(2));
  const RaggedBatch batch = samples_of_step(*buffer);
  std::vector<std::string> names;
  for (const Column& column : batch.fields()) names.push_back(column.spec().name);
  EXPECT_THAT(names, ElementsAre("input_ids", "index", "old_log_probs", "values", "version"));
  EXPECT_THAT(batch.at("input_ids").values<std::int64_t>(), ElementsAre(5, 6, 7, 5, 6, 7));
  EXPECT_THAT(batch.at("index").values<std::int64_t>(), ElementsAre(0, 1));
  EXPECT_THAT(batch.at("old_log_probs").values<std::int64_t>(), ElementsAre(2, 1));
  EXPECT_EQ(batch.at("values").spec().kind, FieldKind::response_token);
  EXPECT_THAT(batch.at("values").values<float>(), ElementsAre(1.5F, 2.F, 3.F, 4.F));
}

TEST(LateFieldsOfBuffer, must_not_be_truncated_behind_samples_of_tensors) {
  Buffer buffer(make_memory_store(1 << 20), with_late_fields(1));
  RequestBody body;
  body.write(sample_tensors(0));
  buffer.accept_samples(ReceivedSamples(std::move(body), SampleForm::tensors));
  add_lines(buffer, R"({"uid": 1, "index": 0, "values": 0.5, "old_log_probs": 1})");
  const std::int64_t arrival = ready_groups(buffer).front().samples.front().arrival;
  const std::string whole = body_of(buffer, arrival);
  const auto parse = [&](const std::string& text) {
    return parse_samples(text, std::span(&arrival, 1), buffer.schema(), buffer.formats());
  };
  EXPECT_EQ(parse(whole).size(), 1);
  for (std::size_t size = 1; size < whole.size(); ++size)
    EXPECT_THROW(parse(whole.substr(0, size)), InputError) << size;
}

TEST(LateFieldsOfBuffer, a_repeated_value_is_accepted_and_a_different_value_is_refused_by_name) {
  const ScratchFolder folder;
  auto buffer = open_in(folder);
  const auto restart = [&] {
    buffer.reset();
    buffer = open_in(folder);
  };
  const auto expect_known = [&](const std::string& when) {
    EXPECT_EQ(add_lines(*buffer, values_line("a", "[1.5,2,3 ]")).duplicates, 1) << when;
    const ErrorReport report = report_of<FieldsError>(
        [&] { add_lines(*buffer, values_line("b") + values_line("a", "[1.5, 2, 4]")); });
    EXPECT_EQ(report.where, "body:2") << when;
    EXPECT_THAT(report.message, HasSubstr("a different value of field 'values' of sample 0 of group 'a'"))
        << when;
  };
  buffer->accept_samples(received(rollout_line("a", 0) + rollout_line("b", 0)));
  EXPECT_THAT(report_of<FieldsError>([&] {
                add_lines(*buffer, values_line("a") + values_line("a", "[1, 1, 1]"));
              }).where,
              "body:2");
  EXPECT_EQ(buffer->status().stream.missing_fields.at("values"), 2)
      << "nothing of a refused request is taken";
  add_lines(*buffer, values_line("a"));
  expect_known("it waits for another field");
  restart();
  expect_known("after a restart");
  EXPECT_EQ(
      add_lines(*buffer, R"({"uid": "a", "index": 0, "values": [1.5, 2, 3], "old_log_probs": [0, 0, 0, 0]})")
          .added,
      1)
      << "one of the two is new";
  form_first(*buffer, 0);
  restart();
  expect_known("in a step");
  EXPECT_THAT(report_of<FieldsError>([&] { add_lines(*buffer, values_line("a", "[0, 0, 0]")); }).message,
              HasSubstr("the sample is in step 0"));
  buffer->mark_trained(0);
  EXPECT_EQ(add_lines(*buffer, values_line("a", "[0, 0, 0]") + values_line("b")).gone, 1) << "trained";
  EXPECT_EQ(buffer->status().stream.missing_fields.at("values"), 0) << "of the other sample";
}

TEST(LateFieldsOfBuffer, survive_a_restart_and_are_removed_with_their_sample) {
  const ScratchFolder folder;
  auto buffer = open_in(folder);
  buffer->accept_samples(received(rollout_line("a", 0)));
  add_lines(*buffer, values_line("a"));
  buffer.reset();
  buffer = open_in(folder);
  add_lines(*buffer, log_probs_line("a"));
  form_first(*buffer, 0);
  buffer.reset();
  buffer = open_in(folder);
  const stream::FormedStep step = buffer->untrained_steps(0).front();
  EXPECT_THAT(body_of(*buffer, step.groups.front().samples.front().arrival),
              HasSubstr(R"(,"values":[1.5,2,3],"old_log_probs":[-1,-2,-3,-4.5]})"));
  const std::int64_t last = buffer->status().stream.formed_step.value();
  buffer->mark_trained(last);
  for (std::int64_t number = 0; number < 10; ++number)
    EXPECT_THROW(body_of(*buffer, number), InputError) << number;
}

TEST(LateFieldsOfBuffer, are_refused_if_no_sample_could_have_them) {
  Buffer buffer(make_memory_store(1 << 20), with_late_fields(1));
  const auto why = [&](const std::string& lines) {
    const ErrorReport report = report_of<InputError>([&] { add_lines(buffer, lines); });
    return report.where + ": " + report.message;
  };
  EXPECT_EQ(why(values_line("a")), "body:1: names sample 0 of group 'a', which has not been received");
  buffer.accept_samples(received(rollout_line("a", 0) + rollout_line("b", 0)));
  EXPECT_THAT(why(values_line("b") + "\n" + values_line("a", "[1, 2]")), HasSubstr("body:3: "));
  EXPECT_THAT(why(values_line("a", "\"high\"")),
              HasSubstr("'values' that cannot be stored as a field: text"));
  EXPECT_THAT(why(R"({"uid": "a", "index": 0, "valeus": 1})"), HasSubstr("body:1: has the field 'valeus'"));
  EXPECT_THAT(why(R"({"uid": "a", "index": 0})"), HasSubstr("body:1: has no field to add"));
  EXPECT_THAT(why(R"({"uid": "a", "index": 0, "values": 1, "values": 1})"), HasSubstr("'values' twice"));
  add_lines(buffer, values_line("a"));
  EXPECT_THAT(why(values_line("b", "1.5")), HasSubstr("'values'")) << "one number per sample, not per token";
  EXPECT_EQ(buffer.status().stream.missing_fields.at("values"), 1);
}

TEST(LateFieldsOfBuffer, are_refused_if_the_job_does_not_accept_their_values) {
  stream::StreamSettings settings = testing_support::groups_of(1);
  settings.late_fields = {"loss_mask"};
  Buffer buffer(make_memory_store(1 << 20), settings);
  static_cast<void>(buffer.begin_job(1));
  buffer.accept_samples(received(rollout_line("a", 0)));
  const ErrorReport report = report_of<InputError>(
      [&] { add_lines(buffer, R"({"uid": "a", "index": 0, "loss_mask": [1, 1, 1, 1]})"); });
  EXPECT_EQ(report.where, "body:1");
  EXPECT_THAT(report.message,
              HasSubstr("field 'loss_mask' has one value per token, but it is not configured"));
  EXPECT_EQ(add_lines(buffer, R"({"uid": "a", "index": 0, "loss_mask": [0, 1, 1]})").added, 1);
}

TEST(LateFieldsOfBuffer, a_sample_that_already_contains_one_is_refused) {
  Buffer buffer(make_memory_store(1 << 20), with_late_fields(1));
  for (const std::string value : {"[1, 2, 3]", "\"high\""}) {
    std::string bringing = rollout_line("a", 0);
    bringing.insert(1, "\"values\": " + value + ", ");
    EXPECT_THAT(report_of<FieldsError>([&] { buffer.accept_samples(received(bringing)); }).message,
                HasSubstr("has the field 'values', which must be added later"));
  }
}

TEST(LateFieldsOfBuffer, cannot_be_changed_while_groups_are_untrained) {
  const ScratchFolder folder;
  open_in(folder)->accept_samples(received(rollout_line("a", 0)));
  EXPECT_THAT(report_of<InputError>([&] { open_in(folder, testing_support::groups_of(1)); }).message,
              HasSubstr("with the late fields old_log_probs, values, but the buffer was started without late "
                        "fields"));
  EXPECT_EQ(open_in(folder)->status().stream.waiting.samples, 1);
}

TEST(LateFieldsOfBuffer, count_toward_the_capacity) {
  Buffer buffer(make_memory_store(4000), with_late_fields(1));
  buffer.accept_samples(received(rollout_line("a", 0, 0, 300)));
  std::string values = "[0";
  for (int i = 1; i < 300; ++i) values += ", " + std::to_string(i) + ".125";
  EXPECT_THROW(add_lines(buffer, values_line("a", values + "]")), FullError);
  EXPECT_EQ(buffer.status().stream.missing_fields.at("values"), 1);
}

TEST(LateFieldsOfBuffer, keep_an_ended_stream_open_until_they_are_received) {
  Buffer buffer(make_memory_store(1 << 20), with_late_fields(1));
  buffer.accept_samples(received(rollout_line("a", 0)));
  buffer.end_stream();
  EXPECT_FALSE(buffer.wait_for_step(0, 0ms).is_over);
  EXPECT_FALSE(buffer.wait_for_groups(1, 1, 0ms).stream.is_exhausted());
  add_lines(buffer, values_line("a") + log_probs_line("a"));
  form_first(buffer, 0);
  buffer.mark_trained(0);
  EXPECT_TRUE(buffer.wait_for_step(1, 0ms).is_over);
}

}  // namespace
}  // namespace evenkeel
