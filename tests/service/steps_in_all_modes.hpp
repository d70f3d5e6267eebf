#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "batch/equal_values.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/service/step.hpp"
#include "evenkeel/service/step_results.hpp"
#include "support/made_up_batch.hpp"

// Steps in every mode, for tests that make them in two ways and compare the results.

namespace evenkeel::test {

/// Returns the ids of a step's samples, in an order that matches no rank and no table.
inline std::vector<std::int64_t> ids_of(std::int64_t step) {
  std::vector<std::int64_t> ids;
  for (std::int64_t id = 0; id < 41 + 7 * step; ++id) ids.push_back(100 * step + id);
  std::ranges::sort(ids, {},
                    [](std::int64_t id) { return testing_support::mix(static_cast<std::uint64_t>(id), 5); });
  return ids;
}

/// Returns the equal, contiguous share of a step that reader `rank` of `readers` supplies.
inline RaggedBatch share_of(std::int64_t step, int rank, int readers) {
  const std::vector<std::int64_t> ids = ids_of(step);
  const auto cut = [&](std::int64_t r) {
    return r * (std::ssize(ids) / readers) + std::min(r, std::ssize(ids) % readers);
  };
  std::vector<SampleShape> shapes;
  for (std::int64_t i = cut(rank); i < cut(rank + 1); ++i)
    shapes.push_back(testing_support::made_up_shape(ids[static_cast<std::size_t>(i)]));
  std::vector<FieldSpec> fields = testing_support::made_up_fields();
  fields.push_back({"experts", DType::int16, FieldKind::token, {4, 3}});  // of layers
  return testing_support::made_up_batch(std::move(shapes), fields);
}

/// Returns configurations for jobs with this number of ranks.
inline std::vector<Config> configs_for(int places) {
  std::vector<Config> configs;
  for (const auto& [tp, cp, pp] :
       {std::tuple{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {2, 1, 2}, {3, 1, 1}, {1, 2, 2}, {1, 7, 1}}) {
    if (places % (tp * cp * pp) != 0) continue;
    Config plain;
    plain.mesh.tp = tp;
    plain.mesh.cp = cp;
    plain.mesh.pp = pp;
    plain.micro_batch.max_tokens = 400;
    plain.mini_batches.count = 2;
    plain.fields["experts"] = {LayerMap{}, FieldWidth::narrow};
    configs.push_back(plain);
    Config& placed = configs.emplace_back(plain);
    placed.balance.placement = PlacementRule::locality;
    placed.exchange.path = ExchangePath::point_to_point;
    placed.fields["image_patches"].share = FieldSharing::equal;
    Config& shaped = configs.emplace_back(plain);
    shaped.micro_batch.shapes = 3;
    shaped.balance.meet = SyncPoint::micro_batch;  // its plans determine the strategy
    Config& shared = configs.emplace_back(plain);
    shared.prefix = PrefixSharing::prompts;
    shared.exchange.tp_copies = TensorParallelCopies::shared;
    for (const char* name : {"image_patches", "data_source"}) shared.fields[name].share = FieldSharing::equal;
    Config& trees = configs.emplace_back(plain);
    trees.prefix = PrefixSharing::trees;
    Config& grid = configs.emplace_back(plain);
    grid.balance.strategy = Strategy::grid;
    if (cp > 1) continue;
    Config& waves = configs.emplace_back(grid);
    waves.mesh.flexible_cp = true;
    waves.micro_batch.max_tokens_per_rank = 48;
    waves.prefix = pp > 1 ? PrefixSharing::prompts : PrefixSharing::none;
    if (pp > 1) continue;
    Config& tree = configs.emplace_back(waves);
    tree.balance.strategy = Strategy::hierarchical;
    tree.pack.cp_layout = CpLayout::contiguous;
  }
  return configs;
}

/// Returns every true row's token as a result, with one number per sample, and its patches.
inline StepResults results_of(const Step& step) {
  StepResults results(step.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    const PackedMicroBatch& tensors = step.micro_batches[m].tensors;
    if (const Column* tokens = tensors.find("input_ids"))
      results.put(m, {"back", DType::int64, FieldKind::token, {}}, tokens->bytes());
    if (const Column* rewards = tensors.find("rewards"))
      results.put(m, {"again", DType::float64, FieldKind::sample, {2}}, rewards->bytes());
    if (const Column* patches = tensors.find("image_patches")) {
      std::vector<std::int64_t> counts;
      for (std::int64_t i = 0; i < patches->samples().size(); ++i)
        counts.push_back(patches->samples()[i].size());
      const Column own = with_separate_rows(*patches);
      results.put(m, {"patches_back", DType::float16, FieldKind::rows, {2, 3}}, counts, own.bytes());
    }
  }
  return results;
}

}  // namespace evenkeel::test
