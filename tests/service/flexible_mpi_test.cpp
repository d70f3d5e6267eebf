// Context parallelism with a group size per micro-batch, end to end: attention over the groups' communicators
// gives the same outputs, loss and gradients as each sample alone.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <bit>
#include <boost/mpi/collectives.hpp>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "evenkeel/service/data_service.hpp"
#include "report/step_figures.hpp"
#include "service/step_record.hpp"
#include "support/made_up_batch.hpp"
#include "support/whole_loss.hpp"

namespace evenkeel::flexible_test {
namespace {

using testing_support::all_aggregations;
using testing_support::made_up_batch;
using testing_support::made_up_shape;
using testing_support::made_up_token;
using testing_support::SampleLoss;

constexpr std::int64_t num_samples = 50;
constexpr std::int64_t norm_length = 24;

/// Returns the shape of a sample. A few samples are much longer than the others.
SampleShape shape_of(std::int64_t id) {
  SampleShape shape = made_up_shape(id, 20);
  if (id % 25 == 7) shape = {SampleId{id}, static_cast<std::uint64_t>(id / 4), 9, 58};
  if (id % 25 == 9) shape = {SampleId{id}, static_cast<std::uint64_t>(id / 4), 5, 25};
  return shape;
}

RaggedBatch share_of(const boost::mpi::communicator& comm) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < num_samples; ++id) {
    if (id % comm.size() == comm.rank()) shapes.push_back(shape_of(id));
  }
  return made_up_batch(std::move(shapes), {});
}

/// A number with its derivatives with respect to the three weights of the model.
struct Dual {
  double value = 0;
  std::array<double, 3> by{};
};
Dual operator+(Dual left, const Dual& right) {
  left.value += right.value;
  for (std::size_t i = 0; i < left.by.size(); ++i) left.by[i] += right.by[i];
  return left;
}
Dual operator*(const Dual& left, const Dual& right) {
  Dual product{left.value * right.value, {}};
  for (std::size_t i = 0; i < product.by.size(); ++i)
    product.by[i] = left.by[i] * right.value + left.value * right.by[i];
  return product;
}
Dual chain(const Dual& inner, double value, double slope) {
  Dual outer{value, inner.by};
  for (double& by : outer.by) by *= slope;
  return outer;
}
Dual exp(const Dual& x) {
  return chain(x, std::exp(x.value), std::exp(x.value));
}
Dual inverse(const Dual& x) {
  return chain(x, 1 / x.value, -1 / (x.value * x.value));
}

/// Returns weight `number` of the model.
Dual weight(std::size_t number) {
  constexpr std::array<double, 3> values{0.7, -0.4, 1.3};
  Dual w{values[number], {}};
  w.by[number] = 1;
  return w;
}

double embedded(std::int64_t token, std::int64_t position) {
  return std::sin(0.001 * static_cast<double>(token)) + 0.02 * static_cast<double>(position);
}

/// Computes causal attention of one token over the embeddings up to its own.
Dual attention(double query, const std::vector<double>& keys) {
  const Dual q = weight(0) * Dual{query, {}};
  Dual sum;
  Dual normal;
  for (const double key : keys) {
    const Dual score = exp(q * weight(1) * Dual{key, {}});
    normal = normal + score;
    sum = sum + score * weight(2) * Dual{key, {}};
  }
  return sum * inverse(normal);
}

Dual loss_of(const Dual& output, std::int64_t label) {
  const double target = std::cos(0.01 * static_cast<double>(label));
  const double off = output.value - target;
  return chain(output, off * off, 2 * off);
}

std::vector<double> embeddings_of(const SampleShape& sample) {
  std::vector<double> x;
  for (std::int64_t t = 0; t < sample.length(); ++t) x.push_back(embedded(made_up_token(sample.id, t), t));
  return x;
}

Dual output_of(const SampleShape& sample, std::int64_t t) {
  std::vector<double> keys = embeddings_of(sample);
  const double query = keys[static_cast<std::size_t>(t)];
  keys.resize(static_cast<std::size_t>(t) + 1);
  return attention(query, keys);
}

/// Returns the rows of a sample that carry loss: those before its response's tokens.
std::pair<std::int64_t, std::int64_t> loss_rows(const SampleShape& sample) {
  return {std::max<std::int64_t>(sample.prompt, 1) - 1, std::max<std::int64_t>(sample.length() - 1, 0)};
}

