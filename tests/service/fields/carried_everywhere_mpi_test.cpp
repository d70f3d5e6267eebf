#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/service/data_service.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "io/samples/sample_writer.hpp"
#include "service/equal_steps.hpp"
#include "source/shared_folder.hpp"
#include "support/carried_samples.hpp"
#include "support/service_ahead.hpp"

// Moves fields of every kind with special treatment (layers, narrow types, several axes, rows, text, bytes,
// equal values) through everything that a job does with fields: read from files, prefetch, deliver, run
// passes with other profiles and with fields added in between, collect results, and resume from a state.

namespace evenkeel::carried_everywhere_test {
namespace {

using test::expect_equal;
using test::SharedFolder;
using testing_support::Carried;
using testing_support::carried_batch;
using testing_support::carried_fields_added_later;
using testing_support::carried_fields_of_every_way;
using testing_support::carried_results;
using testing_support::carried_shape;
using testing_support::expect_carried;
using testing_support::expect_carried_results;
using testing_support::settings_of;
using testing_support::Stage;

constexpr std::int64_t num_carrying = 26;  // samples
constexpr std::int64_t longest_response = 58;
constexpr std::int64_t steps_of_job = 3;

/// Returns a job with steps of 16, 10 and 16 samples, the last of which belongs to another epoch. Some
/// samples are much longer than others.
Config carrying_job(const SharedFolder& folder, int tp, int cp, int pp, int vpp) {
  Config config;
  config.source = folder.source(SourceKind::safetensors, "samples.safetensors");
  config.batch = {.global_batch = 16, .epochs = 2, .shuffle = true, .seed = 3};
  config.mesh.tp = tp;
  config.mesh.cp = cp;
  config.mesh.pp = pp;
  config.mesh.vpp = vpp;
  config.micro_batch.max_tokens = 96;
  config.fields = settings_of(carried_fields_of_every_way());
  config.fields.merge(settings_of(carried_fields_added_later()));
  return config;
}

/// Adds passes in which samples stay on their ranks if possible, and passes in which they are sent again.
void add_passes(Config& config) {
  Profile wide = config.profile({});
  wide.micro_batch.max_tokens = 256;
  if (wide.micro_batch.max_tokens_per_rank) *wide.micro_batch.max_tokens_per_rank *= 4;
  Profile apart = config.profile({});
  apart.pack.cp_layout = CpLayout::contiguous;
  apart.pack.pad_token = 9;
  config.profiles = {{"wide", wide}, {"apart", apart}};
}

Config flexible_job(const SharedFolder& folder, int ranks, int pp, Strategy strategy) {
  Config config = carrying_job(folder, 1, 1, pp, 1);
  const int places = ranks / pp;
  config.mesh.flexible_cp = true;
  config.balance.strategy = strategy;
  config.balance.cost = CostModel{100, 1};
  config.balance.overhead = 10;
  config.balance.communication = {300, 300, 8, 0};  // so expensive that groups are as small as possible
  config.micro_batch.max_tokens_per_rank = places == 1 ? 72 : places < 4 ? 36 : 18;
  return config;
}

/// Returns jobs that cover every path of the exchange, shared tensors, shared prompts, and groups of all
/// sizes.
std::vector<Config> carrying_jobs(const SharedFolder& folder, int ranks) {
  std::vector<Config> jobs;
  const auto add = [&](int tp, int cp, int pp, int vpp, ExchangePath path) -> Config* {
    if (ranks % (tp * cp * pp) != 0) return nullptr;
    Config& config = jobs.emplace_back(carrying_job(folder, tp, cp, pp, vpp));
    config.exchange.path = path;
    return &config;
  };
  add(1, 1, 1, 1, ExchangePath::automatic);
  if (Config* const config = add(2, 1, 2, 1, ExchangePath::point_to_point))
    config->exchange.tp_copies = TensorParallelCopies::shared;
  add(1, 2, 2, 2, ExchangePath::alltoallv);
  if (Config* const config = add(1, 2, 1, 1, ExchangePath::automatic)) {
    config->prefix = PrefixSharing::prompts;
    config->exchange.aggregate = NodeAggregation::always;
  }
  add(1, 1, 3, 1, ExchangePath::point_to_point);
  add(1, 7, 1, 1, ExchangePath::alltoallv);
  jobs.push_back(flexible_job(folder, ranks, 1, Strategy::hierarchical));
  jobs.push_back(flexible_job(folder, ranks, ranks % 2 == 0 ? 2 : 1, Strategy::grid));
  jobs.back().exchange.path = ExchangePath::point_to_point;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    add_passes(jobs[i]);
    jobs[i].exchange.prefetch = i % 2 == 0 ? 2 : 0;
  }
  return jobs;
}

/// The trainer of a job: takes prefetched steps, and makes several passes over each of them.
class Trainer {
 public:
  Trainer(const boost::mpi::communicator& world, const Config& config, const ServiceState& from)
      : service_(world, config, from),
        read_ahead_(world, config),
        samples_(world, config),
        steps_(
            world, config, steps_of_job, [&](std::int64_t step) { return read_ahead_.read(step); }, from),
        here_{service_.mesh().here().pp, config.mesh.pp, config.mesh.vpp} {}

