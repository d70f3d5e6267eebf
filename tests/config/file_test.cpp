#include "evenkeel/config/config.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "base/utf8.hpp"
#include "config/fixtures.hpp"
#include "config/refusal.hpp"
#include "config/schema.hpp"
#include "evenkeel/base/error.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using test::parse;

/// Every key with its default, in the format of the design document.
constexpr const char* all_defaults = R"(
mesh:        {tp: 1, cp: 1, pp: 1, vpp: 1, dp: auto, order: tp-cp-dp-pp}      # dp: auto = what remains of the world
source:      {kind: null, path: null, seed: 1}                                # jsonl | synthetic | lengths | embedded
batch:       {global_batch: 256, mini_batches: 1, epochs: 1, shuffle: false, seed: 1, drop_last: false, keep_mini_batch: true, delay_outliers: 0, outlier_length: null, outliers_per_step: null}
balance:     {algorithm: auto, cost: tokens, speeds: equal, equal_count: false, refine: true, strategy: auto, meet: auto, placement: locality, preset: none}
             # algorithm: auto | karmarkar-karp | lpt | sorted-stride | none
micro_batch: {mode: packed, max_tokens: 8192, max_samples: null, max_rows: null, min_count: 1, multiple_of: auto, size: 1, length_round: 64, order: pipeline, packing: auto, count: fewest, shapes: null, shuffle: false}
pack:        {cp_layout: zigzag, align: auto, align_lcm: 1, pad_token: 0, label_pad: -100}
prefix:      {share: false}
loss:        {aggregation: token-mean, micro_batches: sum, dp_ranks: mean}
profiles:    {}
exchange:    {path: auto, prefetch: 1}
watchdog:    {seconds: 60}
)";

TEST(ConfigFile, an_empty_text_gives_all_defaults) {
  EXPECT_EQ(parse(""), Config{});
  EXPECT_EQ(parse("# only a comment\n"), Config{});
}

TEST(ConfigFile, the_printed_defaults_equal_the_defaults) {
  EXPECT_EQ(parse(all_defaults), Config{});
}

TEST(ConfigFile, a_later_text_overrides_an_earlier_one) {
  const std::vector<ConfigText> texts{
      {"micro_batch: {max_tokens: 512, size: 3}\nprofiles: {update: {balance: {refine: false}}}\n",
       "job.yaml"},
      {R"({"micro_batch": {"max_tokens": 1024}, "mesh.tp": 2})", ""}};
  const Config config = parse_config(texts, std::vector<std::string>{"mesh.cp=4"});
  EXPECT_EQ(config.micro_batch.max_tokens, 1024);
  EXPECT_EQ(config.micro_batch.size, 3);
  EXPECT_EQ(config.mesh.tp, 2);
  EXPECT_EQ(config.mesh.cp, 4);
  EXPECT_EQ(config.profile("update").micro_batch.max_tokens, 1024);
  EXPECT_FALSE(config.profile("update").balance.refine);
}

TEST(ConfigFile, without_texts_all_settings_are_defaults) {
  EXPECT_EQ(parse_config(std::span<const ConfigText>{}), Config{});
}

TEST(ConfigFile, settings_outside_of_files_are_named_by_their_keys) {
  const auto where_of = [](const std::string& yaml) -> std::string {
    try {
      (void)parse_config(std::vector<ConfigText>{{yaml, ""}});
    } catch (const ConfigError& error) {
      return error.report().where;
    }
    return "nothing is wrong";
  };
  EXPECT_EQ(where_of(R"({"micro_batch": {"max_tokens": -1}})"), "micro_batch.max_tokens");
  EXPECT_EQ(where_of(R"({"micro_batch": {"max_token": 1}})"), "micro_batch.max_token");
  EXPECT_EQ(where_of(R"({"mesh": {"cp": 4}, "pack": {"align": 3}})"), "pack.align");
}

TEST(ConfigFile, changes_only_the_given_settings) {
  Config expected;
  expected.mesh.tp = 2;
  expected.micro_batch.max_tokens = 16384;
  EXPECT_EQ(parse("mesh: {tp: 2}\nmicro_batch:\n  max_tokens: 16384\n"), expected);
}

TEST(ConfigFile, an_empty_section_changes_nothing) {
  EXPECT_EQ(parse("batch:\n  # global_batch: 4\nmesh: {}\n"), Config{});
}

