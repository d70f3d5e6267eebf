#include "stream/event.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/error_message.hpp"

namespace evenkeel::stream {
namespace {

TEST(StreamEvent, is_the_same_after_json_and_messagepack) {
  const std::vector<Event::What> kinds{
      SampleAccepted{{std::string("q1"), 3}, 1, 2, 3, 4, 0xfedcba98, "worker 7"},
      SampleAccepted{{std::int64_t{-7}, 0}, 0, 0, 0, 0},
      SampleAccepted{{~std::uint64_t{0}, 0}, 0, 0, 0, 0},
      FieldsAdded{{std::string("q1"), 3}, 60, {{"values", 7}, {"old_log_probs", 0xfedcba98}}},
      DuplicatesReported{2},
      GroupClosed{std::string(""), true},
      GroupAborted{std::int64_t{7}, 5, "timeout"},
      GroupAborted{std::int64_t{7}, std::nullopt, ""},
      VersionPublished{9},
      SamplesDropped{{4, 5}, DropReason::too_small},
      TicketsGranted{3, 1'700'000'000'000, 1'700'000'600'000, "worker 7", "request 1"},
      TicketsExpired{1'700'000'600'000, 2},
      StepFormed{4, 9, {{std::string("q1"), 4}}, {12}, {{std::string("q2"), 6}}},
      StepTrained{4},
      StepTrained{9, true},
      StreamEnded{}};
  std::int64_t number = 0;
  for (const Event::What& what : kinds) {
    const Event event{++number, what};
    EXPECT_EQ(parse_event(to_json(event)), event);
    EXPECT_EQ(parse_event(nlohmann::json::from_msgpack(nlohmann::json::to_msgpack(to_json(event)))), event);
  }
}

TEST(StreamEvent, describes_invalid_json) {
  const auto why = [](const char* text) {
    return testing_support::message_of([&] { (void)parse_event(nlohmann::json::parse(text)); });
  };
  EXPECT_EQ(why("[]"), "stream event: is not an object. Restore the store from a backup");
  EXPECT_EQ(why(R"({"event": "ended"})"), "stream event: has no 'number'. Restore the store from a backup");
  EXPECT_EQ(why(R"({"number": 1.5, "event": "ended"})"),
            "stream event: 'number' is not a 64-bit integer. Restore the store from a backup");
  EXPECT_EQ(why(R"({"number": 9223372036854775808, "event": "ended"})"),
            "stream event: 'number' is not a 64-bit integer. Restore the store from a backup");
  EXPECT_EQ(why(R"({"number": 1, "event": "granted", "groups": 9223372036854775807})"),
            "stream event: 'groups' is 9223372036854775807; its absolute value must be at most "
            "9007199254740992. Restore the store from a backup");
  EXPECT_EQ(why(R"({"number": 1, "event": "begun"})"),
            "stream event: is of an unknown kind, 'begun'. Use the version of Evenkeel that wrote the store");
  EXPECT_EQ(why(R"({"number": 1, "event": "fields", "uid": 1, "index": 0, "bytes": 0, "content": 3})"),
            "stream event: 'content' is not an object. Restore the store from a backup");
  EXPECT_EQ(
      why(R"({"number": 1, "event": "fields", "uid": 1, "index": 0, "bytes": 0, "content": {"v": 4294967296}})"),
      "stream event: 'v' is 4294967296, which is not a 32-bit hash. Restore the store from a backup");
  EXPECT_EQ(why(R"({"number": 1, "event": "closed", "uid": null, "by_deadline": 0})"),
            "stream event: 'uid' is neither a string nor a 64-bit integer. Restore the store from a backup");
  EXPECT_EQ(why(R"({"number": 1, "event": "closed", "uid": "q", "by_deadline": 0})"),
            "stream event: 'by_deadline' is neither true nor false. Restore the store from a backup");
  EXPECT_EQ(why(R"({"number": 1, "event": "dropped", "arrivals": [1], "reason": "bored"})"),
            "stream event: has an unknown reason 'bored'. Use the version of Evenkeel that wrote the store");
  EXPECT_EQ(why(R"({"number": 1, "event": "dropped", "arrivals": 1, "reason": "late"})"),
            "stream event: 'arrivals' is not a list. Restore the store from a backup");
}

}  // namespace
}  // namespace evenkeel::stream
