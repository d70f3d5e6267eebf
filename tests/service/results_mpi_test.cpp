#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <functional>
#include <string>

#include "evenkeel/pack/padded.hpp"
#include "evenkeel/service/data_service.hpp"
#include "exchange/result_exchange.hpp"
#include "job/hash_consumer.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel::results_test {
namespace {

using testing::HasSubstr;
using testing_support::made_up_batch;
using testing_support::made_up_fields;
using testing_support::made_up_shape;

constexpr std::int64_t num_samples = 41;

std::vector<Config> configs_for(int ranks) {
  std::vector<Config> configs;
  for (const auto& [tp, cp, pp] :
       {std::tuple{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 4, 1}, {2, 2, 1}, {1, 2, 2}, {1, 1, 3}, {1, 7, 1}}) {
    if (ranks % (tp * cp * pp) != 0) continue;
    Config config;
    config.mesh.tp = tp;
    config.mesh.cp = cp;
    config.mesh.pp = pp;
    config.micro_batch.max_tokens = 300;
    config.exchange.path = cp % 2 == 0 ? ExchangePath::alltoallv : ExchangePath::automatic;
    configs.push_back(config);
    config.pack.cp_layout = CpLayout::contiguous;
    config.balance.strategy = Strategy::grid;
    configs.push_back(config);
    config.balance.strategy = Strategy::hierarchical;
    config.micro_batch.mode = MicroBatchMode::padded;
    config.micro_batch.length_round = 8;
    configs.push_back(config);
    config.pack.cp_layout = CpLayout::zigzag;
    config.micro_batch.mode = MicroBatchMode::fixed;
    config.micro_batch.size = 4;
    config.micro_batch.shuffle = true;
    config.mini_batches.count = 3;
    configs.push_back(config);
  }
  const std::vector<Config> packed = configs;
  for (Config config : packed) {
    config.pack.deliver = Delivery::samples;
    configs.push_back(config);
  }
  return configs;
}

/// Returns this rank's samples, which are not in the order of their ids.
RaggedBatch share_of(const boost::mpi::communicator& comm) {
  std::vector<SampleShape> shapes;
  for (std::int64_t i = 0; i < num_samples; ++i) {
    const std::int64_t id = i * 7 % num_samples;
    if (id * id % comm.size() == comm.rank()) shapes.push_back(made_up_shape(id));
  }
  return made_up_batch(std::move(shapes), made_up_fields());
}

std::vector<std::int64_t> counts_of(const SampleRows& samples) {
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i < samples.size(); ++i) counts.push_back(samples[i].size());
  return counts;
}

/// Returns every field of the step as a result, as if the trainer had computed it.
StepResults echo(const Step& step, const RaggedBatch& like) {
  StepResults results(step.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    for (const Column& field : step.micro_batches[m].tensors.fields) {
      const Column* original = like.find(field.spec().name);
      FieldSpec spec = field.spec();
      for (const FieldSpec& made_up : made_up_fields()) {
        if (made_up.name == spec.name) spec.kind = made_up.kind;
      }
      if (original == nullptr && spec.name != "labels") continue;
      if (is_counted(spec.kind)) {
        results.put(m, std::move(spec), counts_of(field.samples()), field.bytes());
      } else {
        results.put(m, std::move(spec), field.bytes());
      }
    }
  }
  return results;
}

// No row predicts a response token at the start of its sequence, so nothing is collected for it.
void clear_unpredicted(const RaggedBatch& batch, Column& column) {
  if (column.spec().kind != FieldKind::response_token) return;
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const SampleShape& sample = batch.samples()[static_cast<std::size_t>(i)];
    const RowRange rows = batch.rows_of(FieldKind::response_token, i);
    if (sample.prompt == 0 && rows.size() > 0)
      std::fill_n(column.row(rows.begin), column.spec().row_bytes(), std::byte{0});
  }
}

