#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <functional>

#include "evenkeel/base/error.hpp"
#include "evenkeel/service/data_service.hpp"
#include "support/error_message.hpp"

// Samples that specify their tree in the field segment_ids.
namespace evenkeel::told_trees_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::message_of;

constexpr std::int64_t num_samples = 24;
constexpr std::int64_t samples_a_group = 4;

/// Returns the segment that a token belongs to: the prompt, a turn that two samples of a group share, or a
/// segment of one sample.
std::int64_t segment_at(SampleId sample, std::int64_t position) {
  if (position < 3) return 0;
  return position < 6 ? 1 + sample.value() / 2 % 2 : 10 + sample.value();
}

/// Returns a token that differs between segments.
std::int64_t token_at(SampleId sample, std::int64_t position) {
  return 100 * segment_at(sample, position) + 10 * (sample.value() / samples_a_group) + position % 10;
}

/// Returns this rank's samples: groups are scattered over the ranks.
RaggedBatch samples_of(const boost::mpi::communicator& comm) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = comm.rank(); id < num_samples; id += comm.size())
    shapes.push_back({SampleId{id}, static_cast<std::uint64_t>(id / samples_a_group), 3, 3 + id % 5});
  return RaggedBatch(std::move(shapes));
}

/// Adds a field with one value per token or response token.
template <typename ValueAt>
void add_values(RaggedBatch& batch, const FieldSpec& spec, ValueAt value_at) {
  auto next = batch.add_field(spec).values<std::int64_t>().begin();
  for (const SampleShape& sample : batch.samples()) {
    const std::int64_t first = spec.kind == FieldKind::token ? 0 : sample.prompt;
    for (std::int64_t t = first; t < sample.length(); ++t) *next++ = value_at(sample.id, t);
  }
}

RaggedBatch with_tokens(const boost::mpi::communicator& comm) {
  RaggedBatch batch = samples_of(comm);
  add_values(batch, {"input_ids", DType::int64, FieldKind::token, {}}, token_at);
  return batch;
}

template <typename SegmentAt>
RaggedBatch with_segments(RaggedBatch batch, FieldKind kind, SegmentAt segment_at) {
  add_values(batch, {"segment_ids", DType::int64, kind, {}}, segment_at);
  return batch;
}

Config sharing_trees(int cp) {
  Config config;
  config.prefix = PrefixSharing::trees;
  config.mesh.cp = cp;
  config.micro_batch.max_tokens = 64;
  return config;
}

std::int64_t rows_of(const boost::mpi::communicator& world, const Step& step) {
  std::int64_t rows = 0;
  for (const MicroBatch& m : step.micro_batches) rows += m.tensors.num_tokens();
  return boost::mpi::all_reduce(world, rows, std::plus<>());
}

TEST(ToldTrees, give_the_same_steps_as_trees_found_by_tokens) {
  const boost::mpi::communicator world;
  for (const int cp : {1, 2}) {
    if (world.size() % cp != 0) continue;
    DataService service(world, sharing_trees(cp));
    const Step found = service.step(with_tokens(world));
    for (const FieldKind kind : {FieldKind::token, FieldKind::response_token}) {
      const Step told = service.step(with_segments(with_tokens(world), kind, segment_at));
      ASSERT_EQ(told.micro_batches.size(), found.micro_batches.size());
      for (std::size_t m = 0; m < found.micro_batches.size(); ++m) {
        const PackedMicroBatch& expected = found.micro_batches[m].tensors;
        EXPECT_EQ(told.micro_batches[m].tensors.layout, expected.layout);
        EXPECT_EQ(told.micro_batches[m].tensors.samples, expected.samples);
        for (const Column& field : expected.fields)
          EXPECT_EQ(*told.micro_batches[m].tensors.find(field.spec().name), field) << field.spec().name;
      }
    }
  }
}

/// Returns the label of each response token, as on the ranks that predict it.
RaggedBatch predicted(DataService& service, const Step& step) {
  StepResults results(step.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    const Column& labels = *step.micro_batches[m].tensors.find("labels");
    results.put(m, labels.spec(), labels.bytes());
  }
  return service.collect(step, results);
}

// Two turns may start with the same words, and experts were chosen separately for each.
TEST(ToldTrees, distinguish_equal_tokens_of_different_segments) {
  const boost::mpi::communicator world;
  DataService service(world, sharing_trees(1));
  const auto apart = [](SampleId sample, std::int64_t position) {
    return position < 3 ? 0 : 1 + sample.value();
  };
  const auto with_experts = [](RaggedBatch batch) {
    add_values(batch, {"experts", DType::int64, FieldKind::token, {}},
               [](SampleId sample, std::int64_t position) { return position < 3 ? 7 : sample.value(); });
    return batch;
  };
  const RaggedBatch mine = with_experts(with_tokens(world));
  EXPECT_THAT(message_of([&] { (void)service.step(mine); }),
              HasSubstr("field 'experts': differs in rows 3 to "));
  for (const FieldKind kind : {FieldKind::token, FieldKind::response_token}) {
    const Step step = service.step(with_segments(mine, kind, apart));
    std::int64_t responses = 0;
    for (std::int64_t id = 0; id < num_samples; ++id) responses += 3 + id % 5;
    EXPECT_EQ(rows_of(world, step), num_samples / samples_a_group * 3 + responses);
    const RaggedBatch back = predicted(service, step);
    auto label = back.at("labels").values<std::int64_t>().begin();
    for (const SampleShape& sample : mine.samples())
      for (std::int64_t t = sample.prompt; t < sample.length(); ++t)
        EXPECT_EQ(*label++, token_at(sample.id, t));
  }
}

TEST(ToldTrees, are_refused_on_every_rank_where_tokens_differ_in_a_segment) {
  const boost::mpi::communicator world;
  DataService service(world, sharing_trees(1));
  const auto tell = [&](FieldKind kind, std::int64_t number) {
    return message_of([&] {
      (void)service.step(with_segments(with_tokens(world), kind, [&](SampleId sample, std::int64_t) {
        return sample.value() == 7 ? number : 0;
      }));
    });
  };
  for (const FieldKind kind : {FieldKind::token, FieldKind::response_token})
    EXPECT_THAT(tell(kind, 0), AllOf(HasSubstr("field 'input_ids': differs in rows "),
                                     HasSubstr(", which have the same segment numbers there")));
  EXPECT_THAT(tell(FieldKind::token, -1), HasSubstr("sample 7: its segment_ids contain -1"));
  RaggedBatch real = with_tokens(world);
  real.add_field({"segment_ids", DType::float32, FieldKind::response_token, {}});
  EXPECT_THAT(message_of([&] { (void)service.step(real); }),
              HasSubstr("field 'segment_ids': specifies the trees of samples"));
  (void)service.step(with_tokens(world));
}

}  // namespace
}  // namespace evenkeel::told_trees_test
