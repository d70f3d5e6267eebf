// Tests samples that no job accepts, and samples that the current job does not accept.
#include "buffer/intake/acceptance.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "buffer/buffer.hpp"
#include "buffer/rollout_lines.hpp"
#include "evenkeel/base/error.hpp"
#include "support/error_message.hpp"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing_support::groups_of;
using testing_support::message_of;
using testing_support::received;
using testing_support::rollout_line;

/// Returns a sample with a prompt of two tokens, a response of three, and additional fields.
std::string line_with(const std::string& fields, const std::string& uid = "a", int index = 0) {
  return R"({"uid": ")" + uid + R"(", "index": )" + std::to_string(index) +
         R"(, "version": 0, "prompt_ids": [5, 6], "response_ids": [7, 8, 9], )" + fields + "}\n";
}

TEST(Acceptance, fields_that_no_job_accepts_are_refused_before_a_job_begins_and_do_not_fix_the_schema) {
  Buffer buffer(make_memory_store(1 << 20), groups_of(1));
  const std::pair<const char*, const char*> rejectd[] = {
      {R"("position_ids": [0.5, 1, 2, 3, 4])", "field 'position_ids' is a float32 token field"},
      {R"("position_ids": [0, 1, 2])", "field 'position_ids' is an int64 response_token field"},
      {R"("labels": [7.5, 8, 9])", "field 'labels' is a float32 response_token field"},
      {R"("labels": 7)", "field 'labels' is an int64 sample field"},
      {R"("loss_mask": 1)", "field 'loss_mask' is an int64 sample field"},
      {R"("sample_index": 3)", "field 'sample_index' has a name that is reserved for Evenkeel's own tensors"},
      {R"("cu_seqlens": [1, 2, 3])", "field 'cu_seqlens' has a name"},
      {R"("loss_weights": [1, 2, 3])", "field 'loss_weights' has a name"}};
  for (const auto& [fields, why] : rejectd) {
    EXPECT_THAT(
        message_of([&] { buffer.accept_samples(received(line_with(fields) + line_with(fields, "b"))); }),
        AllOf(HasSubstr("body:1: "), HasSubstr(why)));
  }
  const std::string good = R"("position_ids": [0, 1, 2, 3, 4], "labels": [7, 8, 9], "loss_mask": [0, 1, 1])";
  EXPECT_EQ(buffer.accept_samples(received(line_with(good))).accepted, 1)
      << "the refused ones have fixed no fields";
}

TEST(Acceptance, samples_that_the_current_job_does_not_accept_are_refused_with_their_line) {
  Buffer buffer(make_memory_store(1 << 20), groups_of(4));
  const std::string before = line_with(R"("loss_mask": [1, 0, 1, 1, 0], "segment_ids": [-1, 0, 0, 0, 0])");
  buffer.accept_samples(received(before));
  const std::string good = R"("loss_mask": [0, 1, 1, 1, 0], "segment_ids": [0, 0, 1, 1, 1])";
  Acceptance acceptance;
  acceptance.max_tokens = 5;
  acceptance.shares_prompts = true;
  acceptance.has_trees = true;
  acceptance.at = {{"loss_mask", RowConvention::next}};
  const std::string pass = buffer.begin_job(1, {.acceptance = acceptance});
  const auto why = [&](const std::string& fields) {
    return message_of(
        [&] { buffer.accept_samples(received(line_with(good, "b") + line_with(fields, "b", 1))); });
  };
  EXPECT_THAT(
      why(R"("loss_mask": [1, 0, 1, 1, 0], "segment_ids": [0, 0, 1, 1, 1])"),
      AllOf(HasSubstr("body:2: "), HasSubstr("loss_mask is set at row 0"), HasSubstr("prefix.share")));
  EXPECT_THAT(why(R"("loss_mask": [0, 1, 1, 1, 0], "segment_ids": [0, 0, -7, 1, 1])"),
              AllOf(HasSubstr("body:2: "), HasSubstr("segment_ids contain -7")));
  EXPECT_EQ(buffer.accept_samples(received(line_with(good, "b"))).accepted, 1);
  EXPECT_EQ(buffer.accept_samples(received(before)).duplicates, 1)
      << "it was acknowledged before the job began";
  buffer.leave_job(pass);
  const std::string wrong = R"("loss_mask": [1, 1, 1, 1, 1], "segment_ids": [0, 0, 0, 0, -9])";
  EXPECT_EQ(buffer.accept_samples(received(line_with(wrong, "b", 1))).accepted, 1)
      << "the next job may accept it";
}