/// Returns the loss of all samples, computed one by one without splitting.
Dual whole_loss(LossAggregation aggregation) {
  std::vector<SampleLoss<Dual>> samples;
  for (std::int64_t id = 0; id < num_samples; ++id) {
    const SampleShape sample = shape_of(id);
    const auto [first, end] = loss_rows(sample);
    SampleLoss<Dual>& own =
        samples.emplace_back(SampleLoss<Dual>{sample.group, {}, std::max<std::int64_t>(0, end - first)});
    for (std::int64_t t = first; t < end; ++t)
      own.sum = own.sum + loss_of(output_of(sample, t), made_up_token(sample.id, t + 1));
  }
  return testing_support::whole_loss(samples, aggregation, norm_length);
}

/// A member's contribution to a group: the embeddings of its true rows, by sequence and position.
struct Row {
  double sequence;
  double position;
  double embedding;
};

class GroupAttention {
 public:
  GroupAttention(const Mesh& mesh, const MicroBatch& m) : m_(m) {
    const auto tokens = m.tensors.find("input_ids")->values<std::int64_t>();
    const auto positions = m.tensors.find("position_ids")->values<std::int64_t>();
    std::vector<Row> own(tokens.size());
    for (std::int64_t i = 0; i < m.tensors.layout.size(); ++i) {
      const RowRange rows = m.tensors.layout.local_range(i);
      for (auto row = static_cast<std::size_t>(rows.begin); row < static_cast<std::size_t>(rows.end); ++row) {
        const bool is_true = positions[row] < m.tensors.samples[static_cast<std::size_t>(i)].length();
        own[row] = {is_true ? static_cast<double>(i) : -1, static_cast<double>(positions[row]),
                    embedded(tokens[row], positions[row])};
      }
    }
    const Communicator& group = mesh.context(m.context);
    EXPECT_EQ(group.size(), m.context.size);
    EXPECT_EQ(group.rank(), m.tensors.cp_rank.value());
    all_.resize(own.size() * static_cast<std::size_t>(group.size()));
    MPI_Allgather(own.data(), static_cast<int>(own.size() * sizeof(Row)), MPI_BYTE, all_.data(),
                  static_cast<int>(own.size() * sizeof(Row)), MPI_BYTE, group);
  }

  /// Returns the loss of this rank's rows, as a trainer computes it. Compares their outputs with those of the
  /// run without splitting.
  [[nodiscard]] Dual loss() const {
    const auto tokens = m_.tensors.find("input_ids")->values<std::int64_t>();
    const auto labels = m_.tensors.find("labels")->values<std::int64_t>();
    const auto positions = m_.tensors.find("position_ids")->values<std::int64_t>();
    const auto weights = m_.tensors.find("loss_weights")->values<float>();
    Dual sum;
    for (std::size_t i = 0; i < m_.loss.token_weights.size(); ++i) {
      const RowRange rows = m_.tensors.layout.local_range(static_cast<std::int64_t>(i));
      for (auto row = static_cast<std::size_t>(rows.begin); row < static_cast<std::size_t>(rows.end); ++row) {
        if (weights[row] == 0.0F) continue;
        const Dual output = output_at(i, positions[row], embedded(tokens[row], positions[row]));
        expect_near(output, output_of(m_.tensors.samples[i], positions[row]), 1e-12, 1e-9);
        sum = sum + loss_of(output, labels[row]) * Dual{m_.loss.token_weights[i], {}};
      }
    }
    return sum * Dual{m_.loss.scale, {}};
  }

  static void expect_near(const Dual& found, const Dual& expected, double close, double close_slopes) {
    EXPECT_NEAR(found.value, expected.value, close * std::max(1.0, std::abs(expected.value)));
    for (std::size_t i = 0; i < found.by.size(); ++i)
      EXPECT_NEAR(found.by[i], expected.by[i], close_slopes * std::max(1.0, std::abs(expected.by[i])));
  }

 private:
  [[nodiscard]] Dual output_at(std::size_t sequence, std::int64_t position, double query) const {
    std::vector<double> keys;
    for (const Row& row : all_) {
      if (row.sequence == static_cast<double>(sequence) && row.position <= static_cast<double>(position))
        keys.push_back(row.embedding);
    }
    EXPECT_EQ(std::ssize(keys), position + 1);
    return attention(query, keys);
  }

  const MicroBatch& m_;
  std::vector<Row> all_;
};