TEST(ConfigFile, reads_every_kind_of_value) {
  const Config config = parse(
      "mesh: {dp: 4, order: cp-tp-pp-dp}\n"
      "source: {kind: lengths, path: lengths.csv, seed: 18446744073709551615}\n"
      "batch: {shuffle: true}\n"
      "balance: {algorithm: karmarkar-karp, cost: flops-7b}\n"
      "micro_batch: {max_samples: 5, multiple_of: 4, order: plan}\n"
      "pack: {cp_layout: contiguous, align: 16, label_pad: -1}\n"
      "exchange: {path: shared-memory}\n");
  EXPECT_EQ(config.mesh.dp, 4);
  EXPECT_EQ(config.mesh.order, RankOrder("cp-tp-pp-dp"));
  EXPECT_EQ(config.source.kind, SourceKind::lengths);
  EXPECT_EQ(config.source.path, "lengths.csv");
  EXPECT_EQ(config.source.seed, 18446744073709551615u);
  EXPECT_TRUE(config.batch.shuffle);
  EXPECT_EQ(config.balance.algorithm, BalanceAlgorithm::karmarkar_karp);
  EXPECT_EQ(config.balance.cost, CostModel::flops_7b());
  EXPECT_EQ(config.micro_batch.max_samples, 5);
  EXPECT_EQ(config.micro_batch.multiple_of, 4);
  EXPECT_EQ(config.micro_batch.order, MicroBatchOrder::plan);
  EXPECT_EQ(config.pack.cp_layout, CpLayout::contiguous);
  EXPECT_EQ(config.pack.align, 16);
  EXPECT_EQ(config.pack.label_pad, -1);
  EXPECT_EQ(config.exchange.path, ExchangePath::shared_memory);
}

TEST(ConfigFile, speeds_are_numbers_relative_to_each_other) {
  EXPECT_EQ(parse("balance: {speeds: [1, 0.5, 1.25]}").balance.speeds,
            (std::vector<std::int64_t>{1000, 500, 1250}));
  EXPECT_EQ(parse("balance: {speeds: [2e-1, 0.3333, 1000]}").balance.speeds,
            (std::vector<std::int64_t>{200, 333, 1000000}));
  EXPECT_TRUE(parse("balance: {speeds: [1, 2]}", {"balance.speeds=equal"}).balance.speeds.empty());
}

TEST(ConfigFile, micro_batches_may_be_packed_by_name_or_counted_by_time) {
  EXPECT_EQ(parse("micro_batch: {packing: best-fit-decreasing}").micro_batch.packing,
            BinPacking::best_fit_decreasing);
  EXPECT_EQ(parse("micro_batch: {packing: auto, count: fastest}").micro_batch.count, CountRule::fastest);
}

TEST(ConfigOverrides, win_over_the_file_and_the_last_one_wins) {
  const std::string yaml = "mesh: {tp: 2, cp: 2}\n";
  EXPECT_EQ(parse(yaml, {"mesh.tp=4"}).mesh.tp, 4);
  EXPECT_EQ(parse(yaml, {"mesh.tp=4", "mesh.tp=8"}).mesh.tp, 8);
  EXPECT_EQ(parse(yaml, {"mesh.tp=4"}).mesh.cp, 2);
}

TEST(ConfigOverrides, values_are_yaml) {
  EXPECT_EQ(parse("", {"balance.cost={linear: 7, quadratic: 2}"}).balance.cost, (CostModel{7, 2}));
  EXPECT_EQ(parse("micro_batch: {shapes: 3}").micro_batch.shapes, 3);
  EXPECT_EQ(parse("micro_batch: {max_samples: 3}", {"micro_batch.max_samples=null"}).micro_batch.max_samples,
            std::nullopt);
  EXPECT_EQ(parse("", {"source.path=a=b.jsonl"}).source.path, "a=b.jsonl");
  const Config listed = parse("source: {kind: jsonl, path: [a.jsonl, 'b, c.jsonl']}");
  EXPECT_EQ(listed.source.paths(), (std::vector<std::filesystem::path>{"a.jsonl", "b, c.jsonl"}));
  EXPECT_EQ(parse(to_yaml(listed)).source, listed.source);
  EXPECT_TRUE(parse("source: {kind: jsonl, path: [a.jsonl]}").source.more_paths.empty());
}

