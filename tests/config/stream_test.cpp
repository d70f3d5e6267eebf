// The section `stream`: samples that arrive while the job trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/fixtures.hpp"
#include "config/refusal.hpp"

namespace evenkeel {
namespace {

using test::parse;
using test::refusal;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* own = "source: {kind: stream}\nstream: {dir: kept}\n";
constexpr const char* other = "source: {kind: stream, path: 'http://127.0.0.1:8710'}\n";

TEST(ConfigStream, has_settings_for_samples_that_arrive) {
  const ArrivalSettings stream =
      parse(own, {"stream.listen='[::1]:0'", "stream.capacity=512MiB", "stream.group_size=8",
                  "stream.min_group=4", "stream.deadline=600", "stream.ticket_deadline=60",
                  "stream.max_staleness=2", "stream.on_stale=mask", "stream.patience=0.5",
                  "stream.look_ahead=3", "stream.version=trainer", "stream.late_fields=[values]"})
          .stream;
  EXPECT_EQ(stream.listen, "[::1]:0");
  EXPECT_EQ(stream.capacity, std::int64_t{512} << 20);
  EXPECT_EQ(stream.group_size, 8);
  EXPECT_EQ(stream.min_group, 4);
  EXPECT_EQ(stream.deadline, 600);
  EXPECT_EQ(stream.ticket_deadline, 60);
  EXPECT_EQ(stream.max_staleness, 2);
  EXPECT_EQ(stream.on_stale, OnStale::mask);
  EXPECT_EQ(stream.patience, 0.5);
  EXPECT_EQ(stream.look_ahead, 3);
  EXPECT_TRUE(stream.versions_by_trainer);
  EXPECT_THAT(stream.late_fields, ElementsAre("values"));
}

TEST(ConfigStream, round_trips) {
  const Config config = parse(own, {"stream.capacity=1000000001", "stream.deadline=0.25",
                                    "stream.patience=1e-3", "stream.token_file=/t", "stream.on_stale=drop",
                                    "stream.min_group=1", "stream.late_fields=[old_log_probs, values]"});
  EXPECT_EQ(parse(to_yaml(config)), config);
  EXPECT_EQ(parse(to_yaml(parse(other))), parse(other));
}

TEST(ConfigStream, lists_late_fields_once) {
  EXPECT_EQ(refusal(own, {"stream.late_fields=[]"}), "accepted");
  EXPECT_THAT(refusal(own, {"stream.late_fields=[a, a]"}), HasSubstr("names 'a' twice"));
  EXPECT_THAT(refusal(own, {"stream.late_fields=values"}), HasSubstr("a list of distinct field names"));
}

TEST(ConfigStream, excludes_settings_of_the_jobs_own_buffer_if_it_names_another) {
  EXPECT_EQ(refusal(other), "accepted");
  for (const char* key : {"listen='127.0.0.1:1'", "dir=kept", "store=memory", "capacity=1GiB", "name=math",
                          "redis_password_file=/p", "late_fields=[values]"}) {
    EXPECT_THAT(refusal(other, {std::string("stream.") + key}),
                AllOf(HasSubstr("applies only to the job's own buffer"), HasSubstr("source.path")))
        << key;
  }
  EXPECT_THAT(refusal(own, {"stream.ca_file=/ca"}),
              HasSubstr("stream.ca_file: is only used with an https buffer"));
  EXPECT_THAT(refusal(other, {"stream.ca_file=/ca"}),
              HasSubstr("stream.ca_file: is only used with an https buffer"));
}

TEST(ConfigStream, requires_a_token_if_other_machines_can_reach_the_jobs_own_buffer) {
  EXPECT_THAT(refusal(own, {"stream.listen=0.0.0.0:8710"}),
              HasSubstr("stream.listen: is 0.0.0.0:8710, which other machines can reach, but "
                        "stream.token_file is not set"));
  EXPECT_EQ(refusal(own, {"stream.listen=0.0.0.0:8710", "stream.token_file=/token"}), "accepted");
  EXPECT_EQ(refusal(own, {"stream.listen='[::1]:8710'"}), "accepted");
}

TEST(ConfigStream, refuses_several_buffers_and_suggests_redis) {
  EXPECT_THAT(
      refusal("source: {kind: stream, path: ['http://a:1', 'https://b:2']}\n"),
      AllOf(HasSubstr("source.path"), HasSubstr("must be given alone, not in a list"), HasSubstr("Redis")));
  EXPECT_EQ(refusal("source: {kind: jsonl, path: [a, b]}\n"), "accepted");
}

TEST(ConfigStream, requires_a_place_for_samples_of_the_jobs_own_buffer) {
  EXPECT_THAT(refusal("source: {kind: stream}"),
              AllOf(HasSubstr("stream.dir: is not set"), HasSubstr("memory")));
  EXPECT_EQ(refusal("source: {kind: stream}\nstream: {store: memory}"), "accepted");
  EXPECT_THAT(refusal(own, {"stream.store=memory"}), HasSubstr("stream.dir: is set, but stream.store"));
}

TEST(ConfigStream, may_keep_samples_in_a_redis) {
  const std::string redis = "source: {kind: stream}\nstream: {store: 'redis://h:1', name: math}\n";
  EXPECT_EQ(parse(redis).stream.store, "redis://h:1");
  EXPECT_EQ(parse(to_yaml(parse(redis))), parse(redis));
  EXPECT_THAT(refusal(redis, {"stream.dir=kept"}), HasSubstr("stream.dir: is set, but stream.store"));
  EXPECT_THAT(refusal(redis, {"stream.name=a/b"}), HasSubstr("stream.name=a/b: expected 1 to 100 letters"));
  EXPECT_THAT(refusal(redis, {"stream.store=redis"}), HasSubstr("stream.store=redis: expected lmdb, memory"));
  EXPECT_THAT(refusal(own, {"stream.name=math"}),
              AllOf(HasSubstr("stream.name: applies only to Redis"), HasSubstr("stream.store is lmdb")));
}

TEST(ConfigStream, may_have_a_spool_whose_samples_outlive_the_job) {
  EXPECT_EQ(refusal(own, {"source.path=spool"}), "accepted");
  EXPECT_THAT(refusal("source: {kind: stream, path: spool}\nstream: {store: memory}"),
              AllOf(HasSubstr("stream.store: is memory"), HasSubstr("source.path")));
}

TEST(ConfigStream, needs_batches_of_whole_groups) {
  EXPECT_THAT(
      refusal(own, {"stream.group_size=7"}),
      AllOf(HasSubstr("batch.global_batch: is 256"), HasSubstr("is not a multiple of stream.group_size, 7")));
  EXPECT_THAT(refusal(own, {"stream.group_size=8", "stream.min_group=9"}), HasSubstr("stream.min_group"));
}

TEST(ConfigStream, is_refused_without_arriving_samples) {
  EXPECT_THAT(refusal("source: {kind: synthetic}\nstream: {look_ahead: 1}"),
              AllOf(HasSubstr("stream: has settings"), HasSubstr("source.kind is not stream")));
  EXPECT_THAT(refusal("sources: {a: {kind: stream, path: 'http://127.0.0.1:1'}}"),
              HasSubstr("sources.a.kind: is stream, which section sources cannot contain"));
}

TEST(ConfigStream, is_written_in_JSON_too) {
  const ArrivalSettings stream =
      parse(R"({"source": {"kind": "stream"}, "stream": {"dir": "kept", "capacity": "16MiB"}})").stream;
  EXPECT_EQ(stream.capacity, std::int64_t{16} << 20);
}

TEST(ConfigStream, names_invalid_values) {
  EXPECT_THAT(refusal(own, {"stream.capacity='16777216'"}), HasSubstr("a number of bytes"));
  EXPECT_THAT(refusal(own, {"stream.listen=8710"}), HasSubstr("an address with a port"));
  EXPECT_THAT(refusal(own, {"stream.listen='127.0.0.1:70000'"}),
              HasSubstr("expected an address with a port from 0 to 65535, such as 127.0.0.1:8710, found"));
  EXPECT_THAT(refusal(own, {"stream.capacity=8GB"}), HasSubstr("a number of bytes"));
  EXPECT_THAT(refusal(own, {"stream.capacity=1KiB"}), HasSubstr("out of range; allowed: 1MiB to 1024TiB"));
  EXPECT_THAT(refusal(own, {"stream.patience=-1"}), HasSubstr("out of range"));
  EXPECT_THAT(refusal(own, {"stream.patience=soon"}), HasSubstr("a number of seconds or null"));
}

}  // namespace
}  // namespace evenkeel