TEST(Acceptance, samples_above_the_jobs_cap_are_refused_and_do_not_form_a_step) {
  Buffer buffer(make_memory_store(1 << 20), groups_of(1));
  buffer.accept_samples(received(rollout_line("before", 0, 0, 9)));  // 10 tokens
  static_cast<void>(buffer.begin_job(1, {.acceptance = {.max_tokens = 8}}));
  EXPECT_THAT(
      message_of([&] { buffer.accept_samples(received(rollout_line("a", 0) + rollout_line("b", 0, 0, 8))); }),
      AllOf(HasSubstr("body:2: has 9 tokens; the job accepts at most 8"),
            HasSubstr("micro_batch.max_tokens")));
  EXPECT_EQ(buffer.accept_samples(received(rollout_line("b", 0, 0, 7))).accepted, 1);
  EXPECT_THAT(message_of([&] {
                buffer.form_step({0, 0, {{"before", 1}}, {}, {}});
              }),
              AllOf(HasSubstr("step 0: cannot be built: sample 0 of group 'before' has 10 tokens"),
                    HasSubstr("/abort with {\"index\": 0}")));
  EXPECT_FALSE(buffer.status().stream.formed_step) << "nothing was written down";
  buffer.abort_group("before", 0, "too long");
  buffer.form_step({0, 0, {{"b", 1}}, {}, {}});
}

TEST(Acceptance, values_of_earlier_samples_are_checked_before_a_step_is_recorded) {
  Buffer buffer(make_memory_store(1 << 20), groups_of(1));
  buffer.accept_samples(received(line_with(R"("loss_mask": [1, 0, 1, 1, 0])")));
  buffer.accept_samples(received(line_with(R"("loss_mask": [0, 0, 1, 1, 0])", "b")));
  static_cast<void>(buffer.begin_job(
      1, {.acceptance = {.shares_prompts = true, .at = {{"loss_mask", RowConvention::next}}}}));
  EXPECT_THAT(message_of([&] {
                buffer.form_step({0, 0, {{"a", 1}}, {}, {}});
              }),
              HasSubstr("sample 0 of group 'a' is invalid: its loss_mask is set at row 0"));
  buffer.form_step({0, 0, {{"b", 1}}, {}, {}});
}

TEST(Acceptance, values_of_tokens_follow_the_conventions_that_the_job_declares) {
  Buffer buffer(make_memory_store(1 << 20), groups_of(1));
  const std::string as_in_hugging_face = R"("loss_mask": [0, 0, 1, 1, 1])";
  EXPECT_THAT(
      message_of([&] {
        buffer.accept_samples(received(line_with(R"("loss_mask": [1, 1, 1], "response_mask": [1, 1, 1])")));
      }),
      HasSubstr("'response_mask' and 'loss_mask'"));
  buffer.accept_samples(received(line_with(as_in_hugging_face, "before")));
  const std::string first = buffer.begin_job(1);
  const auto refusal = [&](const std::string& uid) {
    return message_of([&] { buffer.accept_samples(received(line_with(as_in_hugging_face, uid))); });
  };
  EXPECT_THAT(refusal("a"), AllOf(HasSubstr("body:1: is invalid: field 'loss_mask' has one value per token"),
                                  HasSubstr("Set fields.loss_mask.at: token")));
  EXPECT_THAT(message_of([&] {
                buffer.form_step({0, 0, {{"before", 1}}, {}, {}});
              }),
              HasSubstr("sample 0 of group 'before' is invalid: field 'loss_mask' has one value per token"));
  static_cast<void>(
      buffer.begin_job(1, {.takes_over = true, .acceptance = {.at = {{"loss_mask", RowConvention::next}}}}));
  EXPECT_THAT(refusal("b"), HasSubstr("is set at the last row, 4, which does not predict a token"));
  static_cast<void>(buffer.begin_job(
      1, {.takes_over = true,
          .acceptance = {.shares_prompts = true, .at = {{"loss_mask", RowConvention::token}}}}));
  EXPECT_EQ(buffer.accept_samples(received(line_with(as_in_hugging_face, "c"))).accepted, 1);
  buffer.form_step({0, 0, {{"before", 1}, {"c", 1}}, {}, {}});
}