  /// Returns all passes over the next step; no passes after the last step. Each pass is checked as soon as it
  /// is made.
  std::vector<Step> next() {
    std::vector<Step> passes;
    std::optional<Step> first = steps_.next();
    if (!first) return passes;
    passes.push_back(*std::move(first));
    expect(passes.back(), fields_);
    expect_collected(passes.back(), fields_);
    pass_over(passes, "wide", late_, both_);
    pass_over(passes, "", {}, both_);
    pass_over(passes, "apart", {}, both_);
    expect_collected(passes.back(), both_);
    return passes;
  }

  [[nodiscard]] ServiceState state() const { return parse_state(to_text(steps_.state()), "a state"); }

 private:
  /// Makes a pass with a profile and with fields that owners add; the step must contain `carried`.
  void pass_over(std::vector<Step>& passes, const char* profile, const std::vector<Carried>& added,
                 const std::vector<Carried>& carried) {
    const RaggedBatch mine = samples_.read(passes.front().index);
    RaggedBatch extra;
    if (!added.empty())
      extra = carried_batch({mine.samples().begin(), mine.samples().end()}, added, /*with_tokens=*/false);
    passes.push_back(service_.step(passes.back(), profile, extra));
    expect(passes.back(), carried);
  }

  void expect(const Step& step, const std::vector<Carried>& fields) const {
    for (const MicroBatch& m : step.micro_batches) expect_carried(m.tensors, fields, here_);
  }

  void expect_collected(const Step& step, const std::vector<Carried>& fields) const {
    StepResults results(step.micro_batches.size());
    for (std::size_t m = 0; m < step.micro_batches.size() && reports_results(service_.mesh()); ++m) {
      for (const Column& column : carried_results(step.micro_batches[m].tensors, fields)) {
        std::vector<std::int64_t> counts;
        for (std::int64_t i = 0; i < column.samples().size(); ++i)
          counts.push_back(column.samples()[i].size());
        if (is_counted(column.spec().kind)) {
          results.put(m, column.spec(), counts, column.bytes());
        } else {
          results.put(m, column.spec(), column.bytes());
        }
      }
    }
    expect_carried_results(service_.collect(step, results), fields, {here_.of - 1, here_.of, here_.vpp});
  }

