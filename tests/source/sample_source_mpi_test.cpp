#include "evenkeel/source/sample_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <boost/serialization/vector.hpp>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "evenkeel/base/error.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel::sample_source_test {
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
  // Some lines have integers and another one has a real number: the field is real on all ranks, no matter
  // which lines they read.
  return R"({"uid":"g)" + std::to_string(i / 2) + R"(","prompt_ids":[)" + std::to_string(i) +
         R"(],"response_ids":[)" + response + R"(],"reward":)" + (i == 17 ? "0.5" : "1") + "}\n";
}

TEST(JsonlSource, every_rank_can_read_any_line_with_the_fields_of_all) {
  const boost::mpi::communicator world;
  std::string text;
  for (std::int64_t i = 0; i < 23; ++i) text += rollout(i) + (i % 7 == 3 ? "\n" : "");
  const SharedFile file("rollouts.jsonl", text);
  SourceSettings config;
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
    SourceSettings config;
    config.kind = SourceKind::jsonl;
    config.path = file.path();
    EXPECT_THROW((void)open_source(world, config), InputError);
  }
}

/// Returns the error from opening a JSONL file. It is the same on every rank, even if the path differs.
template <typename E>
ErrorReport opening_fails(const std::filesystem::path& path, std::int64_t max_tokens = any_length,
                          SourceKind kind = SourceKind::jsonl) {
  SourceSettings config;
  config.kind = kind;
  config.path = path;
  try {
    (void)open_source(boost::mpi::communicator(), config, max_tokens);
  } catch (const E& error) {
    return error.report();
  }
  ADD_FAILURE() << "an error was expected";
  return {};
}

std::string rollouts(std::int64_t count) {
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) text += rollout(i);
  return text;
}

/// Returns the ranks that tests treat specially.
std::vector<int> first_middle_and_last() {
  const int last = boost::mpi::communicator().size() - 1;
  return {0, last / 2, last};
}

/// A copy of a file for every rank, and the content of this rank's copy.
class CopyOfEachRank {
 public:
  explicit CopyOfEachRank(const std::string& text) : path_(scratch_ / "rollouts.jsonl") {
    write_text(path_, text);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  ScratchFolder scratch_;
  std::filesystem::path path_;
};

TEST(JsonlSource, copies_with_equal_bytes_are_one_source) {
  const boost::mpi::communicator world;
  // The file is larger than the sampled part, so all of it is compared in several blocks.
  const CopyOfEachRank copy(rollouts(40) + std::string(3 << 20, '\n') + rollouts(1));
  SourceSettings config;
  config.kind = SourceKind::jsonl;
  config.path = copy.path();
  const auto source = open_source(world, config);
  EXPECT_EQ(source->num_samples(), 41);
  EXPECT_EQ(source->read(all_positions(*source)).samples()[40].id, SampleId{40 + (3 << 20)});
}

TEST(JsonlSource, a_copy_of_another_size_is_refused_with_both_sizes) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;
  for (const int stale : first_middle_and_last()) {
    const CopyOfEachRank copy(rollouts(world.rank() == stale ? 200 : 300));
    const ErrorReport report = opening_fails<IoError>(copy.path());
    EXPECT_EQ(report.where, copy.path());
    const auto bytes = [&](int rank) {
      return std::to_string(rollouts(rank == stale ? 200 : 300).size()) + " bytes on rank " +
             std::to_string(rank);
    };
    EXPECT_EQ(report.message, "has " + bytes(0) + " and " + bytes(std::max(stale, 1)));
  }
}

TEST(JsonlSource, a_copy_of_equal_size_with_other_content_is_refused_wherever_it_differs) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;
  for (const int stale : first_middle_and_last()) {
    // Changes the second byte of the file, or a byte in the middle of a large file that is not sampled.
    for (const std::string& blank : {std::string(), std::string(static_cast<std::size_t>(8) << 20, ' ')}) {
      std::string text = rollout(0) + blank + rollout(1) + blank;
      if (world.rank() == stale) text.replace(text.rfind("[10,11]"), 7, "[10,12]");
      const CopyOfEachRank copy(text);
      const ErrorReport report = opening_fails<IoError>(copy.path());
      EXPECT_EQ(report.message, "has different content on rank " + std::to_string(std::max(stale, 1)) +
                                    " than on rank 0, although both copies have " +
                                    std::to_string(text.size()) + " bytes");
    }
  }
}

