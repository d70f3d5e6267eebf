#include "evenkeel/source/sample_stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <boost/serialization/vector.hpp>
#include <functional>

#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "support/error_message.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel::sample_stream_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::message_of;
using testing_support::ScratchFolder;
using testing_support::write_text;

using Samples = std::vector<std::vector<std::int64_t>>;

/// Files that rank 0 writes into a folder and every rank reads.
class SampleStreams : public testing::Test {
 protected:
  SampleStreams() {
    std::string path = scratch_.path().string();
    boost::mpi::broadcast(world_, path, 0);
    folder_ = path;
  }
  ~SampleStreams() override { world_.barrier(); }

  void write(const std::string& name, const std::string& text) const {
    if (world_.rank() == 0) write_text(folder_ / name, text);
    world_.barrier();
  }
  /// Returns a configuration. In the text, FOLDER is a placeholder for the folder.
  [[nodiscard]] Config config_of(std::string yaml) const {
    for (std::size_t at = yaml.find("FOLDER"); at != std::string::npos; at = yaml.find("FOLDER"))
      yaml.replace(at, 6, folder_.string());
    return parse_config(yaml, "test");
  }
  [[nodiscard]] SampleStream stream_of(const std::string& yaml) const {
    return SampleStream(world_, config_of(yaml));
  }
  /// Returns the tokens of each sample of a step, over all ranks.
  [[nodiscard]] Samples tokens_of(SampleStream& stream, std::int64_t step) const {
    const RaggedBatch mine = stream.read(step);
    Samples samples;
    for (std::int64_t i = 0; i < mine.size(); ++i) {
      const RowRange rows = mine.rows_of(FieldKind::token, i);
      const auto tokens = mine.at("input_ids").values<std::int64_t>();
      samples.emplace_back(tokens.begin() + rows.begin, tokens.begin() + rows.end);
    }
    std::vector<Samples> of_ranks;
    boost::mpi::all_gather(world_, samples, of_ranks);
    Samples all;
    for (const Samples& of_rank : of_ranks) all.insert(all.end(), of_rank.begin(), of_rank.end());
    return all;
  }

  boost::mpi::communicator world_;
  ScratchFolder scratch_;
  std::filesystem::path folder_;
};

constexpr const char* three_lines =
    "{\"prompt_ids\":[1],\"response_ids\":[2,3],\"reward\":0.5,\"advantages\":[7,8]}\n"
    "{\"prompt_ids\":[11,12,13],\"response_ids\":[14,15,16,17],\"reward\":1.5,\"advantages\":[1,2,3,4]}\n"
    "{\"prompt_ids\":[],\"response_ids\":[],\"reward\":2.5,\"advantages\":[]}\n";

TEST_F(SampleStreams, steps_may_be_read_in_any_order_and_again) {
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += "{\"prompt_ids\":[" + std::to_string(i) + "],\"response_ids\":[1]}\n";
  write("many.jsonl", lines);
  const std::string yaml =
      "source: {kind: jsonl, path: FOLDER/many.jsonl}\nbatch: {global_batch: 8, epochs: 2, shuffle: true}";
  std::vector<Samples> in_order;
  SampleStream first = stream_of(yaml);
  for (std::int64_t step = 0; step < first.num_steps(); ++step) in_order.push_back(tokens_of(first, step));
  SampleStream second = stream_of(yaml);
  for (const std::int64_t step : {4, 1, 2, 2, 0, 5, 3, 4})
    EXPECT_EQ(tokens_of(second, step), in_order[static_cast<std::size_t>(step)]) << "step " << step;
}

