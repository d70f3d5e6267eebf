#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "service/equal_steps.hpp"
#include "service/step/step_maker.hpp"
#include "service/steps_in_all_modes.hpp"

namespace evenkeel::data_ranks_test {
namespace {

using test::configs_for;
using test::expect_equal;
using test::results_of;
using test::share_of;

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
      StepMaker dedicated(ranks.all, config, {}, AssignedBy::first_without_a_place);
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
}  // namespace evenkeel::data_ranks_test
