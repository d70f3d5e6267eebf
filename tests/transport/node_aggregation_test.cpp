#include "transport/messages/node_aggregation.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

namespace evenkeel {
namespace {

/// The number of bytes from each rank to each other rank, and everything derived from it, for all ranks in
/// one process.
struct World {
  World(std::vector<int> nodes_of_ranks, std::vector<std::vector<std::int64_t>> bytes_between)
      : leaders(nodes_of_ranks), bytes(std::move(bytes_between)) {}

  [[nodiscard]] std::int64_t between(int from, int to) const {
    return bytes[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }

  [[nodiscard]] NodeSizes sizes_of(int node) const {
    NodeSizes sizes;
    for (const int member : leaders.ranks_of(node)) {
      for (int rank = 0; rank < leaders.num_ranks(); ++rank) {
        sizes.to.push_back(between(member, rank));
        sizes.from.push_back(between(rank, member));
      }
    }
    return sizes;
  }

  [[nodiscard]] std::vector<LeaderPlan> plans(NodeAggregation mode) const {
    std::vector<LeaderPlan> plans;
    for (int rank = 0; rank < leaders.num_ranks(); ++rank)
      plans.push_back(plan_leaders(leaders, rank, sizes_of(leaders.node_of(rank)), mode));
    return plans;
  }

  NodeLeaders leaders;
  std::vector<std::vector<std::int64_t>> bytes;
};

// Returns what rank `from` sends to rank `to`: letters that encode the pair and the position in the message.
std::string text_of(const World& world, int from, int to) {
  std::string text;
  for (std::int64_t i = 0; i < world.between(from, to); ++i)
    text += static_cast<char>('!' + (from * 31 + to * 7 + i) % 90);
  return text;
}

/// Executes the plans in one process. All memory regions are strings.
class Rehearsal {
 public:
  Rehearsal(const World& world, const std::vector<LeaderPlan>& plans)
      : world_(world), plans_(plans), outgoing_(plans.size()), incoming_(plans.size()) {
    for (std::string& memory : outgoing_) memory.assign(leader_staging_bytes, ' ');
    incoming_ = outgoing_;
    collect();
    send();
    hand_on();
  }

  /// Maps rank and leader to what the rank received through this leader of its node, in order.
  std::map<std::pair<int, int>, std::string> received;
  std::int64_t messages = 0;

 private:
  static std::size_t at(std::int64_t value) { return static_cast<std::size_t>(value); }

  void collect() {
    for (int rank = 0; rank < world_.leaders.num_ranks(); ++rank) {
      std::map<int, std::string> sent;
      for (int node = 0; node < world_.leaders.num_nodes(); ++node) {
        for (const int to : world_.leaders.ranks_of(node)) {
          const int by = plans_[at(rank)].sending_leaders[at(to)];
          if (by != LeaderPlan::direct) sent[by] += text_of(world_, rank, to);
        }
      }
      for (auto& [leader, text] : sent) {
        std::size_t taken = 0;
        for (const StagedPart& part : plans_[at(leader)].collected) {
          if (part.rank != rank) continue;
          outgoing_[at(leader)].replace(at(part.offset), at(part.bytes), text, taken, at(part.bytes));
          taken += at(part.bytes);
        }
        ASSERT_EQ(taken, text.size()) << "rank " << rank << " to leader " << leader;
      }
    }
  }

  void send() {
    for (int rank = 0; rank < world_.leaders.num_ranks(); ++rank) {
      for (const StagedPart& out : plans_[at(rank)].outgoing) {
        ++messages;
        const std::vector<StagedPart>& in = plans_[at(out.rank)].incoming;
        const auto there = std::ranges::find(in, rank, &StagedPart::rank);
        ASSERT_NE(there, in.end());
        ASSERT_EQ(there->bytes, out.bytes);
        incoming_[at(out.rank)].replace(at(there->offset), at(out.bytes), outgoing_[at(rank)], at(out.offset),
                                        at(out.bytes));
      }
    }
  }

  void hand_on() {
    for (int rank = 0; rank < world_.leaders.num_ranks(); ++rank) {
      for (const StagedPart& part : plans_[at(rank)].distributed)
        received[{part.rank, rank}] += incoming_[at(rank)].substr(at(part.offset), at(part.bytes));
    }
  }