  const std::vector<Carried> fields_ = carried_fields_of_every_way();
  const std::vector<Carried> late_ = carried_fields_added_later();
  const std::vector<Carried> both_ = [this] {
    std::vector<Carried> both = fields_;
    both.insert(both.end(), late_.begin(), late_.end());
    return both;
  }();
  DataService service_;
  SampleStream read_ahead_;  // used on the prefetcher's thread, if it has one
  SampleStream samples_;
  test::ServiceAhead steps_;
  Stage here_;
};

/// Returns the number of different group sizes among the micro-batches of all ranks.
std::int64_t sizes_of_groups(const boost::mpi::communicator& world, const std::vector<Step>& passes) {
  std::array<int, 9> has{};
  for (const MicroBatch& m : passes.front().micro_batches)
    has.at(static_cast<std::size_t>(m.context.size)) = 1;
  std::array<int, 9> any{};
  boost::mpi::all_reduce(world, has.data(), 9, any.data(), boost::mpi::maximum<int>());
  return std::ranges::count(any, 1);
}

// The step that begins a new epoch is also made from a state.
TEST(CarriedEverywhere, fields_of_every_way_go_through_files_steps_ahead_passes_results_and_a_resume) {
  const boost::mpi::communicator world;
  const SharedFolder folder([](const std::filesystem::path& path) {
    std::vector<SampleShape> shapes;
    for (std::int64_t id = 0; id < num_carrying; ++id) shapes.push_back(carried_shape(id, longest_response));
    const auto writer = make_sample_writer(SampleFormat::safetensors, path / "samples.safetensors", {});
    writer->write(carried_batch(shapes, carried_fields_of_every_way()));
    writer->close();
  });
  for (const Config& config : carrying_jobs(folder, world.size())) {
    const testing::ScopedTrace trace(
        __FILE__, __LINE__,
        "tp " + std::to_string(config.mesh.tp) + " cp " + std::to_string(config.mesh.cp) + " pp " +
            std::to_string(config.mesh.pp) + (config.mesh.flexible_cp ? ", flexible" : ""));
    constexpr std::size_t middle = 2;
    std::vector<std::vector<Step>> whole;
    ServiceState state;
    {
      Trainer trainer(world, config, state_of_new_job(config));
      for (std::vector<Step> passes = trainer.next(); !passes.empty(); passes = trainer.next()) {
        whole.push_back(std::move(passes));
        if (whole.size() == middle) state = trainer.state();
      }
    }
    ASSERT_EQ(std::ssize(whole), steps_of_job);
    if (config.mesh.flexible_cp) {
      EXPECT_GE(sizes_of_groups(world, whole.front()), world.size() / config.mesh.pp > 1 ? 2 : 1);
    }
    Trainer resumed(world, config, state);
    for (std::size_t at = middle; at < whole.size(); ++at) {
      const std::vector<Step> passes = resumed.next();
      ASSERT_EQ(passes.size(), whole[at].size());
      for (std::size_t p = 0; p < passes.size(); ++p) {
        EXPECT_EQ(passes[p].index, static_cast<std::int64_t>(at));
        expect_equal(passes[p], whole[at][p]);
      }
    }
    EXPECT_TRUE(resumed.next().empty());
    if (boost::mpi::all_reduce(world, testing::Test::HasFailure() ? 1 : 0, boost::mpi::maximum<int>()) > 0)
      return;  // one failed job is enough information, and all ranks stop at it
  }
}

/// Returns a batch without samples, which has fields with these names but of another kind and with other
/// elements.
RaggedBatch nothing_of_other_fields(const std::vector<Carried>& fields) {
  RaggedBatch batch;
  for (const Carried& field : fields) {
    if (is_counted(field.spec.kind)) {
      batch.add_field(Column({field.name(), DType::float64, FieldKind::sample, {}}, 0));
    } else {
      batch.add_field(Column({field.name(), DType::uint8, FieldKind::text, {}}, SampleRows::from_counts({})));
    }
  }
  return batch;
}

TEST(CarriedEverywhere, a_rank_without_samples_may_have_columns_of_any_type) {
  const boost::mpi::communicator world;
  Config config;
  config.mesh.pp = world.size() % 2 == 0 ? 2 : 1;
  config.micro_batch.max_tokens = 96;
  config.fields = settings_of(carried_fields_of_every_way());
  config.fields.merge(settings_of(carried_fields_added_later()));
  add_passes(config);
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < num_carrying && world.rank() == 0; ++id) shapes.push_back(carried_shape(id));
  const auto bring = [&](const std::vector<Carried>& fields, bool with_tokens) {
    return world.rank() == 0 ? carried_batch(shapes, fields, with_tokens) : nothing_of_other_fields(fields);
  };
  std::vector<Carried> fields = carried_fields_of_every_way();
  const std::vector<Carried> late = carried_fields_added_later();
  DataService service(world, config);
  const Stage here{service.mesh().here().pp, config.mesh.pp, 1};
  Step step = service.step(bring(fields, true));
  for (const MicroBatch& m : step.micro_batches) expect_carried(m.tensors, fields, here);
  fields.insert(fields.end(), late.begin(), late.end());
  for (const RaggedBatch& added : {bring(late, false), RaggedBatch{}}) {
    step = service.step(std::move(step), "apart", added);
    for (const MicroBatch& m : step.micro_batches) expect_carried(m.tensors, fields, here);
  }
}

}  // namespace
}  // namespace evenkeel::carried_everywhere_test