/// Runs the rank's micro-batches in order, waiting only for the members of their groups; at the end, reduces
/// over the ranks like a trainer.
Dual trained_loss(const DataService& service, const Step& step, const LossSettings& settings) {
  Dual sum;
  for (const MicroBatch& m : step.micro_batches) sum = sum + GroupAttention(service.mesh(), m).loss();
  if (settings.micro_batches == Reduction::mean)
    sum = sum * Dual{1 / static_cast<double>(step.micro_batches.size()), {}};
  std::array<double, 4> mine{sum.value, sum.by[0], sum.by[1], sum.by[2]};
  std::array<double, 4> all{};
  boost::mpi::all_reduce(service.mesh().world(), mine.data(), 4, all.data(), std::plus<>());
  const double ranks = settings.dp_ranks == Reduction::mean ? service.mesh().grid().sizes().dp : 1;
  return {all[0] / ranks, {all[1] / ranks, all[2] / ranks, all[3] / ranks}};
}

Config flexible_config(int ranks) {
  Config config;
  config.mesh.flexible_cp = true;
  config.balance.meet = SyncPoint::step;
  config.balance.cost = CostModel{100, 1};
  config.balance.overhead = 10;
  config.balance.communication = {300, 300, 8, 0};  // so expensive that groups are as small as possible
  config.micro_batch.max_tokens_per_rank = ranks == 1 ? 70 : ranks < 4 ? 36 : 18;
  config.loss.norm_length = norm_length;
  return config;
}

class FlexibleContextService : public testing::TestWithParam<Strategy> {
 protected:
  [[nodiscard]] Config config() const {
    Config config = flexible_config(world_.size());
    config.balance.strategy = GetParam();
    return config;
  }

  boost::mpi::communicator world_;
};

TEST_P(FlexibleContextService, attention_over_the_groups_gives_the_uncut_outputs_loss_and_gradients) {
  for (const CpLayout layout : {CpLayout::zigzag, CpLayout::contiguous}) {
    for (const Reduction reduction : {Reduction::sum, Reduction::mean}) {
      for (const LossAggregation aggregation : all_aggregations) {
        Config config = this->config();
        config.pack.cp_layout = layout;
        config.loss.micro_batches = config.loss.dp_ranks = reduction;
        config.loss.aggregation = aggregation;
        DataService service(world_, config);
        const Step step = service.step(share_of(world_));
        GroupAttention::expect_near(trained_loss(service, step, config.loss), whole_loss(aggregation), 1e-12,
                                    1e-9);
      }
    }
  }
}

TEST_P(FlexibleContextService, mixes_groups_of_several_sizes_in_a_step) {
  Config config = this->config();
  DataService service(world_, config);
  const Step step = service.step(share_of(world_));
  std::vector<int> has(static_cast<std::size_t>(world_.size()) + 1);
  for (const MicroBatch& m : step.micro_batches) has[static_cast<std::size_t>(m.context.size)] = 1;
  std::vector<int> any(has.size());
  boost::mpi::all_reduce(world_, has.data(), static_cast<int>(has.size()), any.data(),
                         boost::mpi::maximum<int>());
  const int sizes = static_cast<int>(std::ranges::count(any, 1));
  EXPECT_GE(sizes, world_.size() < 2 ? 1 : world_.size() < 4 ? 2 : 3);
}

/// Returns each micro-batch's tokens as a result, and looks for those of a rank's own samples in the
/// collected results.
void expect_tokens_collected(DataService& service, const Step& step, const RaggedBatch& mine) {
  StepResults results(step.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m)
    results.put(m, {"tokens", DType::int64, FieldKind::token, {}},
                step.micro_batches[m].tensors.find("input_ids")->bytes());
  const RaggedBatch home = service.collect(step, results);
  ASSERT_EQ(home.size(), mine.size());
  EXPECT_TRUE(std::ranges::equal(home.find("tokens")->bytes(), mine.find("input_ids")->bytes()));
}

TEST_P(FlexibleContextService, collects_results_from_every_group) {
  DataService service(world_, config());
  const RaggedBatch mine = share_of(world_);
  expect_tokens_collected(service, service.step(mine), mine);
}