  const World& world_;
  const std::vector<LeaderPlan>& plans_;
  std::vector<std::string> outgoing_;
  std::vector<std::string> incoming_;
};

// Returns a random world: up to 9 ranks on up to 4 nodes, in any order, with few bytes between each pair,
// often none.
World any_world() {
  const auto ranks = static_cast<std::size_t>(*rc::gen::inRange(1, 10));
  const auto groups = *rc::gen::container<std::vector<int>>(ranks, rc::gen::inRange(0, 4));
  std::vector<int> nodes;
  for (const int group : groups)
    nodes.push_back(static_cast<int>(std::ranges::find(groups, group) - groups.begin()));
  const auto row = rc::gen::container<std::vector<std::int64_t>>(
      ranks, rc::gen::element<std::int64_t>(0, 0, 1, 3, 40, 200));
  return {nodes, *rc::gen::container<std::vector<std::vector<std::int64_t>>>(ranks, row)};
}

RC_GTEST_PROP(NodeAggregation, every_byte_arrives_once_and_in_order, ()) {
  const World world = any_world();
  const std::vector<LeaderPlan> plans = world.plans(NodeAggregation::always);
  const Rehearsal rehearsal(world, plans);
  RC_ASSERT(!testing::Test::HasFatalFailure());
  for (int rank = 0; rank < world.leaders.num_ranks(); ++rank) {
    std::map<int, std::string> expected;
    for (int node = 0; node < world.leaders.num_nodes(); ++node) {
      for (const int from : world.leaders.ranks_of(node)) {
        const int by =
            plans[static_cast<std::size_t>(rank)].receiving_leaders[static_cast<std::size_t>(from)];
        const bool sent_so =
            plans[static_cast<std::size_t>(from)].sending_leaders[static_cast<std::size_t>(rank)] >= 0;
        RC_ASSERT(sent_so == (by >= 0));
        if (by >= 0) expected[by] += text_of(world, from, rank);
      }
    }
    for (const auto& [leader, text] : expected) {
      const auto got = rehearsal.received.find({rank, leader});
      RC_ASSERT((got == rehearsal.received.end() ? "" : got->second) == text);
    }
  }
}

RC_GTEST_PROP(NodeAggregation, at_most_one_message_goes_from_node_to_node, ()) {
  const World world = any_world();
  const std::vector<LeaderPlan> plans = world.plans(NodeAggregation::always);
  std::map<std::pair<int, int>, int> messages;
  for (int from = 0; from < world.leaders.num_ranks(); ++from) {
    const LeaderPlan& plan = plans[static_cast<std::size_t>(from)];
    const int node = world.leaders.node_of(from);
    for (const StagedPart& out : plan.outgoing) ++messages[{node, world.leaders.node_of(out.rank)}];
    for (int to = 0; to < world.leaders.num_ranks(); ++to) {
      const bool is_direct = plan.sending_leaders[static_cast<std::size_t>(to)] == LeaderPlan::direct;
      const int there = world.leaders.node_of(to);
      RC_ASSERT(is_direct || there != node);
      if (is_direct && there != node && world.between(from, to) > 0) ++messages[{node, there}];
    }
  }
  for (const auto& [pair, count] : messages) RC_ASSERT(count == 1);
}

RC_GTEST_PROP(NodeAggregation, never_leaves_every_message_to_its_own_ranks, ()) {
  for (const LeaderPlan& plan : any_world().plans(NodeAggregation::never)) {
    RC_ASSERT(!plan.uses_leaders());
    RC_ASSERT(plan.outgoing.empty() && plan.incoming.empty());
  }
}

TEST(NodeAggregation, the_ranks_of_a_node_take_turns_over_the_other_nodes) {
  const NodeLeaders leaders(std::vector{0, 0, 2, 2, 4, 5});
  ASSERT_EQ(leaders.num_nodes(), 4);
  EXPECT_EQ(leaders.leader(0, 1), 0);
  EXPECT_EQ(leaders.leader(0, 2), 1);
  EXPECT_EQ(leaders.leader(0, 3), 0);
  EXPECT_EQ(leaders.leader(1, 0), 2);
  EXPECT_EQ(leaders.leader(2, 3), 4);
  // Rank 0 is the leader for two other nodes and rank 4 for three.
  EXPECT_EQ(leaders.max_bytes_through_leaders(0, 1), leader_staging_bytes / 2);
  EXPECT_EQ(leaders.max_bytes_through_leaders(0, 2), leader_staging_bytes / 3);
}

TEST(NodeAggregation, only_nodes_of_several_ranks_can_combine_messages) {
  EXPECT_FALSE(NodeLeaders(std::vector{0, 0, 0}).can_aggregate_messages());
  EXPECT_FALSE(NodeLeaders(std::vector{0, 1, 2}).can_aggregate_messages());
  EXPECT_TRUE(NodeLeaders(std::vector{0, 0, 2}).can_aggregate_messages());
}

TEST(NodeAggregation, messages_with_a_small_mean_go_through_leaders) {
  constexpr std::int64_t many = std::int64_t{1} << 40;
  const auto goes = [&](std::vector<std::int64_t> messages) {
    return should_use_leaders(NodeAggregation::automatic, messages, many);
  };
  EXPECT_TRUE(goes({small_message_bytes, small_message_bytes}));
  EXPECT_FALSE(goes({small_message_bytes, small_message_bytes + 1}));
  EXPECT_TRUE(goes({1, 2 * small_message_bytes - 1}));
  EXPECT_FALSE(goes({small_message_bytes, 0, 0})) << "one message is one message already";
  EXPECT_FALSE(goes({0, 0}));
  EXPECT_FALSE(goes({}));
}

TEST(NodeAggregation, messages_too_large_for_the_leaders_memory_are_sent_directly) {
  for (const NodeAggregation mode : {NodeAggregation::automatic, NodeAggregation::always}) {
    EXPECT_TRUE(should_use_leaders(mode, std::vector<std::int64_t>{60, 40}, 100));
    EXPECT_FALSE(should_use_leaders(mode, std::vector<std::int64_t>{60, 41}, 100));
  }
  EXPECT_TRUE(should_use_leaders(NodeAggregation::always,
                                 std::vector<std::int64_t>{small_message_bytes, small_message_bytes + 2},
                                 leader_staging_bytes));
}

}  // namespace
}  // namespace evenkeel