TEST(ConfigOverrides, may_set_several_keys_of_a_section) {
  const Config config = parse("mesh: {pp: 2}", {"mesh={tp: 2, cp: 4}"});
  EXPECT_EQ(config.mesh.tp, 2);
  EXPECT_EQ(config.mesh.cp, 4);
  EXPECT_EQ(config.mesh.pp, 2);
}

constexpr const char* two_profiles = R"(
micro_batch: {max_tokens: 16384}
profiles:
  log_prob:
  update: {micro_batch: {max_tokens: 4096, max_samples: 8, max_rows: {patches: 64}}, loss: {aggregation: prompt-mean}}
)";

TEST(ConfigProfiles, are_the_jobs_settings_except_for_their_own_keys) {
  const Config config = parse(two_profiles);
  EXPECT_EQ(config.profile("log_prob"), config.profile({}));
  const Profile update = config.profile("update");
  EXPECT_EQ(update.micro_batch.max_tokens, 4096);
  EXPECT_EQ(update.micro_batch.max_samples, 8);
  EXPECT_EQ(update.micro_batch.max_rows.at("patches"), 64);
  EXPECT_EQ(update.loss.aggregation, LossAggregation::prompt_mean);
  EXPECT_EQ(update.balance, config.balance);
  EXPECT_EQ(config.plan_settings({1, 1, 2, 1}, "update").micro_batch.max_tokens, 4096);
}

TEST(ConfigProfiles, start_from_the_final_settings_including_overrides) {
  const Config config = parse(two_profiles, {"micro_batch.max_tokens=32768", "micro_batch.min_count=3",
                                             "profiles.update.micro_batch.max_samples=2"});
  EXPECT_EQ(config.profile("log_prob").micro_batch.max_tokens, 32768);
  EXPECT_EQ(config.profile("update").micro_batch.max_tokens, 4096);
  EXPECT_EQ(config.profile("update").micro_batch.min_count, 3);
  EXPECT_EQ(config.profile("update").micro_batch.max_samples, 2);
}

TEST(ConfigProfiles, may_be_made_by_an_override_alone) {
  EXPECT_EQ(parse("", {"profiles.infer.pack.align_lcm=16"}).profile("infer").pack.align_lcm, 16);
}

TEST(ConfigProfiles, unknown_profiles_are_refused_with_a_list_of_names) {
  try {
    (void)parse(two_profiles).profile("training");
    FAIL() << "a profile nobody has was found";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.report().hint, "The profiles are: log_prob, update");
  }
}

constexpr const char* two_sources = R"(
source: {seed: 5}
sources:
  math: {kind: jsonl, path: math.jsonl, weight: 2.5, epochs: 3}
  made-up: {kind: synthetic, samples: 100}
)";

TEST(ConfigSources, start_from_the_settings_of_source) {
  const Config config = parse(two_sources);
  ASSERT_EQ(config.sources.size(), 2U);
  EXPECT_EQ(config.sources.at("math"),
            (SourceSettings{
                .kind = SourceKind::jsonl, .path = "math.jsonl", .seed = 5, .epochs = 3, .weight = 2500}));
  EXPECT_EQ(config.sources.at("made-up"),
            (SourceSettings{.kind = SourceKind::synthetic, .path = "", .seed = 5, .samples = 100}));
}

TEST(ConfigSources, may_be_changed_and_made_by_overrides) {
  const Config config =
      parse(two_sources, {"sources.math.weight=1", "source.seed=7", "sources.new.kind=synthetic"});
  EXPECT_EQ(config.sources.at("math").weight, 1000);
  EXPECT_EQ(config.sources.at("made-up").seed, 7U);
  EXPECT_EQ(config.sources.at("new").kind, SourceKind::synthetic);
}

TEST(ConfigOverrides, merge_maps_into_those_of_the_file) {
  const Config config = parse("mesh: {tp: 2}\nfields: {a: {wire_dtype: narrow}}",
                              {"mesh={cp: 4}", "fields={b: {wire_dtype: narrow}}"});
  EXPECT_EQ(config.mesh.tp, 2);
  EXPECT_EQ(config.mesh.cp, 4);
  EXPECT_EQ(config.fields.size(), 2U);
}

