#include "job/output/dump.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <functional>
#include <string>
#include <vector>

#include "evenkeel/service/data_service.hpp"
#include "job/job.hpp"
#include "support/error_message.hpp"
#include "support/made_up_batch.hpp"
#include "support/safetensors_file.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel::dump_test {
namespace {

using testing::HasSubstr;
using testing_support::SafetensorsFile;

/// Returns three samples for one prompt, of which 0 and 2 are equal, and one sample for another prompt, on
/// rank 0.
RaggedBatch equal_samples(const boost::mpi::communicator& comm) {
  if (comm.rank() != 0) return {};
  RaggedBatch batch(
      {{SampleId{0}, 1, 2, 2}, {SampleId{1}, 1, 2, 1}, {SampleId{2}, 1, 2, 2}, {SampleId{3}, 2, 1, 3}});
  const std::vector<std::int64_t> tokens{5, 6, 7, 8, 5, 6, 9, 5, 6, 7, 8, 4, 1, 2, 3};
  std::ranges::copy(
      tokens,
      batch.add_field({"input_ids", DType::int64, FieldKind::token, {}}).values<std::int64_t>().begin());
  const std::vector<double> rewards{0.0, 0.1, 0.2, 0.3};
  std::ranges::copy(
      rewards, batch.add_field({"reward", DType::float64, FieldKind::sample, {}}).values<double>().begin());
  return batch;
}

Config config_of(PrefixSharing sharing, const boost::mpi::communicator& comm) {
  Config config;
  config.prefix = sharing;
  config.mesh.cp = comm.size();  // every rank gets all samples
  config.pack.cp_layout = CpLayout::contiguous;
  return config;
}

template <typename T>
std::vector<T> values_of(const SafetensorsFile& file, std::string_view name) {
  const std::span<const std::byte> bytes = file.at(name).bytes;
  const auto* const first = reinterpret_cast<const T*>(bytes.data());
  return {first, first + bytes.size() / sizeof(T)};
}

/// Returns the first micro-batch of this rank, as in the dump.
SafetensorsFile dumped(const boost::mpi::communicator& comm, const Config& config) {
  DataService service(comm, config);
  const Step step = service.step(equal_samples(comm));
  const testing_support::ScratchFolder scratch;
  const GridPoint place = service.mesh().here();
  dump_step(scratch.path(), step, {service.mesh().grid().sizes(), place});
  return SafetensorsFile(dump_folder(scratch.path(), 0, place) / "mb-00000.safetensors");
}

TEST(Dump, lists_every_sample_in_the_order_of_its_own_rows_equal_ones_too) {
  const boost::mpi::communicator world;
  for (const PrefixSharing sharing : {PrefixSharing::none, PrefixSharing::prompts, PrefixSharing::trees}) {
    const SafetensorsFile file = dumped(world, config_of(sharing, world));
    const auto samples = values_of<std::int64_t>(file, "sample_index");
    std::vector<std::int64_t> sorted = samples;
    std::ranges::sort(sorted);
    EXPECT_THAT(sorted, testing::ElementsAre(0, 1, 2, 3));
    const auto rewards = values_of<double>(file, "reward");
    ASSERT_EQ(rewards.size(), samples.size());
    for (std::size_t i = 0; i < samples.size(); ++i)
      EXPECT_EQ(rewards[i], equal_samples(boost::mpi::communicator(MPI_COMM_SELF, boost::mpi::comm_attach))
                                .at("reward")
                                .values<double>()[static_cast<std::size_t>(samples[i])]);
  }
}

TEST(Dump, records_the_sample_of_each_prediction) {
  const boost::mpi::communicator world;
  for (const PrefixSharing sharing : {PrefixSharing::prompts, PrefixSharing::trees}) {
    const SafetensorsFile file = dumped(world, config_of(sharing, world));
    const auto samples = values_of<std::int64_t>(file, "sample_index");
    const auto offsets = values_of<std::int64_t>(file, "prediction_offsets");
    ASSERT_EQ(offsets.size(), samples.size() + 1);
    EXPECT_EQ(offsets.back(), file.at("labels").shape.at(0));
    std::vector<std::int64_t> predictions(4);
    for (std::size_t i = 0; i < samples.size(); ++i)
      predictions[static_cast<std::size_t>(samples[i])] = offsets[i + 1] - offsets[i];
    std::vector<std::int64_t> of_all_ranks(4);
    boost::mpi::all_reduce(world, predictions.data(), 4, of_all_ranks.data(), std::plus<>());
    EXPECT_THAT(of_all_ranks, testing::ElementsAre(2, 1, 2, 3));
  }
}

TEST(Dump, reserves_the_names_of_its_own_tensors) {
  const boost::mpi::communicator world;
  for (const PrefixSharing sharing : {PrefixSharing::none, PrefixSharing::trees}) {
    const Config config = config_of(sharing, world);
    for (const std::string& name : dumped(world, config).names()) {
      if (std::ranges::count(
              std::vector<std::string>{"input_ids", "labels", "loss_mask", "position_ids", "reward"}, name) >
          0)
        continue;
      DataService service(world, config);
      RaggedBatch batch = equal_samples(world);
      batch.add_field({name, DType::int64, FieldKind::sample, {}});
      EXPECT_THAT(testing_support::message_of([&] { (void)service.step(batch); }),
                  HasSubstr("field '" + name + "': has a name that is reserved for Evenkeel's own tensors"));
    }
  }
}

// Each rank would write what is read again as its part of the samples.
TEST(Dump, refuses_whole_samples_on_several_context_parallel_ranks) {
  const boost::mpi::communicator world;
  const testing_support::ScratchFolder scratch;
  Config config;
  config.mesh.cp = 2;
  config.pack.deliver = Delivery::samples;
  JobSettings options;
  options.dump = scratch.path() / "dump";
  JobObserver observer;
  EXPECT_THAT(testing_support::message_of([&] { const Job job(world, config, options, observer); }),
              testing::StartsWith("--dump: writes one part of each sample per context-parallel rank"));
}

}  // namespace
}  // namespace evenkeel::dump_test