TEST_F(SampleStreams, a_filter_selects_by_length_and_reports_its_effect) {
  write("a.jsonl", three_lines);
  const std::string source =
      "source: {kind: jsonl, path: FOLDER/a.jsonl}\nbatch: {global_batch: 8, max_length: 4, ";
  SampleStream dropped = stream_of(source + "too_long: drop, empty: drop}");
  EXPECT_EQ(tokens_of(dropped, 0), (Samples{{1, 2, 3}}));
  EXPECT_EQ(dropped.sources()[0].counts,
            (FilterCounts{
                .samples = 3, .taken = 1, .dropped_too_long = 1, .dropped_empty = 1, .tokens_left_out = 7}));
  SampleStream cut = stream_of(source + "too_long: truncate}");
  EXPECT_EQ(tokens_of(cut, 0), (Samples{{1, 2, 3}, {11, 12, 13, 14}, {}}));
  SampleStream split = stream_of(source + "too_long: split}");
  EXPECT_EQ(tokens_of(split, 0), (Samples{{1, 2, 3}, {11, 12, 13, 14}, {15, 16, 17}, {}}));
  EXPECT_EQ(split.num_samples(), 4);
}

TEST_F(SampleStreams, a_filter_also_uses_the_cap_on_paths) {
  write("a.jsonl", three_lines);
  const auto yaml = [](const std::string& filter) {
    return "source: {kind: jsonl, path: FOLDER/a.jsonl}\nprefix: {share: tree, max_path_tokens: 4}\n"
           "batch: {global_batch: 8, " +
           filter + "}";
  };
  SampleStream cut = stream_of(yaml("too_long: truncate"));
  EXPECT_EQ(tokens_of(cut, 0), (Samples{{1, 2, 3}, {11, 12, 13, 14}, {}}));
  EXPECT_THROW((void)stream_of(yaml("too_long: truncate, max_length: 5")), ConfigError);
}

TEST_F(SampleStreams, pieces_have_the_rows_of_their_tokens_in_every_field) {
  write("a.jsonl", three_lines);
  SampleStream split = stream_of(
      "{source: {kind: jsonl, path: FOLDER/a.jsonl}, batch: {global_batch: 8, too_long: split, max_length: "
      "4}}");
  const RaggedBatch mine = split.read(0);
  for (std::int64_t i = 0; i < mine.size(); ++i) {
    const auto index = static_cast<std::size_t>(i);
    const SampleShape& shape = mine.samples()[index];
    if (shape.id != SampleId{1}) continue;
    const auto first_token = static_cast<std::size_t>(mine.rows_of(FieldKind::token, i).begin);
    const auto first_response = static_cast<std::size_t>(mine.rows_of(FieldKind::response_token, i).begin);
    const bool is_first = mine.at("input_ids").values<std::int64_t>()[first_token] == 11;
    EXPECT_EQ(shape.prompt, is_first ? 3 : 0);
    EXPECT_EQ(shape.response, is_first ? 1 : 3);
    EXPECT_EQ(mine.at("reward").values<float>()[index], 1.5F);
    EXPECT_EQ(mine.at("advantages").values<std::int64_t>()[first_response], is_first ? 1 : 2);
  }
}

TEST_F(SampleStreams, rows_are_cut_with_their_tokens_or_refused_before_the_first_step) {
  write("a.jsonl",
        "{\"prompt_ids\":[1],\"response_ids\":[2],\"patches\":[],\"spans\":[]}\n"
        "{\"prompt_ids\":[1,2,3],\"response_ids\":[4,5],\"patches\":[7,8],\"spans\":[[1,2],[3,5]]}\n");
  const auto yaml = [](const std::string& filter, const std::string& of_patches) {
    return "source: {kind: jsonl, path: FOLDER/a.jsonl}\nbatch: {global_batch: 8, " + filter +
           "}\nfields: {patches: {read_as: rows" + of_patches + "}, spans: {read_as: rows}}";
  };
  EXPECT_THROW((void)stream_of(yaml("too_long: truncate, max_length: 4", "")), InputError);
  EXPECT_NO_THROW((void)stream_of(yaml("too_long: truncate, max_length: 5", "")));
  SampleStream split = stream_of(yaml("too_long: split, max_length: 4", ", cut_by: spans"));
  const RaggedBatch mine = split.read(0);
  std::int64_t rows = mine.size() > 0 ? mine.at("patches").rows() : 0;
  rows = boost::mpi::all_reduce(world_, rows, std::plus<>());
  EXPECT_EQ(rows, 2 + 1);  // the second row has tokens of both pieces
}

