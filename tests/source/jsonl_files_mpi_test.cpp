#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/serialization/string.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/source/sample_source.hpp"
#include "support/packed_text.hpp"
#include "support/report_of.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel::jsonl_files_test {
namespace {

using testing::HasSubstr;
using testing_support::gzipped;
using testing_support::ScratchFolder;
using testing_support::write_text;
using testing_support::zstd_packed;

/// Files that rank 0 writes to a folder that every rank reads.
class SharedFolder {
 public:
  explicit SharedFolder(const std::map<std::string, std::string>& files) {
    std::string path;
    if (world_.rank() == 0) {
      path = scratch_.path().string();
      for (const auto& [name, text] : files) {
        std::filesystem::create_directories((scratch_ / name).parent_path());
        write_text(scratch_ / name, text);
      }
    }
    boost::mpi::broadcast(world_, path, 0);
    path_ = path;
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  ~SharedFolder() { world_.barrier(); }

  [[nodiscard]] SourceSettings source(const std::string& pattern) const {
    SourceSettings source;
    source.kind = SourceKind::jsonl;
    source.path = path_ / pattern;
    return source;
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (path_ / name).string(); }

 private:
  boost::mpi::communicator world_;
  ScratchFolder scratch_;
  std::filesystem::path path_;
};

std::string rollouts(std::int64_t first, std::int64_t end) {
  std::string text;
  for (std::int64_t i = first; i < end; ++i)
    text += R"({"prompt_ids":[)" + std::to_string(i) + R"(],"response_ids":[)" +
            std::string(i % 3 ? "7,8" : "9") + R"(],"reward":)" + (i == 17 ? "0.5" : "1") + "}" +
            (i + 1 < end ? "\n" : "");
  return text;
}

RaggedBatch read_all(const SampleSource& source) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(source.num_samples()));
  std::iota(positions.begin(), positions.end(), 0);
  return source.read(positions);
}

void expect_rollouts(const SampleSource& source, std::int64_t count) {
  ASSERT_EQ(source.num_samples(), count);
  const RaggedBatch batch = read_all(source);
  for (std::int64_t i = 0; i < count; ++i) {
    const RowRange rows = batch.rows_of(FieldKind::token, i);
    EXPECT_EQ(batch.at("input_ids").values<std::int64_t>()[static_cast<std::size_t>(rows.begin)], i);
    EXPECT_EQ(source.tokens_in(i), rows.size());
    EXPECT_EQ(batch.samples()[static_cast<std::size_t>(i)].id, SampleId{i});
  }
  EXPECT_EQ(batch.at("reward").values<float>()[17], 0.5F);
}

TEST(JsonlFiles, of_a_pattern_are_one_source_in_the_order_of_their_names) {
  const boost::mpi::communicator world;
  // The files do not end with line breaks, have very different sizes, and one is empty.
  const SharedFolder folder({{"a1.jsonl", rollouts(0, 3)},
                             {"a10.jsonl", rollouts(3, 4)},
                             {"a2.jsonl", rollouts(4, 40)},
                             {"a3.jsonl", ""},
                             {"b.jsonl", rollouts(40, 42)},
                             {"c.txt", "not for us"}});
  expect_rollouts(*open_source(world, folder.source("[ab]*.jsonl")), 42);
  // The same text in one file is a different source with the same samples.
  const SharedFolder one({{"all.jsonl", rollouts(0, 42)}});
  EXPECT_EQ(read_all(*open_source(world, one.source("all.jsonl"))).at("input_ids"),
            read_all(*open_source(world, folder.source("[ab]*.jsonl"))).at("input_ids"));
}

TEST(JsonlFiles, in_a_list_are_one_source_in_the_order_of_the_list) {
  const boost::mpi::communicator world;
  const SharedFolder folder({{"b1.jsonl", rollouts(0, 3)},
                             {"a1.jsonl", rollouts(3, 20)},
                             {"a2.jsonl", rollouts(20, 21)},
                             {"c.jsonl", rollouts(21, 23)}});
  SourceSettings list = folder.source("b1.jsonl");
  list.more_paths = {folder.path("a*.jsonl"), folder.path("c.jsonl")};
  expect_rollouts(*open_source(world, list), 23);
  list.more_paths.push_back(folder.path("a2.jsonl"));
  const ErrorReport report = testing_support::report_of<InputError>([&] { (void)open_source(world, list); });
  EXPECT_EQ(report.where, folder.path("a2.jsonl"));
  EXPECT_THAT(report.message, testing::HasSubstr("is named twice"));
}

