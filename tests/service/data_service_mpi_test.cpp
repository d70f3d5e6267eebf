#include "evenkeel/service/data_service.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <functional>
#include <ranges>
#include <set>

#include "report/step_figures.hpp"
#include "support/error_message.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel::data_service_test {
namespace {

using testing::HasSubstr;
using testing_support::made_up_batch;
using testing_support::made_up_shape;

Config config_with_cap(std::int64_t max_tokens) {
  Config config;
  config.micro_batch.max_tokens = max_tokens;
  return config;
}

/// Returns samples first..first+count-1, owned by the ranks in turn.
RaggedBatch share_of(const boost::mpi::communicator& comm, std::int64_t first, std::int64_t count) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = first; id < first + count; ++id) {
    if (id % comm.size() == comm.rank()) shapes.push_back(made_up_shape(id));
  }
  return made_up_batch(std::move(shapes), testing_support::made_up_fields());
}

std::int64_t count_samples(const Step& step) {
  std::int64_t samples = 0;
  for (const PackedMicroBatch& m : step.micro_batches | std::views::transform(&MicroBatch::tensors)) {
    samples += std::ranges::count_if(m.samples, [](const SampleShape& s) { return s.id != filler_sample; });
  }
  return samples;
}

std::set<int> first_middle_last(const boost::mpi::communicator& world) {
  return {0, world.size() / 2, world.size() - 1};
}

TEST(DataService, delivers_new_samples_step_after_step) {
  const boost::mpi::communicator world;
  DataService service(world, config_with_cap(200));
  for (std::int64_t t = 0; t < 3; ++t) {
    const std::int64_t count = 10 + 17 * t;
    const Step step = service.step(share_of(world, 1000 * t, count));
    EXPECT_EQ(step.index, t);
    EXPECT_EQ(boost::mpi::all_reduce(world, count_samples(step), std::plus<>()), count);
    const auto k = static_cast<std::int64_t>(step.micro_batches.size());
    EXPECT_EQ(boost::mpi::all_reduce(world, k, boost::mpi::maximum<std::int64_t>()), k);
    for (const PackedMicroBatch& m : step.micro_batches | std::views::transform(&MicroBatch::tensors))
      EXPECT_LE(m.layout.num_rows(), 200);
  }
}

TEST(DataService, mean_weights_of_all_ranks_sum_to_the_number_of_dp_ranks) {
  const boost::mpi::communicator world;
  DataService service(world, config_with_cap(100));
  const Step step = service.step(share_of(world, 0, 40));
  double sum = 0;
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    if (step.micro_batches[m].tensors.empty()) {
      EXPECT_EQ(step.micro_batches[m].loss.mean_weight, 0.0);
    }
    sum += step.micro_batches[m].loss.mean_weight;
  }
  EXPECT_NEAR(boost::mpi::all_reduce(world, sum, std::plus<>()), world.size(), 1e-12);
}

TEST(DataService, fewer_samples_than_ranks_leave_empty_micro_batches_of_legal_shape) {
  const boost::mpi::communicator world;
  DataService service(world, config_with_cap(100));
  const Step step = service.step(share_of(world, 0, 1));
  ASSERT_EQ(step.micro_batches.size(), 1U);
  EXPECT_GT(step.micro_batches[0].tensors.layout.local_rows(), 0);
  EXPECT_EQ(boost::mpi::all_reduce(world, count_samples(step), std::plus<>()), 1);
}

TEST(DataService, works_on_half_of_the_world) {
  const boost::mpi::communicator world;
  const boost::mpi::communicator half = world.split(world.rank() % 2);
  DataService service(half, config_with_cap(300));
  const Step step = service.step(share_of(half, 0, 20 + world.rank() % 2));
  EXPECT_EQ(boost::mpi::all_reduce(half, count_samples(step), std::plus<>()), 20 + world.rank() % 2);
}