TEST(ConfigOverrides, empty_maps_remove_entries) {
  const std::string yaml =
      "fields: {a: {wire_dtype: narrow}}\n"
      "profiles: {update: {pack: {pad_token: 7}}, log_prob: {pack: {pad_token: 8}}}\n" +
      std::string(two_sources);
  EXPECT_EQ(parse(yaml, {"fields={}"}).fields.size(), 0U);
  EXPECT_EQ(parse(yaml, {"profiles={}"}).profiles.size(), 0U);
  EXPECT_EQ(parse(yaml, {"sources={}"}).sources.size(), 0U);
  EXPECT_EQ(parse(yaml, {"fields={}", "fields.b.wire_dtype=narrow"}).fields.size(), 1U);
  const Config config = parse(yaml, {"profiles.update={}"});
  EXPECT_EQ(config.profile("update").pack.pad_token, 0);
  EXPECT_EQ(config.profile("log_prob").pack.pad_token, 8);
}

TEST(ConfigSources, round_trip) {
  EXPECT_EQ(parse(to_yaml(parse(two_sources))), parse(two_sources));
}

TEST(ConfigSources, are_listed_in_full) {
  const std::vector<ConfigSetting> settings = list_settings(parse(two_sources));
  EXPECT_EQ(std::ranges::count(settings, ConfigSetting{"sources.math.weight", "2.5"}), 1);
  EXPECT_EQ(std::ranges::count(settings, ConfigSetting{"sources.made-up.seed", "5"}), 1);
}

TEST(ConfigSources, mix_sources_within_each_mini_batch) {
  EXPECT_TRUE(parse(two_sources).plan_settings({1, 1, 1, 1}).mini_batches.shuffle);
  EXPECT_FALSE(parse("{}").plan_settings({1, 1, 1, 1}).mini_batches.shuffle);
}

TEST(ConfigYaml, defaults_round_trip) {
  EXPECT_EQ(parse(to_yaml(Config{})), Config{});
}

TEST(ConfigYaml, every_changed_member_round_trips) {
  const Config config = test::changed_config();
  EXPECT_EQ(parse(to_yaml(config)), config);
}

TEST(ConfigYaml, shared_prefixes_round_trip) {
  Config config;
  for (const PrefixSharing sharing : {PrefixSharing::prompts, PrefixSharing::trees}) {
    config.prefix = sharing;
    EXPECT_EQ(parse(to_yaml(config)), config);
  }
  config.max_path_tokens = 4096;
  config.segment_schedule = SegmentSchedule::depth_first;
  config.max_kept_tokens = 1024;
  config.balance.meet = SyncPoint::step;
  EXPECT_EQ(parse(to_yaml(config)), config);
  EXPECT_EQ(parse("prefix: {share: true}").prefix, PrefixSharing::prompts);
  EXPECT_EQ(parse("prefix: {share: tree}").prefix, PrefixSharing::trees);
}

TEST(ConfigYaml, speeds_measured_costs_and_ways_of_packing_round_trip) {
  const Config config = test::measured_config();
  EXPECT_EQ(parse(to_yaml(config)), config);
}

TEST(ConfigYaml, flexible_groups_and_caps_per_rank_round_trip) {
  const Config config = test::flexible_config();
  EXPECT_EQ(parse(to_yaml(config)), config);
  EXPECT_EQ(
      parse("mesh: {cp: flexible, dp: 8}\nbalance: {meet: step}\nmicro_batch: {max_tokens_per_rank: 64}")
          .plan_settings({1, 1, 8, 1})
          .strategy,
      StrategySettings(ContextTreeSettings{8}));
}

TEST(ConfigMesh, flexible_groups_are_planned_for_how_ranks_meet) {
  const auto strategy = [](const std::string& balance, int pp = 1) {
    return parse("mesh: {cp: flexible, pp: " + std::to_string(pp) + "}\nbalance: {" + balance +
                 "}\nmicro_batch: {max_tokens_per_rank: 64}")
        .plan_settings({1, 1, 4, pp})
        .strategy;
  };
  const StrategySettings tree = ContextTreeSettings{4};
  const StrategySettings waves = ContextWavesSettings{4};
  EXPECT_EQ(strategy("meet: step"), tree);
  EXPECT_EQ(strategy("meet: micro-batch"), waves);
  EXPECT_EQ(strategy("meet: step, strategy: grid"), waves);
  EXPECT_EQ(strategy("", 2), waves);  // the only strategy that a pipeline can run
  EXPECT_EQ(strategy("meet: step", 2), waves);
}

