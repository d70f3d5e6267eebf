#include "evenkeel/service/service_state.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/hash.hpp"
#include "evenkeel/base/error.hpp"
#include "support/error_message.hpp"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ServiceState made_up_state() {
  ServiceState state;
  state.next_step = 12;
  state.job = "a-job_7";
  state.mesh = {2, 1, 4, 1};
  state.settings = list_settings(Config{});
  state.sources = {{"rollouts.jsonl", 4096, 1 << 20, 0xfedcba9876543210}};
  state.order = 0x123456789abcdef0;
  state.costs["update"] = {1.0 / 3, 2e-9, 1e-13, 640};
  state.costs["groups"] = {1e-3, 2e-9, 0, 64, 1.0 / 3e9, 0.0};
  state.shapes = {{4096, 66, 8192}, {3072, 20, 6144}};
  return state;
}

/// Returns the text with a corrected checksum, as an attacker would write it.
std::string with_right_checksum(std::string text) {
  const std::size_t rest = text.find('\n', 2) + 1;
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4)
    digits += "0123456789abcdef"[fnv1a_64(std::string_view(text).substr(rest)) >> shift & 15];
  return text.replace(text.find(": \"") + 3, 16, digits);
}

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  const std::size_t place = text.find(part);
  EXPECT_NE(place, std::string::npos) << part;
  return text.replace(place, part.size(), by);
}

std::string refusal_of(const std::string& text) {
  try {
    (void)parse_state(text, "job/evenkeel-state.json");
  } catch (const InputError& error) {
    EXPECT_EQ(error.report().where, "job/evenkeel-state.json");
    return error.report().message;
  }
  ADD_FAILURE() << "it was read: " << text;
  return {};
}

TEST(ServiceState, of_an_older_version_without_communication_round_trips) {
  ServiceState state = made_up_state();
  state.costs.erase("groups");
  const std::string text = to_text(state);
  EXPECT_EQ(text.find("_node"), std::string::npos);
  EXPECT_EQ(parse_state(text, "a state"), state);
}

TEST(ServiceState, omits_undetermined_communication) {
  const std::string text = to_text(made_up_state());
  const std::string broken = replaced(text, "\"between_nodes\": 0.0", "\"between_nodes\": -1.0");
  EXPECT_THAT(refusal_of(with_right_checksum(broken)),
              HasSubstr("'between_nodes' that is neither 0 nor from"));
}

TEST(ServiceState, of_an_older_version_without_shapes_round_trips) {
  ServiceState state = made_up_state();
  state.shapes.clear();
  const std::string text = to_text(state);
  EXPECT_EQ(text.find("shapes\": ["), std::string::npos);
  EXPECT_EQ(parse_state(text, "a state"), state);
}

TEST(ServiceState, compares_full_digests_if_both_states_have_them) {
  const ServiceState of_before = made_up_state();
  ServiceState state = of_before;
  state.sources[0].whole = 0xabcdef;
  EXPECT_EQ(parse_state(to_text(state), "a state"), state);
  EXPECT_THAT(differences(of_before, state), IsEmpty());
  ServiceState changed = state;
  ++*changed.sources[0].whole;
  EXPECT_THAT(differences(state, changed), ElementsAre(HasSubstr("has different content")));
}

TEST(ServiceState, has_no_shape_without_rows) {
  const std::string broken = replaced(to_text(made_up_state()), "\"rows\": 4096", "\"rows\": 0");
  EXPECT_THAT(refusal_of(with_right_checksum(broken)),
              HasSubstr("a shape has a 'rows' that is not an integer from 1"));
}

TEST(ServiceState, round_trips_through_text) {
  EXPECT_EQ(parse_state(to_text(made_up_state()), "a state"), made_up_state());
  EXPECT_EQ(parse_state(to_text(ServiceState{}), "a state"), ServiceState{});
}

TEST(ServiceState, does_not_grow_with_its_sources) {
  ServiceState state = made_up_state();
  state.next_step = std::int64_t{1} << 61;
  state.sources[0].samples = state.sources[0].bytes = std::numeric_limits<std::int64_t>::max();
  EXPECT_LT(to_text(state).size(), 4096U);
}

TEST(ServiceState, reports_a_remedy_if_it_would_be_too_large) {
  ServiceState state = made_up_state();
  state.sources.assign(1000, state.sources[0]);
  EXPECT_THROW((void)to_text(state), LimitError);
}

TEST(ServiceState, refuses_truncated_and_modified_text) {
  const std::string text = to_text(made_up_state());
  for (std::size_t size = 0; size < text.size(); ++size) {
    const std::string why = refusal_of(text.substr(0, size));
    EXPECT_THAT(why, testing::AnyOf(HasSubstr("not a state"), HasSubstr("was truncated or modified")));
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const int bit : {0, 3, 7}) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      (void)refusal_of(flipped);
    }
  }
}

