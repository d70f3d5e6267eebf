#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <boost/mpi/communicator.hpp>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/source/sample_source.hpp"
#include "io/safetensors/safetensors.hpp"
#include "io/samples/sample_writer.hpp"
#include "source/files/input_files.hpp"
#include "source/shared_folder.hpp"
#include "support/error_message.hpp"
#include "support/made_up_batch.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel::tensor_source_test {
namespace {

using test::SharedFolder;
using testing::HasSubstr;
using testing_support::made_up_batch;
using testing_support::made_up_fields;
using testing_support::made_up_shape;
using testing_support::message_of;
using testing_support::ScratchFolder;

RaggedBatch samples(std::int64_t first, std::int64_t end) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = first; id < end; ++id) shapes.push_back(made_up_shape(id));
  std::vector<FieldSpec> fields = made_up_fields();
  std::erase_if(fields, [](const FieldSpec& field) { return field.dtype == DType::bfloat16; });
  RaggedBatch batch = made_up_batch(std::move(shapes), fields);
  for (std::byte& flag : batch.find("flags")->bytes()) flag &= std::byte{1};
  return batch;
}

void write(SampleFormat format, const std::filesystem::path& path, const RaggedBatch& batch) {
  const auto writer = make_sample_writer(format, path, {});
  writer->write(batch);
  writer->close();
}

void expect_samples(const SampleSource& source, const RaggedBatch& expected) {
  ASSERT_EQ(source.num_samples(), expected.size());
  std::vector<std::int64_t> positions(static_cast<std::size_t>(expected.size()));
  std::iota(positions.begin(), positions.end(), 0);
  const RaggedBatch batch = source.read(positions);
  ASSERT_EQ(batch.fields().size(), expected.fields().size());
  for (const Column& column : expected.fields())
    EXPECT_EQ(batch.at(column.spec().name), column) << column.spec().name;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const SampleShape& sample = batch.samples()[i];
    EXPECT_EQ(sample.id, SampleId{positions[i]});
    EXPECT_EQ(sample.prompt, expected.samples()[i].prompt);
    EXPECT_EQ(sample.group, expected.samples()[i].group);
    EXPECT_EQ(source.tokens_in(positions[i]), sample.length());
  }
  // Draws any of the samples, in any order.
  std::vector<std::int64_t> some;
  for (std::int64_t p = expected.size() - 1; p >= 0; p -= 3) some.push_back(p);
  const RaggedBatch few = source.read(some);
  for (std::size_t i = 0; i < some.size(); ++i) {
    const RowRange rows = few.rows_of(FieldKind::token, static_cast<std::int64_t>(i));
    const RowRange all = expected.rows_of(FieldKind::token, some[i]);
    const auto tokens = few.at(input_ids_field).values<std::int64_t>();
    const auto others = expected.at(input_ids_field).values<std::int64_t>();
    EXPECT_TRUE(
        std::equal(tokens.begin() + rows.begin, tokens.begin() + rows.end, others.begin() + all.begin));
  }
}

TEST(TensorSource, reads_what_was_written_on_every_rank) {
  const boost::mpi::communicator world;
  const RaggedBatch batch = samples(0, 29);
  const SharedFolder folder([&](const std::filesystem::path& path) {
    write(SampleFormat::safetensors, path / "a.safetensors", batch);
  });
  expect_samples(*open_source(world, folder.source(SourceKind::safetensors, "a.safetensors")), batch);
}

TEST(TensorSource, numbers_samples_consecutively_over_files) {
  const boost::mpi::communicator world;
  const RaggedBatch batch = samples(0, 29);
  const SharedFolder folder([&](const std::filesystem::path& path) {
    for (const auto& [number, first, end] : {std::tuple{1, 0, 3}, {2, 3, 20}, {3, 20, 29}})
      write(SampleFormat::safetensors, path / (std::to_string(number) + ".safetensors"), samples(first, end));
  });
  const auto ragged = open_source(world, folder.source(SourceKind::safetensors, "*.safetensors"));
  expect_samples(*ragged, batch);
  EXPECT_EQ(ragged->fingerprint(world), ragged->fingerprint(world));
  EXPECT_NE(
      ragged->fingerprint(world).digest,
      open_source(world, folder.source(SourceKind::safetensors, "1.safetensors"))->fingerprint(world).digest);
}

TEST(TensorSource, fingerprints_every_byte_of_small_files) {
  const boost::mpi::communicator world;
  const auto fingerprint = [&](std::int64_t changed) {
    const SharedFolder folder([&](const std::filesystem::path& path) {
      RaggedBatch batch({{SampleId{0}, own_group(0), 0, 1 << 19}});
      const auto tokens =
          batch.add_field({"input_ids", DType::int64, FieldKind::token, {}}).values<std::int64_t>();
      tokens[(1 << 18) + 2500] = changed;
      write(SampleFormat::safetensors, path / "a.safetensors", batch);
    });
    return open_source(world, folder.source(SourceKind::safetensors, "a.safetensors"))->fingerprint(world);
  };
  const SourceFingerprint before = fingerprint(0);
  EXPECT_EQ(before.whole, fingerprint(0).whole);
  EXPECT_EQ(before.digest, fingerprint(7).digest) << "no place that is looked at has changed";
  EXPECT_NE(before.whole, fingerprint(7).whole);
}