TEST_F(SampleStreams, filtered_samples_always_fit_under_the_cap) {
  write("a.jsonl", three_lines);
  try {
    (void)stream_of(
        "{source: {kind: jsonl, path: FOLDER/a.jsonl}, batch: {too_long: drop}, "
        "micro_batch: {max_tokens: 7}, pack: {align: 4}}");
    FAIL() << "a sample of 7 tokens takes 8 rows";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.report().where, "batch.max_length");
    EXPECT_THAT(error.report().hint, HasSubstr("Set it to 4 or less"));
  }
}

TEST_F(SampleStreams, more_mini_batches_than_samples_are_everybodys_error) {
  const std::string source =
      "source: {kind: synthetic, samples: 20}\nbatch: {global_batch: 8, mini_batches: ";
  EXPECT_NO_THROW((void)stream_of(source + "8}"));
  EXPECT_THROW((void)stream_of(source + "9}"), ConfigError);
}

TEST_F(SampleStreams, a_cap_per_rank_does_not_limit_length_since_samples_do_not_depend_on_the_mesh) {
  write("a.jsonl", three_lines);
  const std::string filtered =
      "source: {kind: jsonl, path: FOLDER/a.jsonl}\nmicro_batch: {max_tokens_per_rank: 4}\n"
      "batch: {global_batch: 8, too_long: ";
  for (const char* what : {"drop", "truncate", "split"}) {
    EXPECT_THAT(message_of([&] { (void)stream_of(filtered + what + "}"); }),
                AllOf(HasSubstr("batch.max_length: is auto, but with micro_batch.max_tokens_per_rank"),
                      HasSubstr("Set it to a number of tokens")));
    EXPECT_GE(stream_of(filtered + what + ", max_length: 4}").num_samples(), 2);
    const std::vector<std::string> unnamed{""};  // as evenkeel run names its only pass
    EXPECT_THROW((void)SampleStream(world_, config_of(filtered + what + "}"), unnamed), ConfigError);
  }
  EXPECT_EQ(stream_of(filtered + "error}").num_samples(), 3);
  const Config config = config_of(
      "source: {kind: jsonl, path: FOLDER/a.jsonl}\nbatch: {too_long: drop}\n"
      "profiles: {a: {micro_batch: {max_tokens: auto, max_tokens_per_rank: 4}}}\n");
  const std::vector<std::string> profile{"a"};
  EXPECT_THROW((void)SampleStream(world_, config, profile), ConfigError);
  EXPECT_EQ(SampleStream(world_, config).num_samples(), 3);
}

TEST_F(SampleStreams, a_filter_that_drops_all_samples_is_everybodys_error) {
  write("a.jsonl", three_lines);
  EXPECT_THROW((void)stream_of("{source: {kind: jsonl, path: FOLDER/a.jsonl}, "
                               "batch: {max_length: 1, too_long: drop, empty: drop}}"),
               InputError);
}

TEST_F(SampleStreams, the_caps_of_all_passes_limit_the_length) {
  write("a.csv", "length\n3\n30\n300\n");
  const Config config = config_of(
      "source: {kind: lengths, path: FOLDER/a.csv}\nbatch: {too_long: drop}\nmicro_batch: {max_tokens: 4}\n"
      "profiles: {small: {micro_batch: {max_tokens: 40}}, large: {micro_batch: {max_tokens: 400}}}\n");
  const std::vector<std::string> both{"large", "small"};
  const std::vector<std::string> large{"large"};
  EXPECT_EQ(SampleStream(world_, config).num_samples(), 1);
  EXPECT_EQ(SampleStream(world_, config, both).num_samples(), 2);
  EXPECT_EQ(SampleStream(world_, config, large).num_samples(), 3);
}

constexpr const char* mixed =
    "sources:\n"
    "  books: {kind: jsonl, path: FOLDER/books.jsonl}\n"
    "  math: {kind: jsonl, path: FOLDER/math.jsonl, weight: 2, epochs: 3}\n"
    "batch: {global_batch: 4}\n";