TEST(CollectResults, return_every_bit_in_the_original_order) {
  const boost::mpi::communicator world;
  RaggedBatch mine = share_of(world);
  for (const Config& config : configs_for(world.size())) {
    DataService service(world, config);
    const Step step = service.step(mine);
    const RaggedBatch back = service.collect(step, echo(step, made_up_batch({}, made_up_fields())));
    EXPECT_TRUE(std::ranges::equal(back.samples(), mine.samples()));
    for (const Column& original : mine.fields()) {
      Column expected = original;
      clear_unpredicted(mine, expected);
      EXPECT_EQ(back.at(original.spec().name), expected) << original.spec().name;
    }
  }
}

TEST(CollectResults, ranks_with_different_numbers_of_micro_batches_get_all_results_back) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;  // with one DP rank, there is only one number
  // A long sample is as much work as 25 short ones, which need several micro-batches.
  std::vector<SampleShape> shapes;
  if (world.rank() % 2 == 0) {
    shapes.push_back({SampleId{100 * world.rank()}, 0, 20, 40});
    for (std::int64_t i = 1; i <= 25; ++i) shapes.push_back({SampleId{100 * world.rank() + i}, 0, 4, 8});
  }
  const RaggedBatch mine = made_up_batch(std::move(shapes), made_up_fields());
  Config config;
  config.micro_batch.max_tokens = 64;
  config.micro_batch.equal_counts = EqualCounts::automatic;
  config.balance.meet = SyncPoint::step;
  config.balance.cost = {1, 10};
  config.balance.overhead = 1000;
  DataService service(world, config);
  const Step step = service.step(mine);
  std::vector<std::size_t> counts;
  boost::mpi::all_gather(world, step.micro_batches.size(), counts);
  EXPECT_LT(std::ranges::min(counts), std::ranges::max(counts));
  const RaggedBatch back = service.collect(step, echo(step, made_up_batch({}, made_up_fields())));
  EXPECT_TRUE(std::ranges::equal(back.samples(), mine.samples()));
  for (const Column& original : mine.fields())
    EXPECT_EQ(back.at(original.spec().name), original) << original.spec().name;
}

TEST(CollectResults, return_labels_as_next_tokens) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  DataService service(world, configs_for(world.size()).back());
  const Step step = service.step(mine);
  const RaggedBatch back = service.collect(step, echo(step, mine));
  const auto tokens = mine.at("input_ids").values<std::int64_t>();
  const auto labels = back.at("labels").values<std::int64_t>();
  for (std::int64_t i = 0; i < mine.size(); ++i) {
    const RowRange rows = mine.rows_of(FieldKind::token, i);
    for (std::int64_t t = rows.begin; t < rows.end; ++t) {
      const auto at = static_cast<std::size_t>(t);
      EXPECT_EQ(labels[at], t + 1 < rows.end ? tokens[at + 1] : -100);
    }
  }
}

TEST(CollectResults, a_missing_result_on_one_rank_is_everybodys_error) {
  const boost::mpi::communicator world;
  Config config;
  config.micro_batch.max_tokens = 100;
  config.micro_batch.min_count = 3;
  DataService service(world, config);
  const Step step = service.step(share_of(world));
  for (const int bad : {0, world.size() / 2, world.size() - 1}) {
    StepResults results(step.micro_batches.size());
    for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
      if (world.rank() == bad && m == 1) continue;
      results.put(m, "log_probs", FieldKind::token,
                  step.micro_batches[m].tensors.find("loss_mask")->values<float>());
    }
    try {
      (void)service.collect(step, results);
      FAIL() << "rank " << bad << " forgot micro-batch 1";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("micro-batch 1"));
      EXPECT_EQ(error.report().rank, bad);
    }
  }
}

TEST(CollectResults, wrong_rows_are_everybodys_error) {
  const boost::mpi::communicator world;
  DataService service(world, Config{});
  const Step step = service.step(share_of(world));
  StepResults results(step.micro_batches.size());
  const std::vector<float> one(1);
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    results.put(m, "log_probs", FieldKind::token, std::span<const float>(one));
  }
  EXPECT_THROW((void)service.collect(step, results), InputError);
}