TEST(JsonlFiles, have_text_rows_bytes_axes_and_runs_if_declared) {
  const boost::mpi::communicator world;
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    std::string patches;
    for (int row = 0; row < i % 3; ++row) patches += (row == 0 ? "[" : ",[") + std::to_string(i) + ",1]";
    lines += R"({"prompt_ids":[1],"response_ids":[2],"source":")" +
             std::string(static_cast<std::size_t>(i), 's') + R"(","raw":"AP8=","patches":[)" + patches +
             R"(],"positions":[[0,1],[7,)" + std::to_string(i) + R"(]],"versions":[[)" + std::to_string(i) +
             ",1]]}\n";
  }
  const SharedFolder folder({{"a.jsonl", lines}});
  NamedFields fields;
  fields["positions"].read_as = LineFormat::axes;
  fields["versions"].read_as = LineFormat::runs;
  fields["source"].read_as = LineFormat::text;
  fields["raw"].read_as = LineFormat::bytes;
  fields["patches"].read_as = LineFormat::rows;
  const auto source = open_source(world, folder.source("a.jsonl"), any_length, fields);
  EXPECT_EQ(source->ignored_content(), "");
  const RaggedBatch batch = read_all(*source);
  EXPECT_EQ(batch.at("patches").spec(), (FieldSpec{"patches", DType::int64, FieldKind::rows, {2}}));
  EXPECT_EQ(batch.at("positions").spec(), (FieldSpec{"positions", DType::int64, FieldKind::token, {2}}));
  EXPECT_EQ(batch.at("versions").spec(),
            (FieldSpec{"versions", DType::int64, FieldKind::response_token, {}}));
  for (std::int64_t i = 0; i < 20; ++i) {
    EXPECT_THAT(batch.at("positions").values<std::int64_t>().subspan(static_cast<std::size_t>(4 * i), 4),
                testing::ElementsAre(0, 7, 1, i));
    EXPECT_EQ(batch.at("versions").values<std::int64_t>()[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(batch.rows_of(batch.at("source"), i).size(), i);
    EXPECT_EQ(batch.rows_of(batch.at("raw"), i).size(), 2);
    const RowRange rows = batch.rows_of(batch.at("patches"), i);
    ASSERT_EQ(rows.size(), i % 3);
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      EXPECT_EQ(batch.at("patches").values<std::int64_t>()[static_cast<std::size_t>(2 * row)], i);
  }
}

TEST(JsonlFiles, skip_undeclared_text) {
  const boost::mpi::communicator world;
  const std::string line = R"({"prompt_ids":[1],"response_ids":[2],"source":"s"})";
  const SharedFolder folder({{"a.jsonl", line}});
  EXPECT_THAT(open_source(world, folder.source("a.jsonl"))->ignored_content(), HasSubstr("'source' (text)"));
}

TEST(JsonlFiles, must_have_every_declared_field) {
  const boost::mpi::communicator world;
  const SharedFolder folder({{"a.jsonl", rollouts(0, 9)}});
  NamedFields fields;
  fields["source"].read_as = LineFormat::text;
  try {
    (void)open_source(world, folder.source("a.jsonl"), any_length, fields);
    ADD_FAILURE() << "a missing field was overlooked";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no line has a field 'source'"));
  }
}

TEST(JsonlFiles, may_be_compressed_differently) {
  const boost::mpi::communicator world;
  const SharedFolder folder({{"a.jsonl.gz", gzipped(rollouts(0, 9))},
                             {"b.jsonl", rollouts(9, 20)},
                             {"c.jsonl.zst", zstd_packed(rollouts(20, 33))},
                             {"d.jsonl.gz", gzipped(rollouts(33, 34))}});
  const auto source = open_source(world, folder.source("*"));
  expect_rollouts(*source, 34);
  const SharedFolder plain({{"a.jsonl", rollouts(0, 9)},
                            {"b.jsonl", rollouts(9, 20)},
                            {"c.jsonl", rollouts(20, 33)},
                            {"d.jsonl", rollouts(33, 34)}});
  EXPECT_EQ(source->fingerprint(world).digest,
            open_source(world, plain.source("*"))->fingerprint(world).digest);
}

TEST(JsonlFiles, with_an_error_are_named_with_the_line_in_the_file) {
  const boost::mpi::communicator world;
  const std::string bad = R"({"prompt_ids":[1],"response_ids":[2],"reward":true})";
  for (const auto& [name, text] :
       {std::pair<std::string, std::string>{"b.jsonl", "\n" + bad}, {"b.jsonl.gz", gzipped("\n" + bad)}}) {
    const SharedFolder folder({{"a.jsonl", rollouts(0, 30)}, {name, text}});
    try {
      (void)open_source(world, folder.source("*.jsonl*"));
      ADD_FAILURE() << "a clash was overlooked";
    } catch (const InputError& error) {
      EXPECT_EQ(error.report().where, folder.path(name) + ":2");
    }
  }
}

TEST(JsonlFiles, a_damaged_file_is_everybodys_error) {
  const boost::mpi::communicator world;
  const std::string packed = gzipped(rollouts(0, 30));
  const SharedFolder folder({{"a.jsonl", rollouts(0, 3)}, {"b.gz", packed.substr(0, packed.size() / 2)}});
  EXPECT_THROW((void)open_source(world, folder.source("*")), InputError);
  EXPECT_THROW((void)open_source(world, folder.source("*.nobody")), IoError);
  EXPECT_THROW((void)open_source(world, folder.source("")), IoError);  // the folder
}

TEST(JsonlFiles, whose_names_look_like_a_pattern_are_found_by_name) {
  const boost::mpi::communicator world;
  const SharedFolder folder({{"a[1].jsonl", rollouts(0, 18)}, {"a1.jsonl", "no rollout"}});
  expect_rollouts(*open_source(world, folder.source("a[1].jsonl")), 18);
}

TEST(JsonlFiles, remove_decompressed_files_and_need_a_folder_for_them) {
  const boost::mpi::communicator world;
  const SharedFolder folder({{"a.gz", gzipped(rollouts(0, 18))}, {"tmp/keep", ""}});
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  setenv("TMPDIR", folder.path("tmp").c_str(), 1);
  const auto source = open_source(world, folder.source("a.gz"));
  world.barrier();
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("tmp")))
    EXPECT_EQ(entry.path().filename(), "keep");
  expect_rollouts(*source, 18);
  setenv("TMPDIR", folder.path("nowhere").c_str(), 1);
  try {
    (void)open_source(world, folder.source("a.gz"));
    ADD_FAILURE() << "unpacked to nowhere";
  } catch (const IoError& error) {
    EXPECT_THAT(error.report().message, HasSubstr("cannot be decompressed to " + folder.path("nowhere")));
  }
  before != nullptr ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
}

}  // namespace
}  // namespace evenkeel::jsonl_files_test