std::string lines(std::int64_t from, std::int64_t count, const std::string& fields = "") {
  std::string text;
  for (std::int64_t i = from; i < from + count; ++i)
    text += R"({"uid":"q","prompt_ids":[],"response_ids":[)" + std::to_string(i) + "]" + fields + "}\n";
  return text;
}

TEST_F(SampleStreams, sources_are_mixed_by_weight_each_with_its_own_epochs) {
  write("books.jsonl", lines(100, 3));
  write("math.jsonl", lines(200, 2));
  SampleStream stream = stream_of(mixed);
  EXPECT_EQ(stream.num_samples(), 9);
  EXPECT_EQ(tokens_of(stream, 0), (Samples{{200}, {100}, {201}, {200}}));
  EXPECT_EQ(tokens_of(stream, 1), (Samples{{101}, {201}, {200}, {102}}));
  EXPECT_EQ(tokens_of(stream, 2), (Samples{{201}}));
}

TEST_F(SampleStreams, samples_of_different_sources_have_different_groups) {
  write("books.jsonl", lines(100, 3));
  write("math.jsonl", lines(200, 2));
  SampleStream stream = stream_of(mixed);
  const RaggedBatch mine = stream.read(0);
  for (std::int64_t i = 0; i < mine.size(); ++i) {
    const auto index = static_cast<std::size_t>(i);
    const SampleShape& shape = mine.samples()[index];
    const auto first = static_cast<std::size_t>(mine.token_offsets()[index]);
    const std::int64_t token = mine.at("input_ids").values<std::int64_t>()[first];
    EXPECT_EQ(shape.id.value(), token < 200 ? token - 100 : 3 + token - 200);
    // The same uid in both files means two groups.
    const SampleShape& other = mine.samples()[0];
    EXPECT_EQ(shape.group == other.group, (shape.id.value() < 3) == (other.id.value() < 3));
  }
}

TEST_F(SampleStreams, sources_with_other_fields_are_refused_with_both_names) {
  write("books.jsonl", lines(100, 3));
  write("math.jsonl", lines(200, 2, ",\"reward\":1"));
  EXPECT_THAT(message_of([&] { (void)stream_of(mixed); }),
              HasSubstr("source 'books': lacks the field 'reward' of source 'math'"));
}

// Each step of 4 contains samples of only one source.
constexpr const char* one_after_the_other =
    "sources:\n"
    "  books: {kind: jsonl, path: FOLDER/books.jsonl, weight: 1000}\n"
    "  math: {kind: jsonl, path: FOLDER/math.jsonl, weight: 0.001}\n"
    "batch: {global_batch: 4}\n";

TEST_F(SampleStreams, sources_with_fields_of_different_types_are_refused_before_any_step) {
  write("books.jsonl", lines(100, 4, R"(,"reward":0.5,"w":[[1,2]])"));
  write("math.jsonl", lines(200, 4, R"(,"reward":1,"w":[[1,2]])"));
  EXPECT_THAT(message_of([&] { (void)stream_of(one_after_the_other); }),
              AllOf(HasSubstr("source 'math': field 'reward' is int64, but in"),
                    HasSubstr("in source 'books' it is float32. Make")));
  write("math.jsonl", lines(200, 4, R"(,"reward":0.5,"w":[[1,2,3]])"));
  EXPECT_THAT(message_of([&] { (void)stream_of(one_after_the_other); }),
              AllOf(HasSubstr("field 'w' is int64 with rows of shape [3]"),
                    HasSubstr("it is int64 with rows of shape [2]")));
  write("math.jsonl", lines(200, 4, R"(,"reward":0.5,"w":2)"));
  EXPECT_THAT(message_of([&] { (void)stream_of(one_after_the_other); }),
              HasSubstr("field 'w' is of kind sample, but in source 'books' it is of kind token"));
}