/// Returns the error of collecting if rank `bad` adds `wrong` to a correct result.
std::string refusal_of(const boost::mpi::communicator& world, int bad,
                       const std::function<void(StepResults&, const Step&)>& wrong) {
  DataService service(world, Config{});
  const RaggedBatch mine = share_of(world);
  const Step step = service.step(mine);
  const auto right = [&] {
    StepResults results(step.micro_batches.size());
    for (std::size_t m = 0; m < step.micro_batches.size(); ++m)
      results.put(m, "log_probs", FieldKind::token,
                  step.micro_batches[m].tensors.find("loss_mask")->values<float>());
    return results;
  };
  StepResults results = right();
  if (world.rank() == bad) wrong(results, step);
  std::string message = "nothing was thrown";
  try {
    (void)service.collect(step, results);
  } catch (const InputError& error) {
    EXPECT_EQ(error.report().rank, bad);
    message = error.what();
  }
  EXPECT_EQ(service.collect(step, right()).at("log_probs").rows(), mine.num_tokens());
  return message;
}

TEST(CollectResults, an_invalid_result_on_one_rank_is_everybodys_error) {
  const boost::mpi::communicator world;
  for (const int bad : {0, world.size() / 2, world.size() - 1}) {
    EXPECT_THAT(refusal_of(world, bad,
                           [](StepResults& results, const Step& step) {
                             const Column& mask = *step.micro_batches[0].tensors.find("loss_mask");
                             std::vector<std::byte> bytes(mask.bytes().begin(), mask.bytes().end());
                             bytes.push_back(std::byte{0});
                             results.put(0, {"values", DType::float32, FieldKind::token, {}}, bytes);
                           }),
                HasSubstr("not a multiple of the row size of 4 bytes"));
    const std::vector<std::byte> eight(8);
    const auto putting = [&](std::size_t m, const FieldSpec& spec) {
      return refusal_of(world, bad,
                        [&, m](StepResults& results, const Step&) { results.put(m, spec, eight); });
    };
    EXPECT_THAT(putting(0, {"none", DType::float32, FieldKind::token, {0}}),
                HasSubstr("not a multiple of the row size of 0"));
    EXPECT_THAT(putting(0, {"log_probs", DType::float32, FieldKind::token, {}}), HasSubstr("added twice"));
    EXPECT_THAT(putting(7777, {"late", DType::float32, FieldKind::token, {}}), HasSubstr("micro-batch 7777"));
    EXPECT_THAT(putting(0, {"wide", DType::float32, FieldKind::token, {std::int64_t{1} << 62}}),
                HasSubstr("2^63 bytes"));
    EXPECT_THAT(putting(0, {"thin", DType::float32, FieldKind::token, {-2}}), HasSubstr("negative"));
  }
}

TEST(CollectResults, a_step_without_results_gives_the_samples_back_without_fields) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  DataService service(world, Config{});
  const Step step = service.step(mine);
  const RaggedBatch back = service.collect(step, StepResults(step.micro_batches.size()));
  EXPECT_EQ(back.size(), mine.size());
  EXPECT_TRUE(back.fields().empty());
}

TEST(HashTokens, do_not_depend_on_supplied_position_ids) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  RaggedBatch with_positions = mine;
  testing_support::fill_made_up(
      with_positions, with_positions.add_field({"position_ids", DType::int32, FieldKind::token, {3}}));
  DataService service(world, Config{});
  const auto hashes = [&](const RaggedBatch& samples) {
    const Step step = service.step(samples);
    return service.collect(step, hash_tokens(step));
  };
  const RaggedBatch expected = hashes(mine);
  const RaggedBatch found = hashes(with_positions);
  for (const char* name : {"token_hash", "response_hash", "sample_hash"})
    EXPECT_EQ(found.at(name), expected.at(name)) << name;
}

TEST(GatherSamples, the_root_gets_everything_in_order_of_sample_ids) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  const int root = world.size() - 1;
  const RaggedBatch all = gather_samples(world, mine, root, {ExchangePath::automatic, 64});
  if (world.rank() != root) {
    EXPECT_EQ(all.size(), 0);
    return;
  }
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < num_samples; ++id) shapes.push_back(made_up_shape(id));
  const RaggedBatch expected = made_up_batch(std::move(shapes), made_up_fields());
  EXPECT_TRUE(std::ranges::equal(all.samples(), expected.samples()));
  for (const Column& column : expected.fields()) EXPECT_EQ(all.at(column.spec().name), column);
}

}  // namespace
}  // namespace evenkeel::results_test