TEST(ConfigMesh, flexible_groups_are_refused_if_balance_meet_is_not_set) {
  EXPECT_THAT(test::refusal("mesh: {cp: flexible}\nmicro_batch: {max_tokens_per_rank: 64}"),
              testing::AllOf(testing::HasSubstr("balance.meet: is not set"),
                             testing::HasSubstr("Set balance.meet: step")));
}

TEST(ConfigMesh, sizes_of_groups_are_powers_of_two) {
  const auto flexible = [](const std::string& mesh) {
    return parse("mesh: {cp: flexible, " + mesh +
                 "}\nbalance: {meet: step}\nmicro_batch: {max_tokens_per_rank: 64}")
        .plan_settings({1, 1, 7, 1})
        .largest_group();
  };
  EXPECT_EQ(flexible("dp: 7"), 4);
  EXPECT_EQ(flexible("dp: 7, max_cp: 2"), 2);
  EXPECT_THROW((void)flexible("dp: 7, max_cp: 6"), ConfigError);
}

TEST(ConfigCap, is_counted_over_the_group_or_on_each_rank) {
  const auto cap = [](const std::string& yaml, std::vector<std::string> overrides = {}) {
    return parse_config(yaml, "job.yaml", overrides).plan_settings({1, 4, 2, 1}).micro_batch.max_tokens;
  };
  EXPECT_EQ(cap("micro_batch: {max_tokens: 1000}"), 1000);
  EXPECT_EQ(cap("micro_batch: {max_tokens_per_rank: 1000}"), 4000);
  EXPECT_EQ(cap("micro_batch: {max_tokens: auto, max_tokens_per_rank: 1000}"), 4000);
  EXPECT_EQ(cap("micro_batch: {max_tokens_per_rank: 1000, max_tokens: auto}"), 4000);
  EXPECT_EQ(cap("micro_batch: {max_tokens: 1000}", {"micro_batch.max_tokens_per_rank=2000"}), 8000);
  EXPECT_EQ(cap("micro_batch: {max_tokens_per_rank: 1000}", {"micro_batch.max_tokens=2000"}), 2000);
}

TEST(ConfigYaml, words_may_be_quoted_as_json_has_them) {
  EXPECT_EQ(parse(R"({"mesh": {"dp": "auto", "cp": "flexible"}, "pack": {"align": "auto"},)"
                  R"( "balance": {"meet": "step"},)"
                  R"( "micro_batch": {"max_tokens": "auto", "max_tokens_per_rank": 64}})"),
            parse("{mesh: {cp: flexible}, balance: {meet: step}, micro_batch: {max_tokens_per_rank: 64}}"));
}

TEST(ConfigCap, is_given_once_and_not_left_out) {
  EXPECT_THROW((void)parse("micro_batch: {max_tokens: 8192, max_tokens_per_rank: 1000}"), ConfigError);
  EXPECT_THROW((void)parse("profiles: {a: {micro_batch: {max_tokens: 8192, max_tokens_per_rank: 1000}}}"),
               ConfigError);
  EXPECT_THROW((void)parse("micro_batch: {max_tokens: auto}"), ConfigError);
  const std::vector<std::string> none{"micro_batch.max_tokens_per_rank=null"};
  EXPECT_THROW((void)parse_config("micro_batch: {max_tokens_per_rank: 1000}", "job.yaml", none), ConfigError);
  EXPECT_THROW((void)parse("mesh: {cp: flexible}"), ConfigError);
}

TEST(ConfigYaml, is_canonical) {
  const std::string yaml = to_yaml(test::changed_config());
  EXPECT_EQ(to_yaml(parse(yaml)), yaml);
}

