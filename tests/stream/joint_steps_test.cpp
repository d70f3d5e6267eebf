// Several ledgers of which a job makes its steps.
#include "stream/joint_steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "support/error_message.hpp"

namespace evenkeel::stream::joint_steps_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

const std::array<std::string, 2> names{"http://a", "http://b"};

WaitingGroup group(const std::string& uid, std::int64_t arrival, std::int64_t version = 0) {
  return {uid, arrival, 0, {{arrival, 0, 1, 2, version, 100}}};
}

std::vector<std::string> uids_of(const std::vector<WaitingGroup>& groups) {
  std::vector<std::string> uids;
  for (const WaitingGroup& of : groups) uids.push_back(std::get<std::string>(of.uid));
  return uids;
}

TEST(JointSteps, take_groups_of_each_ledger_in_turn) {
  const std::vector<std::vector<WaitingGroup>> waiting{{group("a1", 7), group("a2", 8), group("a3", 9)},
                                                       {group("b1", 7)}};
  const std::vector<WaitingGroup> joint = joint_groups(waiting, names);
  EXPECT_THAT(uids_of(joint), ElementsAre("a1", "b1", "a2", "a3"));
  EXPECT_NE(joint[0].samples[0].arrival, joint[1].samples[0].arrival)
      << "both are arrival 7 of their ledgers";
}

TEST(JointSteps, are_refused_where_a_group_waits_in_two_ledgers) {
  const std::vector<std::vector<WaitingGroup>> waiting{{group("q1", 1)}, {group("x", 1), group("q1", 5)}};
  EXPECT_THAT(testing_support::message_of([&] { (void)joint_groups(waiting, names); }),
              AllOf(HasSubstr("group 'q1'"), HasSubstr("http://a"), HasSubstr("http://b")));
}

TEST(JointSteps, fall_into_parts_that_each_ledger_knows_and_are_whole_again) {
  const std::vector<std::vector<WaitingGroup>> waiting{{group("a1", 7), group("a2", 8)}, {group("b1", 7)}};
  const std::vector<WaitingGroup> joint = joint_groups(waiting, names);
  const StepFormed step{3, 5, {{"a1", 1}, {"b1", 1}}, {joint[1].samples[0].arrival}, {{"a2", 2}}};
  const std::vector<StepFormed> parts = parts_of(step, joint, std::array<std::int64_t, 2>{5, 5});
  EXPECT_EQ(parts[0], (StepFormed{3, 5, {{"a1", 1}}, {}, {{"a2", 2}}}));
  EXPECT_EQ(parts[1], (StepFormed{3, 5, {{"b1", 1}}, {7}, {}}));

  const std::vector<FormedStep> formed{{3, 5, {waiting[0][0]}, {}}, {3, 5, {waiting[1][0]}, {7}}};
  const FormedStep whole = joint_step(formed);
  EXPECT_THAT(whole.groups, ElementsAre(joint[0], joint[1]));
  EXPECT_THAT(whole.masked, ElementsAre(joint[1].samples[0].arrival));
}

TEST(JointSteps, may_leave_a_ledger_without_groups) {
  const std::vector<std::vector<WaitingGroup>> waiting{{}, {group("b1", 1)}};
  const std::vector<WaitingGroup> joint = joint_groups(waiting, names);
  const auto parts = parts_of({0, 0, {{"b1", 1}}, {}, {}}, joint, std::array<std::int64_t, 2>{0, 0});
  EXPECT_THAT(parts, ElementsAre(Field(&StepFormed::groups, IsEmpty()),
                                 Field(&StepFormed::groups, ElementsAre(FormedGroup{"b1", 1}))));
}

TEST(JointSteps, of_one_ledger_are_its_own) {
  const std::vector<std::vector<WaitingGroup>> waiting{{group("a1", 7), group("a2", 9)}};
  EXPECT_EQ(joint_groups(waiting, std::array<std::string, 1>{"http://a"}), waiting[0]);
  const FormedStep step{0, 0, waiting[0], {9}};
  EXPECT_EQ(joint_step(std::array{step}), step);
}

}  // namespace
}  // namespace evenkeel::stream::joint_steps_test
