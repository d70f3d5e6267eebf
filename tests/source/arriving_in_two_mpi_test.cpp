// Samples that arrive in two buffers of one job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/service/service_state.hpp"
#include "source/arriving.hpp"
#include "support/error_message.hpp"

namespace evenkeel::arriving_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::message_of;

/// From two buffers of rank 0, the second of which has groups "h0" and on.
class ArrivingInTwo : public Arriving {
 protected:
  void open_two() {
    if (world_.rank() == 0) {
      buffer_ = std::make_unique<OpenBuffer>(testing_support::groups_of(2));
      other_ = std::make_unique<OpenBuffer>(testing_support::groups_of(2));
      path_ = "['" + buffer_->url() + "', '" + other_->url() + "']";
      of_other_ = other_->url();
    }
    boost::mpi::broadcast(world_, path_, 0);
    boost::mpi::broadcast(world_, of_other_, 0);
  }
  template <typename Act>
  void on_other(Act&& act) {
    if (other_) act(**other_);
    world_.barrier();
  }
  void send_to_other(int from, int to, const std::string& more = "}\n") {
    on_other([&](Buffer& buffer) {
      for (int h = from; h < to; ++h) {
        for (const int index : {0, 1}) {
          const std::string line = rollout_line("h" + std::to_string(h), index, 0, h + 11);
          buffer.take(received(line.substr(0, line.size() - 2) + more));
        }
      }
    });
  }

  std::unique_ptr<OpenBuffer> other_;  // on rank 0
  std::string of_other_;               // its address
};

TEST_F(ArrivingInTwo, steps_have_groups_of_both_and_all_are_accounted_for) {
  open_two();
  send_groups(0, 3);
  send_to_other(0, 1);
  end();
  on_other([](Buffer& buffer) { buffer.end(); });
  SampleStream stream(world_, config_of());
  EXPECT_EQ(stream.sources().size(), 2);
  EXPECT_THAT(lengths_of(stream, 0), ElementsAre(2, 2, 12, 12));
  EXPECT_THAT(lengths_of(stream, 1), ElementsAre(3, 3, 4, 4)) << "the other one has no part of it";
  EXPECT_THROW(static_cast<void>(stream.read(2)), EndOfSamples);
  stream.trained(2);
  const ArrivalFigures arrived = stream.arrived();
  EXPECT_EQ(arrived.received, 8);
  EXPECT_EQ(arrived.trained, 8);
  EXPECT_EQ(arrived.staleness, (std::map<std::int64_t, std::int64_t>{{0, 4}, {1, 4}}));
  on_other([](Buffer& buffer) { EXPECT_EQ(buffer.status().stream.trained.samples, 2); });
}

TEST_F(ArrivingInTwo, numbers_of_samples_differ_though_both_count_from_one) {
  open_two();
  send_groups(0, 1);
  send_to_other(0, 1);
  SampleStream stream(world_, config_of());
  std::vector<std::int64_t> mine;
  const RaggedBatch batch = stream.read(0);
  for (const SampleShape& shape : batch.samples()) mine.push_back(shape.id.value());
  std::vector<std::vector<std::int64_t>> of_ranks;
  boost::mpi::all_gather(world_, mine, of_ranks);
  std::set<std::int64_t> all;
  for (const auto& of_rank : of_ranks) all.insert(of_rank.begin(), of_rank.end());
  EXPECT_EQ(all.size(), 4);
}

TEST_F(ArrivingInTwo, a_resumed_job_gets_the_same_parts_again_and_no_other_list_is_the_same) {
  open_two();
  send_groups(0, 2);
  send_to_other(0, 2);
  ServiceState before;
  std::vector<std::int64_t> second;
  {
    SampleStream stream(world_, config_of());
    stream.describe(before);
    static_cast<void>(lengths_of(stream, 0));
    second = lengths_of(stream, 1);
    stream.trained(1);
  }
  ServiceState now;
  SampleStream again(world_, config_of());
  again.describe(now);
  EXPECT_EQ(now.sources, before.sources);
  EXPECT_EQ(lengths_of(again, 1), second);
  ServiceState of_one;
  SampleStream(world_, config_of({"source.path=" + of_other_})).describe(of_one);
  EXPECT_THAT(message_of([&] { require_same_job(before, of_one, "state"); }),
              AllOf(HasSubstr("had 2 sources and has 1"), HasSubstr(of_other_)));
}

TEST_F(ArrivingInTwo, one_that_is_gone_is_named_on_every_rank_when_patience_is_over) {
  if (world_.size() != 2) GTEST_SKIP() << "a door takes seconds to close: two ranks show it";
  open_two();
  send_groups(0, 2);
  SampleStream stream(world_, config_of({"stream.patience=0.2"}));
  if (other_) other_->close();
  world_.barrier();
  const std::string message = message_of([&] { static_cast<void>(stream.read(0)); });
  world_.barrier();
  if (other_) other_->open_again();
  EXPECT_THAT(message, HasSubstr(of_other_));
}

TEST_F(ArrivingInTwo, what_is_not_alike_is_refused_on_every_rank) {
  open_two();
  send_groups(0, 1);
  send_to_other(0, 1,
                R"(, "reward": 0.5})"
                "\n");
  {
    SampleStream stream(world_, config_of());
    EXPECT_THAT(message_of([&] { static_cast<void>(stream.read(0)); }),
                AllOf(HasSubstr("lacks the field 'reward'"), HasSubstr(of_other_)));
  }
  EXPECT_THAT(message_of([&] { SampleStream(world_, config_of({"batch.global_batch=2"})); }),
              HasSubstr("the job has 2 buffers"));
}

}  // namespace
}  // namespace evenkeel::arriving_test