TEST(ConfigYaml, no_key_of_the_changed_configuration_still_has_its_default) {
  Config config = test::changed_config();
  config.profiles.clear();  // whose lines are placed between those of other sections
  config.fields.clear();
  std::istringstream changed(to_yaml(config));
  std::istringstream defaults(to_yaml(Config{}));
  std::size_t keys = 0;
  for (std::string left, right; std::getline(changed, left) && std::getline(defaults, right);) {
    if (!left.starts_with("  ")) continue;
    // These cannot be combined with the rest of that configuration.
    const std::set<std::string> stays_off{
        "  share: false", "  speeds: equal", "  packing: auto", "  count: fewest", "  equal_counts: always",
        "  max_rows: null", "  shapes: null", "  max_cp: auto", "  overhead: auto", "  max_path_tokens: null",
        "  schedule: packed", "  max_kept_tokens: null", "  max_tokens_per_rank: null",
        "  communication: auto", "  stage: last", "  read_as: null", "  at: null", "  spread_pads: 0",
        // No samples arrive in that configuration.
        "  listen: \"127.0.0.1:8710\"", "  dir: null", "  store: lmdb", "  name: \"default\"",
        "  redis_password_file: null", "  capacity: 8GiB", "  token_file: null", "  ca_file: null",
        "  group_size: auto", "  min_group: auto", "  deadline: auto", "  ticket_deadline: auto",
        "  max_staleness: auto", "  on_stale: auto", "  patience: null", "  look_ahead: 0", "  version: step",
        "  late_fields: []", "  take_over: false", "  share: none"};
    EXPECT_EQ(left == right, stays_off.contains(left)) << left;
    ++keys;
  }
  EXPECT_EQ(keys, 105u);
}

RC_GTEST_PROP(ConfigYaml, any_path_round_trips, ()) {
  Config config;
  const auto character = rc::gen::element<std::string>(
      "a", " ", "'", "\"", "\\", "#", ": ", "\n", "\r", "\t", "\x01", "\x04", "\x1b[2J", "\x7f", "\xc2\x85",
      "\xc2\x9b", "\xc2\xa0", "\xc3\xa9", "\xe2\x80\xa8", "\xef\xbb\xbf", "\xf0\x9f\x9a\xa2");
  std::string path;
  for (const std::string& part : *rc::gen::container<std::vector<std::string>>(character)) path += part;
  config.source.path = path;
  const std::string yaml = to_yaml(config);
  RC_ASSERT(parse(yaml).source.path == config.source.path);
  // It contains no control characters that a terminal would interpret.
  std::string one_line = yaml;
  std::ranges::replace(one_line, '\n', ' ');
  RC_ASSERT(printable(one_line) == one_line);
}

TEST(ConfigYaml, a_value_that_has_no_word_is_refused_by_its_key) {
  Config config;
  config.balance.algorithm = static_cast<BalanceAlgorithm>(77);
  try {
    (void)to_yaml(config);
    FAIL() << "77 was given a word";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.report().where, "balance.algorithm");
    EXPECT_EQ(error.report().message,
              "contains a value that is not one of: auto, karmarkar-karp, lpt, sorted-stride, none");
  }
}

std::set<std::string> differing_keys(const Config& one, const Config& other) {
  const std::vector<ConfigSetting> left = list_settings(one);
  const std::vector<ConfigSetting> right = list_settings(other);
  std::set<std::string> keys;
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    EXPECT_EQ(left[i].path, right[i].path);
    if (left[i] != right[i]) keys.insert(left[i].path);
  }
  return keys;
}

// Ranks compare their configurations by this list, so a difference in a key that is missing from it would go
// unnoticed.
TEST(ConfigSettings, list_every_key_but_named_sections) {
  std::set<std::string> all;
  for (const ConfigKey& key : config_keys()) all.insert(key.path);
  std::set<std::string> listed{"profiles", "sources", "fields"};
  Config shared;
  shared.prefix = PrefixSharing::trees;
  shared.max_path_tokens = 7;
  shared.segment_schedule = SegmentSchedule::depth_first;
  shared.max_kept_tokens = 7;
  shared.balance.strategy = Strategy::grid;
  shared.micro_batch.count = CountRule::fastest;
  shared.micro_batch.equal_counts = EqualCounts::automatic;
  for (Config config : {test::changed_config(), test::measured_config(), test::flexible_config(),
                        test::arriving_config(), shared}) {
    config.profiles.clear();
    config.fields.clear();
    listed.merge(differing_keys(Config{}, config));
  }
  EXPECT_EQ(listed, all) << "a new key needs another value in config_fixtures.hpp";
}

TEST(ConfigSettings, list_all_settings_of_each_profile) {
  Config config = parse("profiles: {a: {}, b: {loss: {norm_length: 5}}}");
  const std::vector<ConfigSetting> settings = list_settings(config);
  const auto has = [&](const std::string& path, const std::string& value) {
    return std::ranges::find(settings, ConfigSetting{path, value}) != settings.end();
  };
  EXPECT_TRUE(has("profiles.b.loss.norm_length", "5"));
  EXPECT_TRUE(has("profiles.a.loss.norm_length", "1"));
  EXPECT_TRUE(has("profiles.a.micro_batch.max_tokens", "8192"));
  EXPECT_FALSE(has("profiles.a.mesh.tp", "1"));
}

