#include "evenkeel/service/sample_source.hpp"

#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <boost/serialization/vector.hpp>
#include <numeric>

#include "evenkeel/base/error.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using testing_support::ScratchFolder;
using testing_support::write_text;

/// A file that rank 0 writes and every rank reads.
class SharedFile {
 public:
  SharedFile(const std::string& name, const std::string& text) {
    std::string path;
    if (world_.rank() == 0) {
      path = (scratch_ / name).string();
      write_text(path, text);
    }
    boost::mpi::broadcast(world_, path, 0);
    path_ = path;
  }
  ~SharedFile() { world_.barrier(); }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  boost::mpi::communicator world_;
  ScratchFolder scratch_;
  std::filesystem::path path_;
};

std::vector<std::int64_t> all_positions(const SampleSource& source) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(source.num_samples()));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

std::string rollout(std::int64_t i) {
  std::string response;
  for (std::int64_t t = 0; t <= i % 5; ++t) response += (t ? "," : "") + std::to_string(10 * i + t);
  // Integers on some lines and a real number on others: the field is real on all, whoever reads it.
  return R"({"uid":"g)" + std::to_string(i / 2) + R"(","prompt_ids":[)" + std::to_string(i) +
         R"(],"response_ids":[)" + response + R"(],"reward":)" + (i == 17 ? "0.5" : "1") + "}\n";
}

TEST(JsonlSource, every_rank_can_read_any_line_with_the_fields_of_all) {
  const boost::mpi::communicator world;
  std::string text;
  for (std::int64_t i = 0; i < 23; ++i) text += rollout(i) + (i % 7 == 3 ? "\n" : "");
  const SharedFile file("rollouts.jsonl", text);
  SourceConfig config;
  config.kind = SourceKind::jsonl;
  config.path = file.path();
  const auto source = open_source(world, config);
  ASSERT_EQ(source->num_samples(), 23);
  const RaggedBatch batch = source->read(all_positions(*source));
  EXPECT_EQ(batch.at("reward").spec(), (FieldSpec{"reward", DType::float32, FieldKind::sample, {}}));
  EXPECT_EQ(batch.at("reward").values<float>()[17], 0.5F);
  std::int64_t line = 0;
  for (std::int64_t i = 0; i < 23; ++i) {
    EXPECT_EQ(batch.samples()[static_cast<std::size_t>(i)].id, SampleId{line});
    const RowRange rows = batch.rows_of(FieldKind::token, i);
    EXPECT_EQ(rows.size(), 2 + i % 5);
    EXPECT_EQ(batch.at("input_ids").values<std::int64_t>()[static_cast<std::size_t>(rows.begin)], i);
    line += i % 7 == 3 ? 2 : 1;  // blank lines count as lines, not as samples
  }
}

TEST(JsonlSource, lines_whose_fields_clash_are_everybodys_error_wherever_they_are) {
  const boost::mpi::communicator world;
  for (const std::int64_t bad : {0, 11, 22}) {
    std::string text;
    for (std::int64_t i = 0; i < 23; ++i) {
      text += i == bad ? R"({"prompt_ids":[1],"response_ids":[2]})"
                         "\n"
                       : rollout(i);
    }
    const SharedFile file("rollouts.jsonl", text);
    SourceConfig config;
    config.kind = SourceKind::jsonl;
    config.path = file.path();
    EXPECT_THROW((void)open_source(world, config), InputError);
  }
}

TEST(LengthTableSource, has_samples_of_the_lengths_listed_and_the_same_tokens_on_every_rank) {
  const boost::mpi::communicator world;
  const SharedFile file("lengths.csv", "prompt_length,response_length\n3,4\n0,2\n5,0\n");
  SourceConfig config;
  config.kind = SourceKind::lengths;
  config.path = file.path();
  const auto source = open_source(world, config);
  const RaggedBatch batch = source->read(all_positions(*source));
  EXPECT_EQ(batch.samples()[0].prompt, 3);
  EXPECT_EQ(batch.samples()[0].response, 4);
  EXPECT_EQ(batch.samples()[2].length(), 5);
  const auto tokens = batch.at("input_ids").values<std::int64_t>();
  std::vector<std::int64_t> of_rank_0(tokens.begin(), tokens.end());
  boost::mpi::broadcast(world, of_rank_0, 0);
  EXPECT_TRUE(std::ranges::equal(tokens, of_rank_0));
  const std::vector<std::int64_t> last{2};
  const RaggedBatch alone = source->read(last);
  EXPECT_TRUE(std::ranges::equal(alone.at("input_ids").values<std::int64_t>(), tokens.subspan(9)));
}

TEST(SyntheticSource, has_as_many_samples_as_asked_for) {
  const boost::mpi::communicator world;
  SourceConfig config;
  config.kind = SourceKind::synthetic;
  config.samples = 21;
  const auto source = open_source(world, config);
  EXPECT_EQ(source->num_samples(), 21);
  EXPECT_EQ(source->read(all_positions(*source)).size(), 21);
}

TEST(OpenSource, says_what_is_missing_on_every_rank) {
  const boost::mpi::communicator world;
  SourceConfig config;
  EXPECT_THROW((void)open_source(world, config), ConfigError);
  config.kind = SourceKind::jsonl;
  EXPECT_THROW((void)open_source(world, config), ConfigError);
  config.path = "/no/such/file.jsonl";
  EXPECT_THROW((void)open_source(world, config), IoError);
  config.kind = SourceKind::lengths;
  config.path = "/no/such/file.csv";
  EXPECT_THROW((void)open_source(world, config), IoError);
  config.kind = SourceKind::embedded;
  EXPECT_THROW((void)open_source(world, config), ConfigError);
}

TEST(OpenSource, ranks_that_open_different_sources_are_told_so) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;  // nobody to differ from
  SourceConfig config;
  config.kind = world.rank() == 1 ? SourceKind::synthetic : SourceKind::jsonl;
  config.path = "/no/such/file.jsonl";
  try {
    (void)open_source(world, config);
    FAIL() << "two kinds were opened";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.report().where, "source.kind");
    EXPECT_EQ(error.report().message, "is jsonl on rank 0 and synthetic on rank 1");
  }
}

}  // namespace
}  // namespace evenkeel
