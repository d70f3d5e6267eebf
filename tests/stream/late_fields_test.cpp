#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stream/ledger.hpp"
#include "stream_events.hpp"
#include "support/error_message.hpp"

namespace evenkeel::stream {
namespace {

using Names = std::vector<std::string>;
using testing::HasSubstr;
using testing_support::message_of;

const Uid uid_a = std::string("a");
const Uid uid_b = std::string("b");

StreamSettings with_late_fields(std::int64_t group_size) {
  StreamSettings settings = groups_of(group_size);
  settings.late_fields = {"values", "old_log_probs"};
  return settings;
}

FieldsAdded fields(const Uid& uid, std::int64_t index, std::map<std::string, std::uint32_t> content) {
  return {{uid, index}, 50, std::move(content)};
}

TEST(LateFields, a_group_is_ready_when_the_last_field_of_its_last_sample_has_come) {
  Keeper keeper(with_late_fields(2));
  for (const Uid& uid : {uid_a, uid_b})
    for (const std::int64_t index : {0, 1}) keeper.tell(sample(uid, index));
  keeper.tell(fields(uid_a, 0, {{"values", 1}, {"old_log_probs", 2}}));
  keeper.tell(fields(uid_a, 1, {{"values", 3}}));
  EXPECT_EQ(names(keeper.ledger.ready()), Names{});
  EXPECT_EQ(keeper.ledger.status().missing_fields,
            (std::map<std::string, std::int64_t>{{"old_log_probs", 3}, {"values", 2}}));
  keeper.tell(fields(uid_b, 0, {{"values", 1}, {"old_log_probs", 2}}));
  keeper.tell(fields(uid_b, 1, {{"values", 1}, {"old_log_probs", 2}}));
  const std::int64_t last = keeper.tell(fields(uid_a, 1, {{"old_log_probs", 4}}));
  EXPECT_EQ(names(keeper.ledger.ready()), (Names{"'b'", "'a'"})) << "in the order in which they became ready";
  EXPECT_EQ(keeper.ledger.ready()[1].ready, last);
  EXPECT_EQ(keeper.restarted().ready(), keeper.ledger.ready());
}

TEST(LateFields, are_freed_with_their_sample) {
  Keeper keeper(with_late_fields(1));
  keeper.tell(sample(uid_a, 0));
  keeper.tell(fields(uid_a, 0, {{"values", 1}}));
  keeper.tell(fields(uid_a, 0, {{"old_log_probs", 2}}));
  EXPECT_EQ(keeper.ledger.status().bytes, 200);
  keeper.form(0, 1);
  EXPECT_EQ(std::ssize(keeper.ledger.fields_added_to(1)), 2) << "a step may be made again";
  keeper.tell(StepTrained{0});
  EXPECT_EQ(keeper.ledger.status().bytes, keeper.ledger.status().seen_bytes);
  EXPECT_TRUE(keeper.ledger.fields_added_to(1).empty());
  keeper.tell(sample(uid_b, 0));
  keeper.tell(fields(uid_b, 0, {{"values", 1}}));
  keeper.tell(GroupAborted{uid_b, 0, "timeout"});
  EXPECT_EQ(keeper.ledger.status().bytes, keeper.ledger.status().seen_bytes);
  EXPECT_EQ(keeper.ledger.status().missing_fields.at("old_log_probs"), 0);
  EXPECT_EQ(std::ssize(keeper.events), 1) << "the step that was formed last";
}

TEST(LateFields, a_deadline_drops_the_samples_that_lack_a_field_even_of_a_closed_group) {
  StreamSettings settings = with_late_fields(3);
  settings.min_group = 1;
  Keeper keeper(settings);
  keeper.tell(sample(uid_a, 0));
  keeper.tell(sample(uid_a, 1));
  keeper.tell(fields(uid_a, 1, {{"values", 3}, {"old_log_probs", 4}}));
  keeper.tell(fields(uid_a, 0, {{"values", 3}}));
  keeper.tell(GroupClosed{uid_a});
  EXPECT_EQ(names(keeper.ledger.ready()), Names{}) << "its fields may still come";
  keeper.tell(GroupClosed{uid_a, true});
  ASSERT_EQ(names(keeper.ledger.ready()), Names{"'a'"});
  EXPECT_EQ(keeper.ledger.ready()[0].samples.size(), 1);
  EXPECT_EQ(dropped(keeper.ledger, DropReason::late), 1);
  EXPECT_EQ(keeper.restarted().status(), keeper.ledger.status());
  EXPECT_EQ(keeper.ledger.find_sample({uid_a, 0}), nullptr);
}

TEST(LateFields, may_come_after_the_end_of_the_stream) {
  Keeper keeper(with_late_fields(1));
  keeper.tell(sample(uid_a, 0));
  keeper.tell(StreamEnded{});
  EXPECT_FALSE(keeper.ledger.status().is_exhausted());
  keeper.tell(fields(uid_a, 0, {{"values", 3}, {"old_log_probs", 4}}));
  EXPECT_TRUE(keeper.ledger.status().is_exhausted());
  EXPECT_EQ(names(keeper.ledger.ready()), Names{"'a'"});
}

TEST(LateFields, are_refused_by_name_unless_the_sample_waits_and_lacks_them) {
  Keeper keeper(with_late_fields(1));
  const auto rejection_reason = [&](FieldsAdded what) {
    return message_of([&] { keeper.tell(std::move(what)); });
  };
  EXPECT_THAT(rejection_reason(fields(uid_a, 0, {{"values", 1}})),
              HasSubstr("sample 0 of 'a' is not waiting"));
  keeper.tell(sample(uid_a, 0));
  EXPECT_THAT(rejection_reason(fields(uid_a, 0, {{"value", 1}})),
              HasSubstr("'value' of sample 0 of 'a' is not a late field"));
  keeper.tell(fields(uid_a, 0, {{"values", 1}}));
  EXPECT_THAT(rejection_reason(fields(uid_a, 0, {{"values", 1}})),
              HasSubstr("'values' of sample 0 of 'a' was already added"));
  keeper.tell(fields(uid_a, 0, {{"old_log_probs", 1}}));
  keeper.form(0, 1);
  EXPECT_THAT(rejection_reason(fields(uid_a, 0, {{"old_log_probs", 1}})), HasSubstr("is not waiting"));
}

TEST(LateFields, have_names_that_no_sample_brings) {
  const auto rejection_reason = [](std::vector<std::string> late_fields) {
    StreamSettings settings = groups_of(1);
    settings.late_fields = std::move(late_fields);
    return message_of([&] { settings.validate(); });
  };
  EXPECT_THAT(rejection_reason({"values", "version"}),
              HasSubstr("lists 'version', which belongs to the sample itself"));
  EXPECT_THAT(rejection_reason({"values", "values"}), HasSubstr("lists 'values' twice"));
  EXPECT_THAT(rejection_reason({""}), HasSubstr("lists an empty name"));
}

}  // namespace
}  // namespace evenkeel::stream