TEST(JsonlSource, a_file_that_replaces_the_source_during_a_run_is_not_read) {
  const boost::mpi::communicator world;
  const SharedFile file("rollouts.jsonl", rollouts(12));
  const SharedFile newer("newer.jsonl", rollouts(9) + rollouts(9));
  SourceSettings config;
  config.kind = SourceKind::jsonl;
  config.path = file.path();
  const auto source = open_source(world, config);
  const RaggedBatch before = source->read(all_positions(*source));
  world.barrier();
  if (world.rank() == 0) std::filesystem::rename(newer.path(), file.path());
  world.barrier();
  const RaggedBatch after = source->read(all_positions(*source));
  EXPECT_EQ(after.at("input_ids"), before.at("input_ids"));
}

TEST(JsonlSource, a_file_that_grows_during_a_run_is_an_error_at_the_next_read) {
  const boost::mpi::communicator world;
  const SharedFile file("rollouts.jsonl", rollouts(12));
  SourceSettings config;
  config.kind = SourceKind::jsonl;
  config.path = file.path();
  const auto source = open_source(world, config);
  world.barrier();
  if (world.rank() == 0) std::ofstream(file.path(), std::ios::app) << rollout(12);
  world.barrier();
  EXPECT_THROW((void)source->read(all_positions(*source)), IoError);
}

TEST(JsonlSource, conflicting_fields_are_named_with_the_file_and_both_lines) {
  std::string text = rollouts(22) + R"({"prompt_ids":[1],"response_ids":[2]})" + "\n";
  const SharedFile file("rollouts.jsonl", text);
  const ErrorReport report = opening_fails<InputError>(file.path());
  EXPECT_EQ(report.where, file.path().string() + ":23");
  EXPECT_THAT(report.message,
              testing::ContainsRegex("'reward' holds numbers in line [0-9]+ and is missing, empty or not a "
                                     "number in line 23"));
}

TEST(JsonlSource, labels_that_are_not_integers_are_refused_at_the_first_line) {
  std::string text;
  for (int i = 0; i < 12; ++i) {
    text +=
        R"({"prompt_ids":[1],"response_ids":[2],"labels":[2,)" + std::string(i < 7 ? "3" : "3.5") + "]}\n";
  }
  const SharedFile file("rollouts.jsonl", text);
  const ErrorReport report = opening_fails<InputError>(file.path());
  EXPECT_EQ(report.where, file.path().string() + ":8");
  EXPECT_THAT(report.message, testing::HasSubstr("field 'labels' is a float32 token field"));
}

TEST(JsonlSource, a_field_with_a_derived_name_is_refused_at_its_first_line) {
  const SharedFile file("rollouts.jsonl",
                        "\n"
                        R"({"prompt_ids":[1],"response_ids":[2],"cu_seqlens":1})"
                        "\n");
  const ErrorReport report = opening_fails<InputError>(file.path());
  EXPECT_EQ(report.where, file.path().string() + ":2");
  EXPECT_THAT(report.message, testing::HasSubstr("'cu_seqlens'"));
}

TEST(JsonlSource, an_empty_file_is_refused_by_name) {
  for (const std::string text : {"", "\n \n"}) {
    const SharedFile file("rollouts.jsonl", text);
    const ErrorReport report = opening_fails<InputError>(file.path());
    EXPECT_EQ(report.where, file.path());
    EXPECT_EQ(report.message, "has no samples");
  }
  const SharedFile table("lengths.csv", "length\n");
  EXPECT_EQ(opening_fails<InputError>(table.path(), any_length, SourceKind::lengths).where, table.path());
}

TEST(JsonlSource, reports_skipped_fields_of_all_ranks) {
  const boost::mpi::communicator world;
  std::string text = rollouts(9);
  text += R"({"prompt_ids":[1],"response_ids":[2],"reward":1,"note":"a","chat":null})"
          "\n";
  const SharedFile file("rollouts.jsonl", text);
  SourceSettings config;
  config.kind = SourceKind::jsonl;
  config.path = file.path();
  EXPECT_EQ(open_source(world, config)->ignored_content(), "'chat' (null), 'note' (text)");
}

TEST(LengthTableSource, an_absurd_length_is_refused_before_a_token_is_made) {
  const boost::mpi::communicator world;
  const SharedFile file("lengths.csv", "length\n5\n2000000000\n7\n");
  SourceSettings config;
  config.kind = SourceKind::lengths;
  config.path = file.path();
  const auto source = open_source(world, config, 8192);
  const std::vector<std::int64_t> good{0, 2};
  EXPECT_EQ(source->read(good).num_tokens(), 12);
  try {
    (void)source->read(all_positions(*source));
    FAIL() << "an error was expected";
  } catch (const LimitError& error) {
    EXPECT_EQ(error.report().where, file.path());
    EXPECT_EQ(error.report().message, "sample 1 has 2000000000 tokens, above the cap of 8192 tokens");
  }
}