TEST(ServiceState, refuses_hostile_text_with_the_place) {
  const std::string text = to_text(made_up_state());
  const auto refused = [&](const std::string& part, const std::string& by) {
    return refusal_of(with_right_checksum(replaced(text, part, by)));
  };
  EXPECT_THAT(refused("\"next_step\": 12", "\"next_step\": -1"), HasSubstr("next_step"));
  EXPECT_THAT(refused("\"next_step\": 12", "\"next_step\": 18446744073709551615"), HasSubstr("next_step"));
  EXPECT_THAT(refused("\"next_step\": 12", "\"next_step\": 1e300"), HasSubstr("next_step"));
  EXPECT_THAT(refused("\"next_step\": 12", "\"next_step\": [12]"), HasSubstr("next_step"));
  EXPECT_THAT(refused("\"next_step\": 12,", ""), HasSubstr("has no next_step"));
  EXPECT_THAT(refused("a-job_7", "../../etc"), HasSubstr("job"));
  EXPECT_THAT(refused("\"dp\": 4", "\"dp\": 0"), HasSubstr("dp"));
  EXPECT_THAT(refused("\"dp\": 4", "\"dp\": 2000000000"), HasSubstr("dp"));
  EXPECT_THAT(refused("fedcba9876543210", "fedcba987654321g"), HasSubstr("digest"));
  EXPECT_THAT(refused("fedcba9876543210", "+edcba9876543210"), HasSubstr("digest"));
  EXPECT_THAT(refused("\"samples\": 4096", "\"samples\": -4096"), HasSubstr("samples"));
  EXPECT_THAT(refused("\"linear\": 2e-09", "\"linear\": 1e300"), HasSubstr("linear"));
  EXPECT_THAT(refused("\"linear\": 2e-09", "\"linear\": -2e-09"), HasSubstr("linear"));
  EXPECT_THAT(refused("\"linear\": 2e-09", "\"linear\": null"), HasSubstr("linear"));
  EXPECT_THAT(refused("\"evenkeel_state\": 1", "\"evenkeel_state\": 2"),
              AllOf(HasSubstr("version 2"), HasSubstr("supports version 1")));
}

TEST(ServiceState, is_never_read_beyond_its_maximum_size) {
  EXPECT_THAT(refusal_of(std::string(ServiceState::max_bytes + 1, '[')), HasSubstr("at most 65536"));
  std::string deep = "{\n \"checksum\": \"0000000000000000\",\n";
  deep += std::string(ServiceState::max_bytes - deep.size(), '[');
  EXPECT_THAT(refusal_of(with_right_checksum(deep)), HasSubstr("is not a state"));
}

TEST(Differences, between_a_job_and_itself_are_empty) {
  EXPECT_THAT(differences(made_up_state(), made_up_state()), IsEmpty());
}

/// Returns the state of the same job with these keys changed.
ServiceState with_settings(const std::string& yaml) {
  ServiceState state = made_up_state();
  state.settings = list_settings(parse_config(yaml, "test"));
  return state;
}

TEST(Differences, ignore_the_mesh_the_exchange_and_file_names) {
  ServiceState now = with_settings(
      "{mesh: {tp: 2, cp: 4}, exchange: {prefetch: 3, path: point-to-point}, source: {path: elsewhere}}");
  now.mesh = {1, 8, 2, 1};
  now.next_step = 0;
  now.sources[0].name = "elsewhere";
  EXPECT_THAT(differences(made_up_state(), now), IsEmpty());
}

TEST(Differences, ignore_the_delivery_which_does_not_affect_the_plan) {
  EXPECT_THAT(differences(made_up_state(), with_settings("pack: {deliver: samples}")), IsEmpty());
  const std::string delayed =
      "{source: {kind: synthetic}, batch: {delay_outliers: 4, outlier_length: 2000, outliers_per_step: 2}";
  EXPECT_THAT(
      differences(with_settings(delayed + "}"), with_settings(delayed + ", pack: {deliver: samples}}")),
      IsEmpty());
}

TEST(Differences, name_the_key_both_values_and_the_effect_on_steps) {
  EXPECT_THAT(differences(made_up_state(), with_settings("batch: {seed: 9}")),
              ElementsAre("batch.seed was 1 and is now 9 (steps would repeat some samples and skip others)"));
  EXPECT_THAT(differences(made_up_state(), with_settings("micro_batch: {max_tokens: 100}")),
              ElementsAre(AllOf(HasSubstr("max_tokens was 8192 and is now 100"),
                                HasSubstr("different micro-batches"))));
  EXPECT_THAT(differences(made_up_state(), with_settings("loss: {aggregation: token-sum}")),
              ElementsAre(HasSubstr("different weights in the loss")));
}

TEST(Differences, report_added_and_changed_profiles) {
  const ServiceState before = with_settings("profiles: {update: {loss: {aggregation: token-sum}}}");
  const ServiceState after = with_settings("profiles: {update: {loss: {aggregation: token-mean}}}");
  EXPECT_THAT(differences(before, after),
              ElementsAre(AllOf(HasSubstr("profiles.update.loss.aggregation"), HasSubstr("weights"))));
  EXPECT_THAT(differences(made_up_state(), after), testing::Contains(HasSubstr("was not set and is now")));
}

TEST(Differences, report_how_a_source_changed) {
  const auto error_after = [](auto change) {
    ServiceState now = made_up_state();
    change(now);
    const std::vector<std::string> found = differences(made_up_state(), now);
    return found.size() == 1 ? found[0] : std::to_string(found.size()) + " differences";
  };
  EXPECT_THAT(error_after([](ServiceState& s) { s.sources[0].samples = 5000; }),
              HasSubstr("rollouts.jsonl had 4096 samples and now has 5000"));
  EXPECT_THAT(error_after([](ServiceState& s) { s.sources[0].bytes = 7; }),
              HasSubstr("1048576 bytes and now has 7"));
  EXPECT_THAT(error_after([](ServiceState& s) { ++s.sources[0].digest; }),
              HasSubstr("has different content"));
  EXPECT_THAT(error_after([](ServiceState& s) { s.sources.clear(); }),
              HasSubstr("had 1 source and now has 0 ("));
  EXPECT_THAT(error_after([](ServiceState& s) { ++s.order; }), HasSubstr("different samples of the sources"));
}

}  // namespace
}  // namespace evenkeel