TEST(DataService, a_reader_that_fails_on_one_rank_fails_on_all_and_the_next_step_works) {
  const boost::mpi::communicator world;
  DataService service(world, config_with_cap(200));
  for (const int bad : first_middle_last(world)) {
    try {
      (void)service.step([&]() -> RaggedBatch {
        if (world.rank() == bad) throw InputError("rollouts.jsonl:5", "malformed");
        return share_of(world, 0, 12);
      });
      FAIL() << "rank " << bad << " failed";
    } catch (const InputError& error) {
      EXPECT_EQ(error.report().where, "rollouts.jsonl:5");
      EXPECT_EQ(error.report().rank, bad);
    }
    const Step step = service.step(share_of(world, 0, 12));
    EXPECT_EQ(boost::mpi::all_reduce(world, count_samples(step), std::plus<>()), 12);
  }
}

TEST(DataService, a_negative_token_on_one_rank_is_everybodys_error) {
  const boost::mpi::communicator world;
  DataService service(world, Config{});
  for (const int bad : first_middle_last(world)) {
    RaggedBatch mine =
        made_up_batch({{SampleId{world.rank()}, 0, 2, 3}, {SampleId{100 + world.rank()}, 0, 1, 1}}, {});
    if (world.rank() == bad) mine.find("input_ids")->values<std::int64_t>()[5] = -9;
    try {
      (void)service.step(mine);
      FAIL() << "rank " << bad << " has a negative token";
    } catch (const InputError& error) {
      EXPECT_EQ(error.report().where, "sample " + std::to_string(100 + bad));
      EXPECT_THAT(error.what(), HasSubstr("-9"));
    }
  }
}

TEST(DataService, an_invalid_sample_is_named_on_ranks_that_failed_to_read) {
  const boost::mpi::communicator world;
  DataService service(world, Config{});
  const auto read = [&]() -> RaggedBatch {
    if (world.rank() != 0) throw IoError("source", "cannot be read");
    RaggedBatch mine = made_up_batch({{SampleId{4}, 0, 2, 3}}, {});
    mine.find(input_ids_field)->values<std::int64_t>()[0] = -3;
    mine.set_names_in_errors([](ErrorReport report) {
      report.where = "line 7";
      report.samples.clear();
      return report;
    });
    return mine;
  };
  try {
    (void)service.step(read);
    FAIL() << "rank 0 has a negative token";
  } catch (const InputError& error) {
    EXPECT_EQ(error.report().where, "line 7");
  }
}

TEST(DataService, a_sample_above_the_cap_is_everybodys_limit_error) {
  const boost::mpi::communicator world;
  DataService service(world, config_with_cap(16));
  for (const int bad : first_middle_last(world)) {
    const std::int64_t length = world.rank() == bad ? 17 : 16;
    EXPECT_THROW((void)service.step(made_up_batch({{SampleId{world.rank()}, 0, 1, length - 1}}, {})),
                 LimitError);
  }
}

TEST(DataService, samples_without_tokens_are_refused) {
  const boost::mpi::communicator world;
  DataService service(world, Config{});
  EXPECT_THROW((void)service.step(RaggedBatch({{SampleId{0}, 0, 1, 1}})), InputError);
}

/// Returns the error of a step for which `change` has made the samples of rank `bad` invalid.
std::string refusal_of(const boost::mpi::communicator& world, int bad,
                       const std::function<void(RaggedBatch&)>& change) {
  DataService service(world, Config{});
  RaggedBatch mine = share_of(world, 0, 12);
  const RaggedBatch right = mine;
  if (world.rank() == bad) change(mine);
  const std::string message = testing_support::message_of([&] { (void)service.step(mine); });
  EXPECT_EQ(boost::mpi::all_reduce(world, count_samples(service.step(right)), std::plus<>()), 12);
  return message;
}

TEST(DataService, columns_modified_outside_of_the_batch_are_everybodys_error) {
  const boost::mpi::communicator world;
  for (const int bad : first_middle_last(world)) {
    EXPECT_THAT(refusal_of(world, bad, [](RaggedBatch& batch) { batch.find("input_ids")->resize(1); }),
                HasSubstr("field 'input_ids': has 1 row;"));
    EXPECT_THAT(refusal_of(world, bad,
                           [](RaggedBatch& batch) {
                             batch.add_field({"twin", DType::int64, FieldKind::token, {}});
                             *batch.find("twin") = *batch.find("input_ids");
                           }),
                HasSubstr("field 'input_ids': appears twice"));
  }
}