TEST(LengthTableSource, a_length_too_large_for_memory_is_an_error_even_without_a_cap) {
  const boost::mpi::communicator world;
  const SharedFile file("lengths.csv", "length\n1099511627776\n");
  SourceSettings config;
  config.kind = SourceKind::lengths;
  config.path = file.path();
  const auto source = open_source(world, config);
  EXPECT_THROW((void)source->read(all_positions(*source)), LimitError);
}

TEST(LongestSample, is_the_largest_cap_of_any_profile) {
  Config config;
  config.micro_batch.max_tokens = 100;
  EXPECT_EQ(longest_sample(config), 100);
  config.profiles["update"].micro_batch.max_tokens = 50;
  config.profiles["log_prob"].micro_batch.max_tokens = 300;
  EXPECT_EQ(longest_sample(config), 300);
}

TEST(LengthTableSource, has_samples_of_the_lengths_listed_and_the_same_tokens_on_every_rank) {
  const boost::mpi::communicator world;
  const SharedFile file("lengths.csv", "prompt_length,response_length\n3,4\n0,2\n5,0\n");
  SourceSettings config;
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

TEST(SyntheticSource, has_the_requested_number_of_samples) {
  const boost::mpi::communicator world;
  SourceSettings config;
  config.kind = SourceKind::synthetic;
  config.samples = 21;
  const auto source = open_source(world, config);
  EXPECT_EQ(source->num_samples(), 21);
  EXPECT_EQ(source->read(all_positions(*source)).size(), 21);
}

TEST(OpenSource, reports_a_missing_setting_on_every_rank) {
  const boost::mpi::communicator world;
  SourceSettings config;
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

TEST(OpenSource, reports_different_sources) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;  // there is no other rank to differ from
  SourceSettings config;
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

SourceSettings source_of(SourceKind kind, const std::filesystem::path& path = {}) {
  SourceSettings config;
  config.kind = kind;
  config.path = path;
  config.samples = 23;
  return config;
}

TEST(SampleSource, provides_lengths_without_reading_samples) {
  const boost::mpi::communicator world;
  const SharedFile lines("rollouts.jsonl", rollouts(23));
  const SharedFile table("lengths.csv", "prompt_length,response_length\n3,4\n0,0\n7,1\n");
  for (const SourceSettings& config :
       {source_of(SourceKind::jsonl, lines.path()), source_of(SourceKind::lengths, table.path()),
        source_of(SourceKind::synthetic)}) {
    const auto source = open_source(world, config);
    const RaggedBatch batch = source->read(all_positions(*source));
    for (std::int64_t i = 0; i < source->num_samples(); ++i)
      EXPECT_EQ(source->tokens_in(i), batch.samples()[static_cast<std::size_t>(i)].length());
  }
}

TEST(SampleSource, fingerprints_content_and_not_names) {
  const boost::mpi::communicator world;
  const std::string text = rollouts(23);
  const SharedFile file("a.jsonl", text);
  const SharedFile copy("b.jsonl", text);
  const auto fingerprint_of = [&](const SourceSettings& config) {
    return open_source(world, config)->fingerprint(world);
  };
  const SourceFingerprint first = fingerprint_of(source_of(SourceKind::jsonl, file.path()));
  const SourceFingerprint second = fingerprint_of(source_of(SourceKind::jsonl, copy.path()));
  EXPECT_EQ(first.name, file.path().string());
  EXPECT_EQ(first.samples, 23);
  EXPECT_EQ(first.bytes, static_cast<std::int64_t>(text.size()));
  EXPECT_EQ(first.digest, second.digest);
  SourceSettings seeded = source_of(SourceKind::synthetic);
  const SourceFingerprint made_up = fingerprint_of(seeded);
  seeded.seed = 2;
  EXPECT_NE(made_up.digest, fingerprint_of(seeded).digest);
}

TEST(SampleSource, has_another_fingerprint_if_one_digit_differs) {
  const boost::mpi::communicator world;
  const SharedFile file("a.jsonl", rollouts(23));
  std::string text = rollouts(23);
  text.replace(text.find("\"reward\":1"), 10, "\"reward\":2");
  const SharedFile other("a.jsonl", text);
  EXPECT_NE(open_source(world, source_of(SourceKind::jsonl, file.path()))->fingerprint(world).digest,
            open_source(world, source_of(SourceKind::jsonl, other.path()))->fingerprint(world).digest);
}

}  // namespace
}  // namespace evenkeel::sample_source_test