TEST_F(SampleStreams, an_undecided_field_of_one_source_is_decided_by_another) {
  // Without prompts, `a` cannot be distinguished from a field of tokens, and the elements of `patches` are
  // unknown.
  write("books.jsonl", lines(100, 4, R"(,"a":[1],"patches":[])"));
  write("math.jsonl", R"({"prompt_ids":[1],"response_ids":[2],"a":[3],"patches":[[1,2],[3,4]]})"
                      "\n");
  SampleStream stream = stream_of(std::string(one_after_the_other) + "fields: {patches: {read_as: rows}}\n");
  for (const StreamSource& source : stream.sources()) EXPECT_EQ(source.undecided_fields, "") << source.name;
  for (std::int64_t step = 0; step < stream.num_steps(); ++step) {
    const RaggedBatch mine = stream.read(step);
    if (mine.size() == 0) continue;
    EXPECT_EQ(mine.at("a").spec().kind, FieldKind::response_token);
    EXPECT_EQ(mine.at("a").rows(), mine.size());
    EXPECT_EQ(mine.at("patches").spec().dtype, DType::int64);
    EXPECT_EQ(mine.at("patches").spec().trailing, std::vector<std::int64_t>{2});
  }
}

TEST_F(SampleStreams, samples_without_a_uid_are_groups_of_their_own_beside_any_other_source) {
  write("books.jsonl", R"({"prompt_ids":[],"response_ids":[1]})"
                       "\n"
                       R"({"uid":0,"prompt_ids":[],"response_ids":[2]})"
                       "\n");
  write("math.jsonl", lines(200, 1) + R"({"prompt_ids":[],"response_ids":[3]})"
                                      "\n");
  for (const std::string& text :
       {std::string(mixed), std::string("source: {kind: jsonl, path: FOLDER/books.jsonl}\n")}) {
    SampleStream stream = stream_of(text);
    for (std::int64_t step = 0; step < stream.num_steps(); ++step) {
      const RaggedBatch mine = stream.read(step);
      for (const SampleShape& sample : mine.samples()) {
        const bool has_uid = sample.id == SampleId{1} || sample.id == SampleId{2};
        EXPECT_EQ(is_single_sample_group(sample.group), !has_uid) << sample.id.value();
        EXPECT_TRUE(has_uid || sample.group == own_group(sample.id.value())) << sample.id.value();
      }
    }
  }
}

TEST_F(SampleStreams, weights_may_be_shares_of_tokens) {
  write("a.csv", "length\n100\n100\n100\n100\n");
  std::string short_ones = "length\n";
  for (int i = 0; i < 40; ++i) short_ones += "10\n";
  write("b.csv", short_ones);
  SampleStream stream = stream_of(
      "sources: {a: {kind: lengths, path: FOLDER/a.csv}, b: {kind: lengths, path: FOLDER/b.csv}}\n"
      "batch: {global_batch: 11, mix: tokens}\n");
  for (std::int64_t step = 0; step < stream.num_steps(); ++step) {
    const Samples samples = tokens_of(stream, step);
    EXPECT_EQ(std::ranges::count_if(samples, [](const auto& sample) { return sample.size() == 100; }), 1);
  }
}

TEST_F(SampleStreams, order_does_not_depend_on_the_ranks_that_read) {
  const Config config = config_of(
      "sources:\n"
      "  a: {kind: synthetic, samples: 40, weight: 1.5}\n"
      "  b: {kind: synthetic, samples: 30, seed: 4, epochs: 2}\n"
      "batch: {global_batch: 16, shuffle: true, too_long: split, max_length: 300, mix: tokens}\n");
  SampleStream together(world_, config);
  const boost::mpi::communicator alone = world_.split(world_.rank());
  SampleStream apart(alone, config);
  ASSERT_EQ(together.num_steps(), apart.num_steps());
  for (std::int64_t step = apart.num_steps() - 1; step >= 0; step -= 3) {
    const RaggedBatch whole = apart.read(step);
    const RaggedBatch mine = together.read(step);
    std::vector<std::int64_t> counts;
    boost::mpi::all_gather(world_, mine.size(), counts);
    std::int64_t first = 0;
    for (int rank = 0; rank < world_.rank(); ++rank) first += counts[static_cast<std::size_t>(rank)];
    for (std::int64_t i = 0; i < mine.size(); ++i)
      EXPECT_EQ(mine.samples()[static_cast<std::size_t>(i)],
                whole.samples()[static_cast<std::size_t>(first + i)]);
  }
}