TEST_P(FlexibleContextService, unused_ranks_take_part_in_results_and_later_passes) {
  Config config = this->config();
  config.mesh.max_cp = 1;
  config.micro_batch.max_tokens_per_rank = 70;
  config.profiles["update"] = config.profile({});
  DataService service(world_, config);
  std::vector<SampleShape> shapes;
  if (world_.rank() == 0) shapes.push_back({SampleId{0}, 0, 5, 9});
  const RaggedBatch mine = made_up_batch(std::move(shapes), {});
  Step step = service.step(mine);
  for (int pass = 0; pass < 2; ++pass) {
    ASSERT_EQ(step.micro_batches.size(), 1U);
    const MicroBatch& m = step.micro_batches[0];
    EXPECT_EQ(m.context, (ContextGroup{DataPlace{world_.rank()}, 1}));
    const auto weights = m.tensors.find("loss_weights")->values<float>();
    EXPECT_FALSE(weights.empty());
    EXPECT_EQ(std::ranges::all_of(weights, [](float weight) { return weight == 0; }), m.tensors.empty());
    EXPECT_EQ(boost::mpi::all_reduce(world_, m.tensors.empty() ? 1 : 0, std::plus<>()), world_.size() - 1);
    expect_tokens_collected(service, step, mine);
    if (pass == 0) step = service.step(std::move(step), "update");
  }
}

TEST_P(FlexibleContextService, a_later_pass_may_choose_other_groups) {
  Config config = this->config();
  config.profiles["log-prob"] = config.profile({});
  config.profiles["log-prob"].micro_batch.max_tokens_per_rank = 140;
  config.profiles["update"] = config.profile({});
  DataService service(world_, config);
  Step step = service.step(share_of(world_), "log-prob");
  ASSERT_FALSE(step.micro_batches.empty());
  step = service.step(std::move(step), "update");
  GroupAttention::expect_near(trained_loss(service, step, config.loss), whole_loss(config.loss.aggregation),
                              1e-12, 1e-9);
}

TEST_P(FlexibleContextService, a_sample_too_long_for_every_group_is_everybodys_error) {
  Config config = this->config();
  config.micro_batch.max_tokens_per_rank = 2;
  DataService service(world_, config);
  EXPECT_THROW((void)service.step(share_of(world_)), LimitError);
  config.micro_batch.max_tokens_per_rank.reset();
  EXPECT_THROW(DataService(world_, config), ConfigError);
}

/// Requires that the last rank, which has a quarter of the speed of the others, gets less work.
void expect_less_on_a_slow_rank(Strategy strategy) {
  const boost::mpi::communicator world;
  Config config = flexible_config(world.size());
  config.balance.strategy = strategy;
  config.balance.speeds.assign(static_cast<std::size_t>(world.size()), 1000);
  config.balance.speeds.back() = 250;
  DataService service(world, config);
  const Step step = service.step(share_of(world));
  GroupAttention::expect_near(trained_loss(service, step, config.loss), whole_loss(config.loss.aggregation),
                              1e-12, 1e-9);
  std::int64_t mine = 0;
  for (const MicroBatch& m : step.micro_batches) mine += std::ssize(m.tensors.find("input_ids")->bytes());
  std::vector<std::int64_t> bytes;
  boost::mpi::all_gather(world, mine, bytes);
  const std::int64_t all = std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
  if (world.size() > 1) {
    EXPECT_LT(bytes.back() * world.size(), all);
  }
  // Here costs are times, which the report does not divide by the speed again.
  std::vector<Cost> times;
  boost::mpi::all_gather(world, step.record->plan.cost(), times);
  const auto figures = gather_figures(service.mesh(), service.plan_settings(), step);
  if (figures) {
    EXPECT_DOUBLE_EQ(figures->balance.dp_max_over_mean, max_over_mean(times));
  }
}

TEST(SpeedsOfGroups, give_a_slow_rank_less_without_changing_the_loss) {
  expect_less_on_a_slow_rank(Strategy::hierarchical);
}

TEST(SpeedsOfGroups, give_a_slow_rank_less_of_each_wave_without_changing_the_loss) {
  expect_less_on_a_slow_rank(Strategy::grid);
}

TEST(SpeedsOfGroups, are_one_per_dp_rank_or_everybodys_error) {
  const boost::mpi::communicator world;
  Config config = flexible_config(world.size());
  config.balance.speeds.assign(static_cast<std::size_t>(world.size() + 1), 1000);
  EXPECT_THROW(DataService(world, config), ConfigError);
}

INSTANTIATE_TEST_SUITE_P(Flexible, FlexibleContextService,
                         testing::Values(Strategy::hierarchical, Strategy::grid), [](const auto& tested) {
                           return std::string(tested.param == Strategy::grid ? "waves" : "tree");
                         });

}  // namespace
}  // namespace evenkeel::flexible_test
