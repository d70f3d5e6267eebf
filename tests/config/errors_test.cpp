#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "config/refusal.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"

namespace evenkeel {
namespace {

using test::refusal;
using testing::StartsWith;

TEST(ConfigUnknownKey, names_the_line_and_the_keys_of_its_section) {
  EXPECT_THAT(refusal("mesh: {tp: 2}\nmicro_batch:\n  max_token: 4096\n"),
              StartsWith("job.yaml:3: micro_batch.max_token: unknown key. Valid keys: micro_batch.mode, "
                         "micro_batch.max_tokens, "));
  EXPECT_EQ(refusal("prefix: {colour: 4}\n"),
            "job.yaml:1: prefix.colour: unknown key. Valid keys: prefix.share, prefix.max_path_tokens, "
            "prefix.schedule, prefix.max_kept_tokens");
}

TEST(ConfigUnknownKey, outside_of_sections_lists_all_sections) {
  EXPECT_EQ(refusal("telemetry: true\n"),
            "job.yaml:1: telemetry: unknown key. Sections: mesh, source, sources, stream, batch, field, "
            "fields, balance, "
            "micro_batch, pack, "
            "prefix, loss, profiles, exchange, watchdog");
}

TEST(ConfigUnknownKey, a_key_has_no_subkeys) {
  EXPECT_EQ(refusal("", {"micro_batch.max_tokens.x=1"}).substr(0, 52),
            "--set micro_batch.max_tokens.x=1: unknown key. Valid");
}

TEST(ConfigDelay, requires_every_setting_that_determines_the_samples_of_a_step) {
  const std::string source = "source: {kind: synthetic}\nbatch: {delay_outliers: 4";
  EXPECT_EQ(
      refusal(source + "}"),
      "job.yaml: batch.outlier_length: is not set, but batch.delay_outliers needs it, since no other key "
      "defines which samples are outliers. Set it to the length above which a sample is an outlier");
  EXPECT_EQ(refusal(source + ", outlier_length: 512}"),
            "job.yaml: batch.outliers_per_step: is not set, but batch.delay_outliers needs it, since no "
            "other key defines how many outliers share a step. Set it to the number of DP ranks");
  EXPECT_EQ(refusal(source + ", outlier_length: 512, outliers_per_step: 8}"), "accepted");
}

TEST(ConfigDelay, is_refused_with_incompatible_settings_and_the_reason) {
  const auto with = [](const std::string& others) {
    return refusal(
        "batch: {delay_outliers: 4, outlier_length: 512, outliers_per_step: 2}\n"
        "source: {kind: synthetic}\n" +
        others);
  };
  EXPECT_THAT(with("mesh: {cp: flexible}\nmicro_batch: {max_tokens_per_rank: 4096}"),
              testing::HasSubstr("a long sample gets a larger group"));
  EXPECT_THAT(with("prefix: {share: true}"),
              testing::HasSubstr("would separate samples that share a prefix"));
  EXPECT_THAT(with("balance: {cost: measured}"), testing::HasSubstr("differs from run to run"));
  EXPECT_THAT(with("balance: {speeds: [1, 0.5]}"), testing::HasSubstr("depend on the machines"));
  EXPECT_THAT(with("balance: {cost: {model: tokens, encoder: {field: patches, linear: 4}}}"),
              testing::HasSubstr("on a field of the samples, which is not known"));
  EXPECT_EQ(with("micro_batch: {max_tokens_per_rank: 4096}"), "accepted");
  EXPECT_EQ(with("balance: {strategy: grid}"), "accepted");
}

TEST(ConfigDelay, requires_samples_that_evenkeel_reads) {
  const std::string batch = "batch: {delay_outliers: 4, outlier_length: 512, outliers_per_step: 2}";
  const std::string why = "job.yaml: batch.delay_outliers: needs samples that Evenkeel reads";
  EXPECT_THAT(refusal(batch), testing::StartsWith(why));
  EXPECT_THAT(refusal(batch + "\nsource: {kind: embedded}"), testing::StartsWith(why));
}

TEST(ConfigShapes, are_refused_if_invalid_or_incompatible_with_the_reason) {
  EXPECT_THAT(refusal("micro_batch: {shapes: 0}"), testing::HasSubstr("allowed: 1 to 256, or null"));
  EXPECT_THAT(refusal("micro_batch: {shapes: 2}\nprofiles: {update: {micro_batch: {shapes: 3}}}"),
              testing::HasSubstr("micro_batch.shapes: differs between profiles"));
  EXPECT_THAT(refusal("micro_batch: {shapes: 1}\nprofiles: {update: {micro_batch: {max_tokens: 512}}}"),
              testing::HasSubstr("micro_batch.shapes: is 1, but 2 shapes are required"));
  EXPECT_THAT(refusal("micro_batch: {shapes: 8}\nprefix: {share: true}"),
              testing::HasSubstr("prefix.share: true or tree cannot be combined with micro_batch.shapes"));
  EXPECT_EQ(refusal("micro_batch: {shapes: 2}\nprofiles: {update: {micro_batch: {max_tokens: 512}}}"),
            "accepted");
}

TEST(ConfigSources, that_cannot_be_mixed_are_refused_with_the_place) {
  EXPECT_THAT(refusal("sources: {a: {kind: jsonl}}\n"), testing::HasSubstr("sources.a.path: is missing"));
  EXPECT_THAT(refusal("sources: {a: {weight: 2}}\n"),
              testing::HasSubstr("sources.a.kind: is not set. Set it to jsonl, "));
  EXPECT_THAT(refusal("{source: {path: b}, sources: {a: {kind: synthetic}}}\n"),
              testing::HasSubstr("source.path: is set together with sources"));
  EXPECT_THAT(refusal("sources: {a: {kind: synthetic, weight: 0}}\n"),
              testing::HasSubstr("sources.a.weight"));
  EXPECT_THAT(refusal("sources: {a: {cost: 2}}\n"),
              testing::AllOf(testing::HasSubstr("is not a key of a source. Valid keys: "),
                             testing::HasSubstr("samples")));
  EXPECT_THAT(refusal("sources: {'a b': {kind: synthetic}}\n"),
              testing::HasSubstr("is not a valid name for a source"));
}

TEST(ConfigWrongType, says_what_was_expected_and_found) {
  EXPECT_EQ(
      refusal("micro_batch: {max_tokens: 8kb}"),
      "job.yaml:1: micro_batch.max_tokens: expected a number of tokens (32768 or 32k) or auto, found 8kb");
  EXPECT_EQ(
      refusal("micro_batch: {max_tokens: 1.5}"),
      "job.yaml:1: micro_batch.max_tokens: expected a number of tokens (32768 or 32k) or auto, found 1.5");
  EXPECT_EQ(
      refusal("micro_batch: {max_tokens: null}"),
      "job.yaml:1: micro_batch.max_tokens: expected a number of tokens (32768 or 32k) or auto, found null");
  EXPECT_EQ(
      refusal("micro_batch:\n  max_tokens:\n"),
      "job.yaml:2: micro_batch.max_tokens: expected a number of tokens (32768 or 32k) or auto, found null");
  EXPECT_EQ(
      refusal("micro_batch: {max_tokens: [1, 2]}"),
      "job.yaml:1: micro_batch.max_tokens: expected a number of tokens (32768 or 32k) or auto, found a list");
  EXPECT_EQ(refusal("micro_batch: {max_tokens: \"8192\"}"),
            "job.yaml:1: micro_batch.max_tokens: expected a number of tokens (32768 or 32k) or auto, found "
            "the quoted text \"8192\"");
  EXPECT_EQ(refusal("micro_batch: {max_samples: many}"),
            "job.yaml:1: micro_batch.max_samples: expected an integer or null, found many");
  EXPECT_EQ(refusal("mesh: {dp: {}}"), "job.yaml:1: mesh.dp: expected an integer or auto, found a map");
  EXPECT_EQ(refusal("batch: {shuffle: yes}"), "job.yaml:1: batch.shuffle: expected true or false, found yes");
  EXPECT_EQ(refusal("source: {path: {}}"), "job.yaml:1: source.path: expected a path, found a map");
  EXPECT_THAT(refusal("source: {kind: jsonl, path: [a, b, a]}"), testing::HasSubstr("names a twice"));
  EXPECT_THAT(refusal("source: {kind: jsonl, path: [a, {}]}"),
              testing::HasSubstr("expected a list of files"));
  EXPECT_THAT(refusal("source: {kind: megatron, path: [a, b]}"),
              testing::HasSubstr("is a list, but only jsonl and safetensors read several files"));
  EXPECT_EQ(refusal("source: {kind: [jsonl]}"),
            "job.yaml:1: source.kind: a list is not one of: jsonl, synthetic, "
            "lengths, megatron, safetensors, dump, stream, embedded");
  EXPECT_EQ(refusal("mesh: {order: [tp, cp]}"),
            "job.yaml:1: mesh.order: expected tp, cp, dp and pp in any order, joined "
            "by -, found a list");
  EXPECT_EQ(refusal("profiles: [a]"), "job.yaml:1: profiles: expected a map, found a list");
  EXPECT_EQ(refusal("batch: {mini_batches: few}"),
            "job.yaml:1: batch.mini_batches: expected an integer, found few");
}

TEST(ConfigWrongType, a_number_in_another_notation_is_refused) {
  EXPECT_EQ(refusal("mesh: {tp: 0x2}"), "job.yaml:1: mesh.tp: expected an integer, found 0x2");
  EXPECT_EQ(refusal("mesh: {tp: 1_000}"), "job.yaml:1: mesh.tp: expected an integer, found 1_000");
  EXPECT_EQ(parse_config("mesh: {tp: 010}", "job.yaml").mesh.tp, 10);
  EXPECT_EQ(parse_config("mesh: {tp: +2}", "job.yaml").mesh.tp, 2);
}

TEST(ConfigWrongType, sections_and_the_whole_file_are_maps) {
  EXPECT_EQ(refusal("mesh: 4\n"), "job.yaml:1: mesh: expected a map of keys, found 4");
  EXPECT_EQ(refusal("batch: [1]\n"), "job.yaml:1: batch: expected a map of keys, found a list");
  EXPECT_EQ(refusal("- mesh\n"), "job.yaml: expected a map of sections, found a list");
  EXPECT_EQ(refusal("? [mesh]\n: {tp: 1}\n"), "job.yaml:1: ?: expected a word as the key, found a list");
}

TEST(ConfigRange, shows_the_value_and_the_limits) {
  EXPECT_EQ(refusal("micro_batch: {max_tokens: 0}"),
            "job.yaml:1: micro_batch.max_tokens: 0 is out of range; allowed: 1 to 2147483647, or auto");
  EXPECT_EQ(
      refusal("micro_batch: {max_tokens: 2147483648}"),
      "job.yaml:1: micro_batch.max_tokens: 2147483648 is out of range; allowed: 1 to 2147483647, or auto");
  EXPECT_EQ(refusal("mesh: {tp: 99999999999999999999}"),
            "job.yaml:1: mesh.tp: 99999999999999999999 is out of range; allowed: 1 to 1048576");
  EXPECT_EQ(refusal("source: {seed: -1}"),
            "job.yaml:1: source.seed: -1 is out of range; allowed: 0 to "
            "18446744073709551615");
  EXPECT_EQ(refusal("mesh: {dp: 0}"),
            "job.yaml:1: mesh.dp: 0 is out of range; allowed: 1 to 1048576, or auto");
  EXPECT_EQ(parse_config("micro_batch: {max_tokens: 2147483647}", "job.yaml").micro_batch.max_tokens,
            2147483647);
}

TEST(ConfigChoice, lists_the_allowed_words) {
  EXPECT_EQ(refusal("pack: {cp_layout: ring}"),
            "job.yaml:1: pack.cp_layout: ring is not one of: zigzag, contiguous");
  EXPECT_EQ(refusal("balance: {cost: flops}").substr(0, 65),
            "job.yaml:1: balance.cost: flops is not one of: tokens, flops-7b, ");
}

TEST(ConfigRange, bounds_prefetching_since_each_step_takes_memory) {
  EXPECT_EQ(refusal("exchange: {prefetch: 17}"),
            "job.yaml:1: exchange.prefetch: 17 is out of range; allowed: 0 to 16");
}

TEST(ConfigChoice, the_rank_order_names_each_axis_once) {
  EXPECT_EQ(refusal("mesh:\n  order: tp-cp-dp\n").substr(0, 24), "job.yaml:2: mesh.order: ");
}

TEST(ConfigFieldErrors, reject_profiles_that_are_not_a_list_or_unknown) {
  const auto refused = [](const std::string& fields) {
    return refusal("profiles: {encoder: {}}\nfields: {" + fields + "}\n");
  };
  for (const char* wrong : {"encoder", "[]", "[[encoder]]", "{encoder: 1}", "null"}) {
    EXPECT_THAT(refused("x: {profiles: " + std::string(wrong) + "}"),
                testing::HasSubstr("a list of names of profiles, or all"));
  }
  EXPECT_EQ(refused("x: {profiles: [encoder, model]}"),
            "job.yaml: fields.x.profiles: there is no profile 'model'. The profiles are: encoder");
  EXPECT_THAT(refused("x: {profiles: [encoder, encoder]}"), testing::HasSubstr("names 'encoder' twice"));
  EXPECT_THAT(refused("input_ids: {profiles: [encoder]}"), testing::HasSubstr("is a built-in field"));
}

TEST(ConfigFieldErrors, name_the_field_and_the_key) {
  EXPECT_THAT(refusal("fields: {x: {wire_dtype: short}}\n"), testing::HasSubstr("fields.x.wire_dtype"));
  EXPECT_THAT(refusal("fields: {x: {kind: token}}\n"),
              testing::HasSubstr("is not a key of a field. Valid keys: "));
  EXPECT_THAT(refusal("fields: [x]\n"), testing::HasSubstr("a map"));
  EXPECT_THAT(refusal("fields: {x: {layers: [0, 1]}}\n"),
              testing::EndsWith("expected null, stage, or one list of layers per stage, such as "
                                "[[0, 1], [2, 3]]; entry 0 is 0, not a list"));
  EXPECT_THAT(refusal("fields: {x: {layers: [[0], {}]}}\n"),
              testing::EndsWith("; entry 1 is a map, not a list"));
  EXPECT_THAT(refusal("fields: {x: {layers: []}}\n"), testing::EndsWith("]], found an empty list"));
  EXPECT_THAT(refusal("fields: {x: {layers: [[-1]]}}\n"), testing::HasSubstr("fields.x.layers"));
  EXPECT_EQ(
      refusal("mesh: {pp: 2}\nfields: {x: {layers: [[0]]}}\n"),
      "job.yaml: fields.x.layers: lists layers for 1 stage, but the mesh has pp 2 x vpp 1. Give one list "
      "for each virtual stage");
  EXPECT_EQ(
      refusal("fields: {x: {dtype: narrow}}\n"),
      "job.yaml: fields.x.dtype: narrow needs integers to be sent in a narrow type, since the narrow type "
      "is chosen when integers are sent. Set fields.x.wire_dtype: narrow, or fields.x.dtype: original");
  EXPECT_EQ(refusal("fields: {x: {layers: stage, stage: all}}\n"),
            "job.yaml: fields.x.stage: first or all needs rows that are not split by layers, since layers "
            "determine which stage gets which rows. Set fields.x.layers: null, or fields.x.stage: last");
  EXPECT_EQ(refusal("source: {kind: synthetic}\nfields: {x: {read_as: text}}\n"),
            "job.yaml: fields.x.read_as: needs JSON Lines, since the key describes how JSON Lines write the "
            "field. Set source.kind: jsonl or stream, or fields.x.read_as: null");
  EXPECT_EQ(refusal("fields: {x: {cut_by: y, share: equal}}\n"),
            "job.yaml: fields.x.cut_by: needs values that samples do not share, since rows that are stored "
            "once for all ranks are not cut. Set fields.x.share: none, or fields.x.cut_by: null");
  EXPECT_THAT(refusal("fields: {x: {read_as: token}}\n"), testing::HasSubstr("fields.x.read_as"));
  EXPECT_EQ(refusal("fields: {labels: {wire_dtype: narrow}}\n"),
            "job.yaml: fields.labels: is a built-in field, which is delivered unchanged. "
            "Leave out all settings except read_as: axes or runs, and at for labels and loss_mask");
  EXPECT_EQ(refusal("field: {wire_dtype: narrow}\n"),
            "job.yaml: field: has settings for fields, but the section fields does not list any. Name them: "
            "fields: "
            "{NAME: {}}");
}

TEST(ConfigProfileErrors, name_the_profile_and_the_key) {
  EXPECT_EQ(refusal("profiles:\n  update: {mesh: {tp: 2}}\n"),
            "job.yaml:2: profiles.update.mesh: is not a key of a profile. A profile has keys of balance, "
            "micro_batch, pack and loss");
  EXPECT_THAT(
      refusal("profiles:\n  update: {micro_batch: {max_token: 2}}\n"),
      StartsWith("job.yaml:2: profiles.update.micro_batch.max_token: is not a key of a profile. Valid "
                 "keys: micro_batch.mode, "));
  EXPECT_EQ(refusal("profiles:\n  update: {micro_batch: {max_tokens: 0}}\n"),
            "job.yaml:2: profiles.update.micro_batch.max_tokens: 0 is out of range; allowed: 1 to "
            "2147483647, or auto");
  EXPECT_EQ(refusal("profiles: {update: 3}"), "job.yaml:1: profiles.update: expected a map of keys, found 3");
  EXPECT_EQ(refusal("profiles: {a b: {}}"),
            "job.yaml:1: profiles.a b: is not a valid name for a profile. Use letters, digits, _ and -");
  EXPECT_EQ(refusal("mesh: {tp: 8}\nprofiles: {update: {micro_batch: {max_tokens: 4}}}").substr(0, 50),
            "job.yaml: profiles.update.micro_batch.max_tokens: ");
}

TEST(ConfigCost, refuses_an_invalid_cost) {
  EXPECT_EQ(refusal("balance:\n  cost: {model: {heads: 4, head: 5}}\n").substr(0, 57),
            "job.yaml:2: balance.cost: model: head: unknown key. Valid");
  EXPECT_EQ(refusal("balance: {cost: {model: {heads: four}}}"),
            "job.yaml:1: balance.cost: model: heads: expected an integer, found four");
  EXPECT_EQ(refusal("balance: {cost: {model: 7b}}"),
            "job.yaml:1: balance.cost: model: expected a map, found 7b");
  EXPECT_EQ(refusal("balance: {cost: {model: {heads: 4}}}").substr(0, 33),
            "job.yaml:1: balance.cost: model: ");
  EXPECT_EQ(refusal("balance: {cost: {linear: 0, quadratic: 0}}"),
            "job.yaml:1: balance.cost: linear and quadratic are both 0. Set at least one of them above 0");
  EXPECT_EQ(refusal("balance: {cost: {linear: 1, model: {}}}"),
            "job.yaml:1: balance.cost: has model together with other keys. Leave out the other keys");
  EXPECT_EQ(refusal("balance: {cost: [1]}"),
            "job.yaml:1: balance.cost: expected tokens, flops-7b, measured or a map, found a list");
}

TEST(ConfigCost, a_cost_of_a_field_has_no_other_keys) {
  EXPECT_EQ(refusal("balance: {cost: {field: work, linear: 2}}"),
            "job.yaml:1: balance.cost: field cannot be combined with other keys. Leave out the other keys");
  EXPECT_THAT(refusal("balance: {cost: {field: [1]}}"),
              testing::StartsWith("job.yaml:1: balance.cost: field: "));
}

TEST(ConfigRowCaps, map_field_names_to_numbers_of_rows) {
  EXPECT_EQ(refusal("micro_batch: {max_rows: 16}"),
            "job.yaml:1: micro_batch.max_rows: expected a map such as {patches: 16384}, or null, found 16");
  EXPECT_EQ(refusal("micro_batch: {max_rows: {patches: 0}}"),
            "job.yaml:1: micro_batch.max_rows: patches: 0 is out of range; allowed: 1 to 2147483647");
  EXPECT_THAT(refusal("micro_batch: {max_rows: {patches: 4, patches: 8}}"),
              testing::HasSubstr("micro_batch.max_rows: patches: the key is given twice"));
}

TEST(ConfigCost, an_encoders_cost_needs_a_field_coefficients_and_a_model) {
  EXPECT_EQ(refusal("balance: {cost: {encoder: {field: pixels, linear: 1}}}"),
            "job.yaml:1: balance.cost: a cost with an encoder must have exactly the keys model and "
            "encoder. Write {model: ..., encoder: {field: NAME, linear: ...}}");
  EXPECT_EQ(refusal("balance: {cost: {model: tokens, linear: 3, encoder: {field: pixels, linear: 1}}}"),
            "job.yaml:1: balance.cost: a cost with an encoder must have exactly the keys model and "
            "encoder. Write {model: ..., encoder: {field: NAME, linear: ...}}");
  EXPECT_EQ(refusal("balance: {cost: {model: tokens, encoder: {linear: 1}}}"),
            "job.yaml:1: balance.cost: encoder: does not say which field is encoded. Set field to "
            "the name of a "
            "field of kind rows");
  EXPECT_EQ(
      refusal("balance: {cost: {model: tokens, encoder: {field: pixels}}}"),
      "job.yaml:1: balance.cost: encoder: linear and quadratic are both 0. Set at least one of them above 0");
  EXPECT_EQ(refusal("balance: {cost: {model: tokens, encoder: {field: pixels, window: 3}}}"),
            "job.yaml:1: balance.cost: encoder: window: unknown key. Valid keys: field, linear, quadratic");
  EXPECT_EQ(
      refusal("balance: {cost: {model: {layers: 2}, encoder: {field: pixels, linear: 3}}}").substr(0, 33),
      "job.yaml:1: balance.cost: model: ");
}

TEST(ConfigCost, an_encoders_work_is_balanced_only_by_evenkeels_own_algorithm) {
  const auto with = [](const std::string& other) {
    return refusal("balance: {cost: {model: tokens, encoder: {field: pixels, linear: 1}}, " + other + "}");
  };
  for (const std::string other : {"algorithm: lpt", "refine: false", "equal_count: true", "speeds: [1, 1]"}) {
    EXPECT_THAT(with(other), testing::StartsWith("job.yaml: balance." + other.substr(0, other.find(':'))));
    EXPECT_THAT(with(other), testing::HasSubstr("cannot be combined with balance.cost.encoder")) << other;
  }
  const std::string refused = "job.yaml: balance.cost.encoder: cannot be combined with ";
  for (const std::string other : {"strategy: grid", "preset: verl"})
    EXPECT_THAT(with(other), testing::StartsWith(refused + "balance." + other.substr(0, other.find(':'))));
  const std::string encodes = "balance: {cost: {model: tokens, encoder: {field: pixels, linear: 1}}}\n";
  for (const std::string other :
       {"micro_batch: {mode: padded}", "mesh: {cp: flexible}\nmicro_batch: {max_tokens_per_rank: 64}"}) {
    EXPECT_THAT(refusal(encodes + other), testing::StartsWith(refused)) << other;
  }
}

TEST(ConfigCost, a_measured_cost_has_only_its_own_keys) {
  EXPECT_EQ(refusal("balance: {cost: {measured: {until: 3}}}"),
            "job.yaml:1: balance.cost: measured: until: unknown key. Valid keys: initial, every, window");
  EXPECT_EQ(refusal("balance: {cost: {measured: {every: 0}}}"),
            "job.yaml:1: balance.cost: measured: every: 0 is out of range; allowed: 1 to 1048576");
  EXPECT_EQ(refusal("balance: {cost: {measured: {window: 15}}}"),
            "job.yaml:1: balance.cost: measured: window: 15 is out of range; allowed: 16 to 1048576");
  EXPECT_EQ(refusal("balance: {cost: {measured: {initial: measured}}}"),
            "job.yaml:1: balance.cost: measured: initial: measured is not one of: tokens, flops-7b");
  EXPECT_EQ(
      refusal("balance: {cost: {measured: {}, linear: 1}}"),
      "job.yaml:1: balance.cost: measured cannot be combined with other keys. Leave out the other keys");
  EXPECT_THAT(
      refusal("balance: {cost: measured, preset: verl}"),
      testing::StartsWith("job.yaml: balance.cost: measured cannot be combined with balance.preset, since"));
}

TEST(ConfigSpeeds, are_positive_numbers) {
  EXPECT_EQ(refusal("balance: {speeds: [1, 0]}"),
            "job.yaml:1: balance.speeds: 0 is out of range; allowed: 0.001 to 1000");
  EXPECT_EQ(refusal("balance: {speeds: [1, -2]}"),
            "job.yaml:1: balance.speeds: -2 is out of range; allowed: 0.001 to 1000");
  EXPECT_EQ(refusal("balance: {speeds: [1, .inf]}"),
            "job.yaml:1: balance.speeds: expected a number, found .inf");
  EXPECT_EQ(refusal("balance: {speeds: [1, nan]}"),
            "job.yaml:1: balance.speeds: expected a number, found nan");
  EXPECT_EQ(refusal("balance: {speeds: [1, 0.5x]}"),
            "job.yaml:1: balance.speeds: expected a number, found 0.5x");
  EXPECT_EQ(refusal("balance: {speeds: [1, [2]]}"),
            "job.yaml:1: balance.speeds: expected a number, found a list");
  EXPECT_EQ(refusal("balance: {speeds: []}"),
            "job.yaml:1: balance.speeds: expected a list of numbers, or the word equal, found an "
            "empty list");
  EXPECT_EQ(refusal("balance: {speeds: 2}"),
            "job.yaml:1: balance.speeds: expected a list of numbers, or the word equal, found 2");
}

TEST(ConfigSpeeds, are_one_per_dp_rank_if_their_number_is_known) {
  EXPECT_EQ(refusal("mesh: {dp: 3}\nbalance: {speeds: [1, 2]}"),
            "job.yaml: balance.speeds: has 2 speeds for 3 DP ranks. Give one speed for each DP rank");
  EXPECT_EQ(refusal("balance: {speeds: [1, 2]}"), "accepted");
}

TEST(ConfigDuplicate, is_refused_at_its_second_occurrence) {
  EXPECT_EQ(refusal("mesh: {tp: 2}\nbatch: {epochs: 2}\nmesh: {cp: 2}\n"),
            "job.yaml:3: mesh: the key is given twice. Remove one of them");
  EXPECT_EQ(refusal("mesh:\n  tp: 2\n  tp: 4\n"),
            "job.yaml:3: mesh.tp: the key is given twice. Remove one of them");
  EXPECT_EQ(refusal("balance: {cost: {linear: 1, linear: 2}}"),
            "job.yaml:1: balance.cost: linear: the key is given twice. Remove one of them");
}

TEST(ConfigMalformed, names_the_line_and_the_column) {
  EXPECT_EQ(refusal("mesh:\n  tp: 2\n\tcp: 2\n").substr(0, 31), "job.yaml:3:1: malformed YAML: i");
  EXPECT_EQ(refusal("mesh: {tp: 2\n").substr(0, 29), "job.yaml:2:1: malformed YAML:");
  EXPECT_EQ(refusal("mesh: *unknown\n").substr(0, 29), "job.yaml:1:7: malformed YAML:");
}

TEST(ConfigOverrideErrors, name_the_override_instead_of_a_line) {
  EXPECT_EQ(refusal("", {"micro_batch.max_tokens=0"}),
            "--set micro_batch.max_tokens=0: 0 is out of range; allowed: 1 to 2147483647, or auto");
  EXPECT_THAT(refusal("", {"micro_batch.max_token=1"}),
              StartsWith("--set micro_batch.max_token=1: unknown key. Valid keys: "));
  EXPECT_EQ(refusal("", {"mesh.tp"}), "--set mesh.tp: has no '='. Write section.key=value");
  EXPECT_EQ(refusal("", {"mesh.tp="}), "--set mesh.tp=: expected an integer, found null");
  EXPECT_EQ(refusal("", {"mesh=2"}), "--set mesh=2: expected a map of keys, found 2");
  EXPECT_EQ(refusal("", {"=2"}).substr(0, 29), "--set =2: unknown key. Sectio");
  EXPECT_EQ(refusal("", {"mesh.tp=[2"}).substr(0, 34), "--set mesh.tp=[2: malformed YAML: ");
}

TEST(ConfigOverrideErrors, report_maps_that_would_change_nothing) {
  const std::string profile = "profiles: {update: {pack: {pad_token: 7}}}";
  for (const char* text :
       {"mesh={}", "mesh=", "fields=", "field={}", "profiles.update=", "profiles.update.pack={}"}) {
    EXPECT_EQ(refusal(profile, {text}),
              std::string("--set ") + text + ": has no key, so it changes nothing. Name a key and its value");
  }
}

TEST(ConfigConsistency, a_source_that_reads_a_file_needs_its_path) {
  EXPECT_EQ(
      refusal("source: {kind: jsonl}"),
      "job.yaml: source.path: is missing. Set it to the file or folder to read; for megatron, without .bin "
      "and .idx");
  EXPECT_EQ(refusal("source: {kind: lengths, path: ''}").substr(0, 22), "job.yaml: source.path:");
  EXPECT_EQ(refusal("source: {kind: jsonl}", {"source.path=x.jsonl"}), "accepted");
}

TEST(ConfigConsistency, values_of_dumps_are_not_shifted_again_with_other_sources) {
  const std::string fields = "fields: {advantages: {at: token}}\n";
  const std::string dump = "{kind: dump, path: d}";
  const std::string lines = "{kind: jsonl, path: x.jsonl}";
  EXPECT_EQ(refusal(fields + "sources: {a: " + dump + ", b: " + lines + "}").substr(0, 38),
            "job.yaml: fields.advantages.at: is tok");
  EXPECT_EQ(refusal(fields + "sources: {a: " + dump + ", b: " + dump + "}"), "accepted");
  EXPECT_EQ(refusal(fields + "sources: {a: " + lines + ", b: " + lines + "}"), "accepted");
}

TEST(ConfigConsistency, shared_prefixes_need_packed_micro_batches_and_evenkeels_planning) {
  EXPECT_EQ(refusal("prefix: {share: true}\nmicro_batch: {mode: padded}").substr(0, 24),
            "job.yaml: prefix.share: ");
  EXPECT_EQ(refusal("prefix: {share: tree}\nbalance: {preset: verl}").substr(0, 24),
            "job.yaml: prefix.share: ");
  EXPECT_EQ(refusal("prefix: {share: tree}"), "accepted");
}

TEST(ConfigConsistency, a_cap_below_the_alignment_is_found_before_anything_runs) {
  EXPECT_EQ(refusal("mesh: {tp: 2, cp: 4}\nmicro_batch: {max_tokens: 15}\n").substr(0, 34),
            "job.yaml: micro_batch.max_tokens: ");
  EXPECT_EQ(refusal("mesh: {tp: 2, cp: 4}\nmicro_batch: {max_tokens: 16}\n"), "accepted");
}

TEST(ConfigConsistency, an_alignment_beyond_32_bits_is_refused_whatever_its_factors) {
  const std::string common = "job.yaml: pack.align_lcm: the least common multiple of ";
  EXPECT_EQ(refusal("pack: {align: 2147483647, align_lcm: 2147483646}").substr(0, common.size()), common);
  // Computed with 64 bits, this is negative.
  EXPECT_EQ(refusal("pack: {align: 2147483647, align_lcm: 2147483629}\n"
                    "micro_batch: {mode: padded, length_round: 1048573, max_tokens: 2147483647}")
                .substr(0, common.size()),
            common);
  EXPECT_EQ(refusal("pack: {align: 2147483647, align_lcm: 2147483647}\n"
                    "micro_batch: {max_tokens: 2147483647}"),
            "accepted");
}

TEST(ConfigMissingFile, is_an_io_error_that_names_it) {
  try {
    static_cast<void>(load_config("no/such/job.yaml"));
    FAIL() << "a missing file was read";
  } catch (const IoError& error) {
    EXPECT_EQ(error.report().where, "no/such/job.yaml");
  }
  EXPECT_THROW(static_cast<void>(load_config(std::filesystem::temp_directory_path())), IoError);
}

}  // namespace
}  // namespace evenkeel