TEST(DataService, a_sample_with_the_id_of_filler_is_everybodys_error) {
  const boost::mpi::communicator world;
  for (const int bad : first_middle_last(world)) {
    EXPECT_THAT(refusal_of(world, bad,
                           [](RaggedBatch& batch) {
                             batch = made_up_batch({{filler_sample, 0, 2, 3}}, {});
                           }),
                HasSubstr("sample -1"));
  }
}

TEST(DataService, rows_longer_than_2_gib_are_everybodys_limit_error) {
  const boost::mpi::communicator world;
  for (const int bad : first_middle_last(world)) {
    EXPECT_THAT(
        refusal_of(
            world, bad,
            [](RaggedBatch& batch) {
              batch = made_up_batch({{SampleId{1}, 0, 2, 0}}, {});
              batch.add_field({"wide", DType::uint8, FieldKind::response_token, {std::int64_t{1} << 31}});
            }),
        HasSubstr("at most 2147483647"));
  }
}

TEST(DataService, a_mesh_that_does_not_fit_throws_on_every_rank) {
  const boost::mpi::communicator world;
  Config config;
  config.mesh.dp = world.size() + 1;
  EXPECT_THROW(DataService(world, config), MeshError);
  config.mesh.dp.reset();
  config.mesh.tp = world.size() * 2;
  EXPECT_THROW(DataService(world, config), MeshError);
}

TEST(DataService, inconsistent_settings_of_fields_throw_on_every_rank) {
  const boost::mpi::communicator world;
  const auto refusal = [&](const FieldSettings& settings) {
    Config config;
    config.fields["experts"] = settings;
    try {
      const DataService service(world, config);
      return std::string("accepted");
    } catch (const ConfigError& error) {
      return error.report().where;
    }
  };
  FieldSettings settings;
  settings.layers = LayerMap{{{0}, {1}}};  // layers of two stages, but there is only one stage
  EXPECT_EQ(refusal(settings), "fields.experts.layers");
  settings = {};
  settings.share = FieldSharing::equal;
  settings.cut_by = "spans";
  EXPECT_EQ(refusal(settings), "fields.experts.cut_by");
  settings = {};
  settings.profiles = {"nobody's"};
  EXPECT_EQ(refusal(settings), "fields.experts.profiles");
}

TEST(GatherFigures, counts_everything_over_all_ranks_on_rank_0) {
  const boost::mpi::communicator world;
  Config config = config_with_cap(240);
  config.mesh.cp = world.size() % 2 == 0 ? 2 : 1;
  DataService service(world, config);
  const Step step = service.step(share_of(world, 0, 50));
  const std::optional<StepFigures> figures = gather_figures(service.mesh(), service.plan_settings(), step);
  ASSERT_EQ(figures.has_value(), world.rank() == 0);
  if (!figures) return;
  EXPECT_EQ(figures->samples, 50);
  std::int64_t tokens = 0;
  std::int64_t longest = 0;
  for (std::int64_t id = 0; id < 50; ++id) {
    tokens += made_up_shape(id).length();
    longest = std::max(longest, align_up(made_up_shape(id).length(), service.plan_settings().alignment()));
  }
  EXPECT_EQ(figures->tokens, tokens);
  EXPECT_EQ(figures->padded_rows, 50 * longest);
  EXPECT_GE(figures->rows, tokens);
  EXPECT_LE(figures->widest, 240);
  EXPECT_EQ(figures->micro_batches, static_cast<std::int64_t>(step.micro_batches.size()));
  EXPECT_LE(figures->lower_bound, figures->micro_batches);
  EXPECT_GE(figures->sent_bytes + figures->kept_bytes, tokens * 8);
  EXPECT_GE(figures->balance.step_max_over_mean, figures->balance.dp_max_over_mean);
}

}  // namespace
}  // namespace evenkeel::data_service_test
