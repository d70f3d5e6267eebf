#pragma once

#include <string>
#include <vector>

#include "evenkeel/config/config.hpp"

namespace evenkeel::test {

/// Parses a file's text with these overrides.
inline Config parse(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return parse_config(yaml, "job.yaml", overrides);
}

/// Returns a valid configuration in which every member differs from its default. Shared prefixes, grids,
/// speeds and packing methods are incompatible with its presets and modes, so they stay off.
inline Config changed_config() {
  Config config;
  config.mesh = {2, 4, 3, 5, 7, RankOrder("pp-dp-cp-tp")};
  config.source = {SourceKind::jsonl,
                   "/data/a \"quoted\": name #1.jsonl",
                   {"b, c.jsonl"},
                   18446744073709551615u,
                   77,
                   3,
                   2500};
  config.mix = MixBy::tokens;
  config.filter = {TooLong::split, EmptySample::drop, WithoutLoss::drop, 1000};
  config.batch = {512, 3, true, 99, true};
  config.delay = {4, 900, 3};
  config.field = {LayerMap{}, FieldWidth::narrow, FieldWidth::narrow};
  config.field.cut_by = "spans: \"of\" rows";
  config.field.profiles = {"log-prob"};
  config.fields = {{"routed_experts", config.field}, {"ids", {std::nullopt, FieldWidth::narrow}}};
  config.mini_batches = {4, false, false};
  config.balance = {{CostModel{12345678901, 17, 4096}, SyncPoint::micro_batch, PlacementRule::none},
                    {BalanceAlgorithm::lpt, true, false},
                    Preset::verl,
                    Strategy::hierarchical};
  config.micro_batch = {{4096, 12, 2, 6, MicroBatchOrder::cost},
                        MicroBatchMode::padded,
                        std::nullopt,
                        CountRule::fewest,
                        EqualCounts::always,
                        3,
                        true,
                        128};
  config.pack = {Delivery::samples, CpLayout::contiguous, 32, 48, 151643, -1, 2, true};
  config.loss = {LossAggregation::prompt_mean, Reduction::mean, Reduction::sum, FullyMasked::skip, 2048};
  Profile update = config.profile({});
  update.micro_batch.mode = MicroBatchMode::fixed;
  update.micro_batch.max_samples = std::nullopt;
  update.pack.align_lcm = 16;
  update.loss.aggregation = LossAggregation::token_sum;
  config.profiles = {{"log-prob", config.profile({})}, {"update", update}};
  config.exchange = {ExchangePath::alltoallv, TensorParallelCopies::shared, NodeAggregation::never, 3};
  config.watchdog = {7};
  return config;
}

/// Returns a configuration for samples that arrive, with every related key.
inline Config arriving_config() {
  Config config;
  config.source.kind = SourceKind::stream;
  config.stream = {"127.0.0.1:0", "/kept", "redis://h", "math", "/password", 1 << 20, "/token",
                   "/ca",         8,       4,           600,    300,         2,       OnStale::mask,
                   true,          0.5,     3,           true,   {"values"}};
  return config;
}

/// Covers what changed_config() leaves off.
inline Config measured_config() {
  Config config;
  config.mesh.dp = 3;
  config.balance.cost = CostModel{3000, 1};
  config.balance.measured = MeasuredCost{5, 300};
  config.balance.speeds = {1000, 500, 1250};
  config.field = {std::nullopt,     FieldWidth::original, FieldWidth::original, FieldStages::first,
                  LineFormat::text, RowConvention::next,  FieldSharing::equal};
  config.field.spread_pads = 8;
  FieldSettings patches = config.field;
  patches.stage = FieldStages::all;
  patches.read_as = LineFormat::rows;
  patches.profiles = {"fast"};
  config.fields = {{"patches", patches}, {"notes", config.field}};
  config.micro_batch.packing = BinPacking::modified_first_fit_decreasing;
  config.micro_batch.shapes = 5;
  config.micro_batch.max_rows = {{"image \"patches\"", 16384}, {"frames", 9}};
  Profile fast = config.profile({});
  fast.balance.measured = std::nullopt;
  fast.balance.speeds = {};
  fast.micro_batch.packing = std::nullopt;
  fast.micro_batch.count = CountRule::fastest;
  config.profiles = {{"fast", fast}};
  return config;
}

/// Returns groups of different sizes, which cannot be combined with any of these.
inline Config flexible_config() {
  Config config;
  config.mesh.dp = 8;
  config.mesh.flexible_cp = true;
  config.mesh.max_cp = 4;
  config.balance.meet = SyncPoint::step;
  config.balance.cost = CostModel::flops_7b();
  config.balance.overhead = 1000;
  config.balance.communication = {333, 2500, 4, 500};
  config.micro_batch.max_tokens_per_rank = 2048;
  return config;
}

}  // namespace evenkeel::test