RC_GTEST_PROP(ConfigYaml, any_cost_round_trips, ()) {
  Config config;
  const auto coefficient = rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 61);
  config.balance.cost = {*coefficient, *coefficient + 1};
  RC_ASSERT(parse(to_yaml(config)).balance.cost == config.balance.cost);
}

TEST(ConfigFiles, all_shipped_files_load) {
  std::size_t loaded = 0;
  for (const auto& entry : std::filesystem::directory_iterator(EVENKEEL_SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".yaml") continue;
    EXPECT_NO_THROW(static_cast<void>(load_config(entry.path()))) << entry.path();
    ++loaded;
  }
  EXPECT_GE(loaded, 3u);
}

TEST(ConfigFiles, the_quickstart_is_the_main_job) {
  const Config config = load_config(EVENKEEL_SOURCE_DIR "/configs/quickstart.yaml");
  EXPECT_EQ(config.grid(8).sizes(), (GridPoint{.tp = 2, .cp = 2, .dp = 2, .pp = 1}));
  EXPECT_EQ(config.source.kind, SourceKind::synthetic);
  EXPECT_EQ(config.micro_batch.max_tokens, 8192);
  EXPECT_EQ(config.pack.cp_layout, CpLayout::zigzag);
}

class ConfigFrom : public testing::Test {
 protected:
  ConfigFrom() { testing_support::write_text(job(), "mesh: {tp: 2}\nbatch: {epochs: 3}\n"); }

  [[nodiscard]] std::filesystem::path job() const { return scratch_ / "job.yaml"; }
  static void expect_read(const std::filesystem::path& file) {
    const std::vector<std::string> overrides{"batch.epochs=5"};
    const Config config = load_config(file, overrides);
    EXPECT_EQ(config.mesh.tp, 2) << file;
    EXPECT_EQ(config.batch.epochs, 5) << file;
  }
  static Error refusal(const std::filesystem::path& file) {
    try {
      (void)load_config(file);
    } catch (const Error& error) {
      return error;
    }
    throw std::logic_error(file.string() + " was accepted");
  }

  testing_support::ScratchFolder scratch_;
};

TEST_F(ConfigFrom, reads_files_links_and_read_only_files) {
  expect_read(job());
  std::filesystem::create_symlink(job(), scratch_ / "link.yaml");
  expect_read(scratch_ / "link.yaml");
  std::filesystem::permissions(job(), std::filesystem::perms::owner_read);
  expect_read(job());
}

// As with a shell's <(...) and a named pipe: the file can only be read once.
TEST_F(ConfigFrom, reads_a_pipe) {
  const std::filesystem::path pipe = scratch_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::jthread writer([&] { std::ofstream(pipe) << testing_support::read_text(job()); });
  expect_read(pipe);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const std::string text = testing_support::read_text(job());
  ASSERT_EQ(write(ends[1], text.data(), text.size()), std::ssize(text));
  close(ends[1]);
  expect_read("/dev/fd/" + std::to_string(ends[0]));
  close(ends[0]);
}

TEST_F(ConfigFrom, a_file_without_keys_is_refused_unless_it_is_an_empty_map) {
  for (const char* text : {"", "\n", "# comment only\n", "---\n", "null", "\xef\xbb\xbf"}) {
    testing_support::write_text(job(), text);
    EXPECT_EQ(refusal(job()).report().kind, ErrorKind::config) << text;
    EXPECT_EQ(refusal(job()).report().where, job().string());
    EXPECT_EQ(refusal(job()).report().message, "contains no keys: it is empty or has only comments");
  }
  testing_support::write_text(job(), "{}");
  EXPECT_EQ(load_config(job()), Config{});
}

TEST_F(ConfigFrom, an_unreadable_file_is_refused_with_the_reason) {
  EXPECT_EQ(refusal(scratch_ / "none").report().message,
            "cannot open the configuration: No such file or directory");
  EXPECT_EQ(refusal("/dev/fd/987").report().hint.substr(0, 46),
            "A launcher such as mpirun does not pass the sh");
  EXPECT_EQ(refusal("/dev/zero").report().message,
            "is larger than 1048576 bytes, the limit for a configuration");
}

}  // namespace
}  // namespace evenkeel