constexpr const char* with_delay =
    "source: {kind: synthetic, samples: 400, seed: 3}\n"
    "micro_batch: {max_tokens: 8192}\n"
    "balance: {cost: flops-7b}\n"
    "batch: {global_batch: 8, shuffle: true, delay_outliers: 3, outlier_length: 4000, outliers_per_step: "
    "4}\n";

TEST_F(SampleStreams, outliers_wait_for_others_alike_for_any_ranks_that_read) {
  const Config config = config_of(with_delay);
  SampleStream together(world_, config);
  const boost::mpi::communicator alone = world_.split(world_.rank());
  SampleStream apart(alone, config);
  Config undelayed = config;
  undelayed.delay = {};
  SampleStream plain(alone, undelayed);
  std::int64_t differ = 0;
  for (std::int64_t step = 0; step < together.num_steps(); ++step) {
    const RaggedBatch mine = together.read(step);
    const RaggedBatch whole = apart.read(step);
    const RaggedBatch as_drawn = plain.read(step);
    ASSERT_EQ(whole.size(), as_drawn.size());
    if (!std::ranges::equal(whole.samples(), as_drawn.samples())) ++differ;
    std::int64_t first = 0;
    std::vector<std::int64_t> counts;
    boost::mpi::all_gather(world_, mine.size(), counts);
    for (int rank = 0; rank < world_.rank(); ++rank) first += counts[static_cast<std::size_t>(rank)];
    for (std::int64_t i = 0; i < mine.size(); ++i) {
      EXPECT_EQ(mine.samples()[static_cast<std::size_t>(i)],
                whole.samples()[static_cast<std::size_t>(first + i)]);
    }
  }
  EXPECT_GT(differ, 0);
  const DelayFigures figures = together.delay_figures();
  EXPECT_EQ(figures, apart.delay_figures());
  EXPECT_GT(figures.samples, 0);
  EXPECT_LE(figures.longest, 3);
  EXPECT_LT(figures.planned.every_micro_batch, figures.in_order.every_micro_batch);
  EXPECT_EQ(plain.delay_figures(), DelayFigures{});
}

TEST_F(SampleStreams, a_state_records_the_delay_of_outliers) {
  const Config config = config_of(with_delay);
  Config undelayed = config;
  undelayed.delay = {};
  ServiceState with = state_of_new_job(config);
  ServiceState without = state_of_new_job(undelayed);
  SampleStream(world_, config).describe(with);
  SampleStream(world_, undelayed).describe(without);
  EXPECT_NE(with.order, without.order);
  EXPECT_THAT(differences(with, without),
              testing::Contains(HasSubstr("batch.delay_outliers was 3 and is now 0 (steps would repeat")));
  Config dearer = config;
  dearer.balance.overhead = 7;
  EXPECT_THAT(differences(with, state_of_new_job(dearer)),
              testing::Contains(HasSubstr("balance.overhead was auto and is now 7 (steps would repeat")));
}

TEST_F(SampleStreams, a_state_distinguishes_other_selections_of_the_same_sources) {
  write("a.jsonl", three_lines);
  const auto order_of = [&](const std::string& filter) {
    const Config config = config_of("{source: {kind: jsonl, path: FOLDER/a.jsonl}, batch: {" + filter + "}}");
    ServiceState state = state_of_new_job(config);
    SampleStream(world_, config).describe(state);
    return state.order;
  };
  EXPECT_EQ(order_of("too_long: error"), order_of("too_long: drop, max_length: 100"));
  EXPECT_NE(order_of("too_long: error"), order_of("too_long: drop, max_length: 4"));
  EXPECT_NE(order_of("too_long: split, max_length: 4"), order_of("too_long: split, max_length: 5"));
}

}  // namespace
}  // namespace evenkeel::sample_stream_test