TEST(TensorSource, fingerprints_parts_of_large_files) {
  const boost::mpi::communicator world;
  const SharedFolder folder([](const std::filesystem::path& path) {
    // A hole of 8 GiB, which uses no disk space: a tensor that no sample has a row of.
    const std::int64_t large = max_bytes_compared_whole;
    const std::string header = R"({"tokens":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                               R"("offsets":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},)"
                               R"("hole":{"dtype":"U8","shape":[)" +
                               std::to_string(large) + R"(],"data_offsets":[3,)" + std::to_string(large + 3) +
                               "]}}";
    const std::uint64_t size = header.size();
    testing_support::write_text(
        path / "a.safetensors",
        std::string(reinterpret_cast<const char*>(&size), sizeof size) + header + std::string("\5\0\1", 3));
    std::filesystem::resize_file(path / "a.safetensors", sizeof size + header.size() + 3 + large);
  });
  const auto source = open_source(world, folder.source(SourceKind::safetensors, "a.safetensors"));
  EXPECT_EQ(source->num_samples(), 1);
  EXPECT_FALSE(source->fingerprint(world).whole.has_value());
}

TEST(TensorSource, has_fields_declared_by_any_of_its_files) {
  const boost::mpi::communicator world;
  const SharedFolder folder([](const std::filesystem::path& path) {
    RaggedBatch batch({{SampleId{0}, own_group(0), 1, 2}});
    batch.add_field({"input_ids", DType::int64, FieldKind::token, {}});
    batch.add_field({"a", DType::float32, FieldKind::response_token, {}});
    batch.add_field(
        Column({"p", DType::int16, FieldKind::rows, {2}}, SampleRows::from_counts(std::array{3L})));
    write(SampleFormat::safetensors, path / "b.safetensors", batch);
    // No sample has a prompt or a row of p, so kinds and types are unknown, and the file does not specify
    // any.
    const std::vector<std::int64_t> two{0, 0};
    const std::vector<float> a{3, 4};
    const auto view = [](const char* name, const auto& values, std::vector<std::int64_t> shape) {
      using T = typename std::remove_cvref_t<decltype(values)>::value_type;
      return TensorView{name, dtype_of<T>, std::move(shape), std::as_bytes(std::span(values))};
    };
    const std::vector<std::int64_t> offsets{0, 2};
    const std::vector<float> none;
    const std::vector<TensorView> tensors{view("tokens", two, {2}), view("offsets", offsets, {2}),
                                          view("a", a, {2}), view("p", none, {0}),
                                          view("p_offsets", two, {2})};
    write_safetensors(path / "a.safetensors", tensors, {});
  });
  const auto source = open_source(world, folder.source(SourceKind::safetensors, "*"));
  EXPECT_EQ(source->undecided_fields(), "");
  const RaggedBatch batch = source->read(std::vector<std::int64_t>{0, 1});
  EXPECT_EQ(batch.at("a").spec().kind, FieldKind::response_token);
  EXPECT_THAT(batch.at("a").values<float>(), testing::ElementsAre(3, 4, 0, 0));
  EXPECT_EQ(batch.at("p").spec().dtype, DType::int16);
  EXPECT_EQ(batch.at("p").rows(), 3);
}

TEST(TensorSource, files_with_different_fields_are_everybodys_error) {
  const boost::mpi::communicator world;
  const SharedFolder folder([](const std::filesystem::path& path) {
    write(SampleFormat::safetensors, path / "a.safetensors", samples(0, 5));
    write(SampleFormat::safetensors, path / "b.safetensors", made_up_batch({made_up_shape(5)}, {}));
  });
  EXPECT_THAT(
      message_of([&] { (void)open_source(world, folder.source(SourceKind::safetensors, "*")); }),
      testing::AllOf(HasSubstr("b.safetensors"), HasSubstr("lacks the field"), HasSubstr("a.safetensors")));
}

TEST(TensorSource, damaged_or_different_files_on_one_rank_are_everybodys_error) {
  const boost::mpi::communicator world;
  const SharedFolder folder([](const std::filesystem::path& path) {
    write(SampleFormat::safetensors, path / "a.safetensors", samples(0, 9));
    std::filesystem::resize_file(path / "a.safetensors", 100);
  });
  EXPECT_THROW((void)open_source(world, folder.source(SourceKind::safetensors, "a.safetensors")), InputError);
  EXPECT_THROW((void)open_source(world, folder.source(SourceKind::safetensors, "b.safetensors")), IoError);
  if (world.size() == 1) return;  // there is no other rank to differ from
  const ScratchFolder mine;
  write(SampleFormat::safetensors, mine / "a.safetensors",
        samples(world.rank() == world.size() - 1 ? 1 : 0, 9));
  SourceSettings own;
  own.kind = SourceKind::safetensors;
  own.path = mine / "a.safetensors";
  EXPECT_THROW((void)open_source(world, own), IoError);
  world.barrier();
}

}  // namespace
}  // namespace evenkeel::tensor_source_test
