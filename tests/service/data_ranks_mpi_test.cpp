#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "service/equal_steps.hpp"
#include "service/step_maker.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel {
namespace {

using test::expect_equal;
using testing_support::made_up_batch;
using testing_support::made_up_fields;
using testing_support::made_up_shape;
using testing_support::mix;

/// The ids of a step's samples, in the order of no rank and no table.
std::vector<std::int64_t> ids_of(std::int64_t step) {
  std::vector<std::int64_t> ids;
  for (std::int64_t id = 0; id < 41 + 7 * step; ++id) ids.push_back(100 * step + id);
  std::ranges::sort(ids, {}, [](std::int64_t id) { return mix(static_cast<std::uint64_t>(id), 5); });
  return ids;
}

/// The equal, contiguous share of a step that the reader `rank` of `readers` brings.
RaggedBatch share_of(std::int64_t step, int rank, int readers) {
  const std::vector<std::int64_t> ids = ids_of(step);
  const auto cut = [&](std::int64_t r) {
    return r * (std::ssize(ids) / readers) + std::min(r, std::ssize(ids) % readers);
  };
  std::vector<SampleShape> shapes;
  for (std::int64_t i = cut(rank); i < cut(rank + 1); ++i)
    shapes.push_back(made_up_shape(ids[static_cast<std::size_t>(i)]));
  return made_up_batch(std::move(shapes), made_up_fields());
}

/// The ranks of a job with data ranks, the last ones, and its trainers alone.
struct Ranks {
  explicit Ranks(int data_ranks)
      : data(data_ranks),
        trainers(all.split(all.rank() < all.size() - data ? 0 : 1)),
        trains(all.rank() < all.size() - data) {}

  /// What this rank reads of a step where data ranks read all.
  [[nodiscard]] RaggedBatch read(std::int64_t step) const {
    return trains ? RaggedBatch() : share_of(step, all.rank() - (all.size() - data), data);
  }
  [[nodiscard]] RaggedBatch read_embedded(std::int64_t step) const {
    return share_of(step, trainers.rank(), trainers.size());
  }

  boost::mpi::communicator all;
  int data;
  boost::mpi::communicator trainers;
  bool trains;
};

std::vector<Config> configs_for(int places) {
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
    configs.push_back(plain);
    Config& placed = configs.emplace_back(plain);
    placed.balance.placement = PlacementRule::locality;
    placed.balance.placement_tolerance = 200;
    placed.exchange.path = ExchangePath::point_to_point;
    Config& shared = configs.emplace_back(plain);
    shared.prefix = PrefixSharing::prompts;
    shared.exchange.tp_copies = TensorParallelCopies::shared;
    Config& trees = configs.emplace_back(plain);
    trees.prefix = PrefixSharing::trees;
    Config& grid = configs.emplace_back(plain);
    grid.balance.strategy = Strategy::grid;
  }
  return configs;
}

/// Every true row's token as a result, and one number a sample.
StepResults results_of(const Step& step) {
  StepResults results(step.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    const PackedMicroBatch& tensors = step.micro_batches[m].tensors;
    if (const Column* tokens = tensors.find("input_ids"))
      results.put(m, {"back", DType::int64, FieldKind::token, {}}, tokens->bytes());
    if (const Column* rewards = tensors.find("rewards"))
      results.put(m, {"again", DType::float64, FieldKind::sample, {2}}, rewards->bytes());
  }
  return results;
}

void for_each_number_of_data_ranks(const std::function<void(const Ranks&)>& check) {
  const boost::mpi::communicator world;
  for (int data = 1; data < std::min(world.size(), 4); ++data) check(Ranks(data));
}

TEST(DataRanks, bring_what_trainers_would_have_read_and_planned_themselves) {
  for_each_number_of_data_ranks([](const Ranks& ranks) {
    for (Config config : configs_for(ranks.all.size() - ranks.data)) {
      std::optional<StepMaker> embedded;
      if (ranks.trains) embedded.emplace(ranks.trainers, config);
      config.mesh.data_ranks = ranks.data;
      StepMaker dedicated(ranks.all, config);
      for (std::int64_t step = 0; step < 3; ++step) {
        const Step made = dedicated.first_pass([&] { return ranks.read(step); }, {});
        const RaggedBatch home = dedicated.collect(made, results_of(made));
        if (!ranks.trains) {
          EXPECT_TRUE(made.micro_batches.empty());
          EXPECT_EQ(home.size(), ranks.read(step).size());
          if (config.prefix == PrefixSharing::none && config.mesh.pp == 1) {
            EXPECT_EQ(home.at("back").bytes().size(), ranks.read(step).at("input_ids").bytes().size());
            EXPECT_TRUE(
                std::ranges::equal(home.at("back").bytes(), ranks.read(step).at("input_ids").bytes()));
          }
          continue;
        }
        EXPECT_EQ(home.size(), 0);
        const Step expected = embedded->first_pass([&] { return ranks.read_embedded(step); }, {});
        EXPECT_EQ(made.num_samples, expected.num_samples);
        expect_equal(made, expected);
      }
    }
  });
}

}  // namespace
}  // namespace evenkeel