TEST(Acceptance, a_group_of_a_formed_step_that_cannot_be_built_can_leave_it) {
  Buffer buffer(make_memory_store(1 << 20), groups_of(1));
  buffer.accept_samples(received(rollout_line("long", 0, 0, 9)));
  buffer.accept_samples(received(rollout_line("b", 0)));
  const std::string first = buffer.begin_job(2);
  buffer.form_step({0, 0, {{"long", 1}, {"b", 1}}, {}, {}}, first);
  EXPECT_THAT(message_of([&] { buffer.abort_formed_group("long", ""); }),
              HasSubstr("job 1: may still be running and may already have the step"));
  buffer.leave_job(first);
  const std::string job = buffer.begin_job(2, {.acceptance = {.max_tokens = 8}});
  EXPECT_THAT(message_of([&] { static_cast<void>(buffer.wait_for_step(0, 0ms)); }),
              AllOf(HasSubstr("step 0: cannot be built: sample 0 of group 'long' has 10 tokens"),
                    HasSubstr("/abort with {\"in_step\": true}")));
  EXPECT_EQ(buffer.abort_group("long", std::nullopt, ""), 0) << "an ordinary abort changes no step";
  buffer.leave_job(job);
  EXPECT_THAT(
      message_of([&] { buffer.abort_formed_group("long", std::string(stream::max_reason_bytes + 1, 'x')); }),
      HasSubstr("reason: has"));
  buffer.abort_formed_group("long", "too long");
  EXPECT_THROW(buffer.abort_formed_group("long", "again"), InputError);
  static_cast<void>(buffer.begin_job(2, {.acceptance = {.max_tokens = 8}}));
  const std::vector<stream::WaitingGroup> groups = buffer.wait_for_step(0, 0ms).step->groups;
  ASSERT_EQ(groups.size(), 1);
  EXPECT_EQ(groups[0].uid, Uid("b"));
  buffer.mark_trained(0);
  EXPECT_EQ(buffer.accept_samples(received(rollout_line("long", 0, 0, 9))).duplicates, 1);
}

TEST(Acceptance, samples_with_the_same_segments_but_different_tokens_do_not_form_a_step) {
  Buffer buffer(make_memory_store(1 << 20), groups_of(2));
  static_cast<void>(buffer.begin_job(1, {.acceptance = {.has_trees = true}}));
  const auto send = [&](const std::string& uid, const std::string& response, const std::string& segments) {
    static std::map<std::string, int> next;
    buffer.accept_samples(received(R"({"uid": ")" + uid + R"(", "index": )" + std::to_string(next[uid]++) +
                                   R"(, "version": 0, "prompt_ids": [5, 6], "response_ids": )" + response +
                                   R"(, "segment_ids": )" + segments + "}\n"));
  };
  send("good", "[7, 8]", "[0, 0, 1, 1]");
  send("good", "[7, 9]", "[0, 0, 1, 2]");
  send("bad", "[7, 8]", "[0, 0, 1, 1]");
  send("bad", "[7, 9]", "[0, 0, 1, 1]");
  EXPECT_THAT(
      message_of([&] {
        buffer.form_step({0, 0, {{"good", 2}, {"bad", 2}}, {}, {}});
      }),
      AllOf(
          HasSubstr("step 0: cannot be built: sample 1 of group 'bad' has the same segment_ids up to row 3"),
          HasSubstr("Give segments with different tokens different numbers")));
  buffer.form_step({0, 0, {{"good", 2}}, {}, {}});
}

TEST(Acceptance, survives_a_round_trip_through_json) {
  const Acceptance acceptance{8, {{"patches", 7}}, true, true, 2, {{"labels", RowConvention::next}}};
  EXPECT_EQ(parse_acceptance(json_of(acceptance)), acceptance);
  EXPECT_EQ(parse_acceptance(nlohmann::json::object()), Acceptance());
  EXPECT_THROW(parse_acceptance(nlohmann::json{{"max_tokens", "many"}}), InputError);
  EXPECT_THROW(parse_acceptance(nlohmann::json{{"max_rows", 3}}), InputError);
  EXPECT_THROW(parse_acceptance(nlohmann::json{{"at", {{"labels", "here"}}}}), InputError);
}

}  // namespace
}  // namespace evenkeel
