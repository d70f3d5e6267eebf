#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/serialization/string.hpp>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/service/data_service.hpp"
#include "evenkeel/source/sample_source.hpp"
#include "io/megatron/indexed_dataset.hpp"
#include "support/error_message.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel::indexed_source_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::message_of;
using testing_support::ScratchFolder;
using Document = std::vector<std::vector<std::int64_t>>;

/// A dataset that rank 0 writes and all ranks open. It is removed after all ranks are done.
class SharedDataset {
 public:
  explicit SharedDataset(const std::vector<Document>& documents, IndexedDType dtype = IndexedDType::uint16) {
    std::string path;
    if (world_.rank() == 0) {
      path = (scratch_ / "tokens_document").string();
      IndexedDatasetWriter writer(path, dtype);
      for (const Document& document : documents) {
        for (const std::vector<std::int64_t>& sequence : document) writer.add_sequence(sequence);
        writer.end_document();
      }
      writer.commit();
    }
    boost::mpi::broadcast(world_, path, 0);
    source.kind = SourceKind::megatron;
    source.path = path;
  }
  SharedDataset(const SharedDataset&) = delete;
  SharedDataset& operator=(const SharedDataset&) = delete;
  ~SharedDataset() { world_.barrier(); }

  SourceSettings source;

 private:
  boost::mpi::communicator world_;
  ScratchFolder scratch_;
};

std::vector<std::int64_t> tokens_of(const RaggedBatch& batch, std::int64_t sample) {
  const auto tokens = batch.at(input_ids_field).values<std::int64_t>();
  const RowRange rows = batch.rows_of(FieldKind::token, sample);
  return {tokens.begin() + rows.begin, tokens.begin() + rows.end};
}

TEST(IndexedSource, makes_each_document_one_sample_without_a_prompt) {
  const boost::mpi::communicator world;
  const SharedDataset dataset({{{1, 2}, {3}}, {}, {{4, 5, 6}}, {{7}}});
  const auto source = open_source(world, dataset.source);
  ASSERT_EQ(source->num_samples(), 4);
  const RaggedBatch batch = source->read(std::vector<std::int64_t>{3, 0, 1, 2});
  EXPECT_THAT(tokens_of(batch, 0), ElementsAre(7));
  EXPECT_THAT(tokens_of(batch, 1), ElementsAre(1, 2, 3));
  EXPECT_THAT(tokens_of(batch, 2), ElementsAre());
  EXPECT_THAT(tokens_of(batch, 3), ElementsAre(4, 5, 6));
  EXPECT_EQ(batch.samples()[1].id, SampleId{0});
  EXPECT_EQ(batch.samples()[1].prompt, 0);
  EXPECT_NE(batch.samples()[1].group, batch.samples()[2].group);
}

TEST(IndexedSource, names_the_file_the_document_and_the_token_that_is_below_0) {
  const boost::mpi::communicator world;
  const SharedDataset dataset({{{1, 2}}, {{3}, {4, -5}}}, IndexedDType::int16);
  const auto source = open_source(world, dataset.source);
  EXPECT_EQ(source->read(std::vector<std::int64_t>{0}).num_tokens(), 2);
  const std::string refusal = message_of([&] { (void)source->read(std::vector<std::int64_t>{0, 1}); });
  EXPECT_THAT(refusal, AllOf(HasSubstr("tokens_document.bin: has -5 as token 2 of document 1"),
                             HasSubstr("do not fit into int16")));
}

TEST(IndexedSource, has_a_fingerprint_of_every_token) {
  const boost::mpi::communicator world;
  const auto fingerprint = [&](std::int64_t changed) {
    std::vector<std::int64_t> tokens(1 << 20);
    tokens[tokens.size() / 2 + 5000] = changed;
    const SharedDataset dataset({{tokens}}, IndexedDType::int32);
    return open_source(world, dataset.source)->fingerprint(world);
  };
  const SourceFingerprint before = fingerprint(0);
  EXPECT_EQ(before.whole, fingerprint(0).whole);
  EXPECT_EQ(before.digest, fingerprint(7).digest) << "no place that is looked at has changed";
  EXPECT_NE(before.whole, fingerprint(7).whole);
}

TEST(IndexedSource, is_found_by_the_name_of_either_file) {
  const boost::mpi::communicator world;
  SharedDataset dataset({{{1, 2}}});
  const std::filesystem::path prefix = dataset.source.path;
  for (const char* ending : {".bin", ".idx"}) {
    dataset.source.path = prefix.string() + ending;
    EXPECT_EQ(open_source(world, dataset.source)->num_samples(), 1);
  }
}

TEST(IndexedSource, feeds_steps) {
  const boost::mpi::communicator world;
  std::vector<Document> documents;
  for (std::int64_t d = 0; d < 30; ++d) {
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(1 + d * 7 % 50));
    std::iota(tokens.begin(), tokens.end(), d * 100);
    documents.push_back({tokens});
  }
  const SharedDataset dataset(documents, IndexedDType::int32);
  const auto source = open_source(world, dataset.source);
  Config config;
  config.micro_batch.max_tokens = 128;
  DataService service(world, config);
  std::vector<std::int64_t> mine;
  for (std::int64_t d = world.rank(); d < 30; d += world.size()) mine.push_back(d);
  const Step step = service.step(source->read(mine));
  EXPECT_EQ(step.num_samples, 30);
  std::int64_t wrong = 0;
  for (const MicroBatch& m : step.micro_batches) {
    const auto tokens = m.tensors.find(input_ids_field)->values<std::int64_t>();
    for (std::int64_t s = 0; s < m.tensors.layout.size() && !m.tensors.empty(); ++s) {
      const std::int64_t first = m.tensors.samples[static_cast<std::size_t>(s)].id.value() * 100;
      const RowRange rows = m.tensors.layout.local_range(s);
      for (std::int64_t t = 0; t < m.tensors.layout.length(s); ++t)
        wrong += tokens[static_cast<std::size_t>(rows.begin + t)] == first + t ? 0 : 1;
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(IndexedSource, a_missing_or_invalid_dataset_is_everybodys_error) {
  const boost::mpi::communicator world;
  SharedDataset missing(std::vector<Document>{Document{{1}}});
  missing.source.path += "_of_nobody";
  EXPECT_THROW((void)open_source(world, missing.source), IoError);
  const SharedDataset empty(std::vector<Document>{});
  EXPECT_THAT(message_of([&] { (void)open_source(world, empty.source); }), HasSubstr("has no samples"));
  std::string path;
  ScratchFolder scratch;
  if (world.rank() == 0) {
    path = (scratch / "weights").string();
    IndexedDatasetWriter writer(path, IndexedDType::float32);
    writer.add_bytes(std::vector<std::byte>(8));
    writer.end_document();
    writer.commit();
  }
  boost::mpi::broadcast(world, path, 0);
  SourceSettings weights;
  weights.kind = SourceKind::megatron;
  weights.path = path;
  EXPECT_THAT(message_of([&] { (void)open_source(world, weights); }),
              AllOf(HasSubstr("weights.idx"), HasSubstr("float32, which are not tokens")));
  world.barrier();
}

/// The three parts of an SFT dataset of MindSpeed-RL whose documents have these elements.
class SftDataset {
 public:
  using Part = std::vector<std::vector<std::int64_t>>;

  SftDataset(const Part& tokens, const Part& mask, const Part& labels) {
    std::string path;
    if (world_.rank() == 0) {
      path = (scratch_ / "sft").string();
      write(path + "_packed_input_ids_document", tokens);
      write(path + "_packed_attention_mask_document", mask);
      write(path + "_packed_labels_document", labels);
    }
    boost::mpi::broadcast(world_, path, 0);
    source.kind = SourceKind::megatron;
    source.path = path;
  }
  SftDataset(const SftDataset&) = delete;
  SftDataset& operator=(const SftDataset&) = delete;
  ~SftDataset() { world_.barrier(); }

  SourceSettings source;

 private:
  static void write(const std::string& path, const Part& documents) {
    IndexedDatasetWriter writer(path, IndexedDType::int32);
    for (const std::vector<std::int64_t>& document : documents) {
      writer.add_sequence(document);
      writer.end_document();
    }
    writer.commit();
  }

  boost::mpi::communicator world_;
  ScratchFolder scratch_;
};

TEST(SftSource, derives_prompts_and_loss_masks_from_labels) {
  const boost::mpi::communicator world;
  SftDataset data({{5, 6, 7, 8, 9}, {1, 2}, {3, 4}}, {{1, 1, 1, 1, 1}, {1, 1}, {1, 1}},
                  {{-100, -100, 7, -100, 9}, {-100, -100}, {3, 4}});
  const std::string prefix = data.source.path.string();
  for (const std::string name : {"", "_packed_input_ids_document", "_packed_labels_document.idx"}) {
    data.source.path = prefix + name;
    const auto source = open_source(world, data.source);
    ASSERT_EQ(source->num_samples(), 3);
    EXPECT_EQ(source->tokens_in(0), 5);
    const RaggedBatch batch = source->read(std::vector<std::int64_t>{0, 2, 1});
    EXPECT_THAT(batch.at(input_ids_field).values<std::int64_t>(), ElementsAre(5, 6, 7, 8, 9, 3, 4, 1, 2));
    EXPECT_THAT(batch.at("loss_mask").values<std::uint8_t>(), ElementsAre(1, 0, 1, 1));
    EXPECT_EQ(batch.samples()[0], (SampleShape{SampleId{0}, own_group(0), 2, 3}));
    EXPECT_EQ(batch.samples()[1], (SampleShape{SampleId{2}, own_group(2), 1, 1}));
    EXPECT_EQ(batch.samples()[2], (SampleShape{SampleId{1}, own_group(1), 2, 0}));
  }
}

TEST(SftSource, refuses_documents_that_are_not_one_sample) {
  const boost::mpi::communicator world;
  const auto refusal = [&](const SftDataset::Part& mask, const SftDataset::Part& labels) {
    const SftDataset data({{5, 6, 7}}, mask, labels);
    return message_of([&] { (void)open_source(world, data.source)->read(std::vector<std::int64_t>{0}); });
  };
  EXPECT_THAT(refusal({{1, 1, 0}}, {{-100, 6, 7}}), AllOf(HasSubstr("attention_mask_document.bin"),
                                                          HasSubstr("the value 0 at token 2 of document 0")));
  EXPECT_THAT(
      refusal({{1, 1, 1}}, {{6, 7, -100}}),
      AllOf(HasSubstr("labels_document.bin"), HasSubstr("the label 6 beside the token 5 at token 0")));
  EXPECT_THAT(refusal({{1, 1, 1}}, {{-100, 6}}),
              HasSubstr("has 2 elements in document 0, but the token dataset has 3 tokens there"));
  EXPECT_THAT(refusal({{1, 1, 1}}, {{-100, 6, 7}, {1}}),
              HasSubstr("has 2 documents, but the token dataset has 1"));
}

TEST(IndexedSource, different_tokens_on_one_rank_are_everybodys_error) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;  // a single rank cannot disagree
  const ScratchFolder scratch;    // of this rank
  IndexedDatasetWriter writer(scratch / "tokens", IndexedDType::int32);
  writer.add_sequence(std::vector<std::int64_t>{1, 2, world.rank() == world.size() - 1 ? 4 : 3});
  writer.end_document();
  writer.commit();
  SourceSettings source;
  source.kind = SourceKind::megatron;
  source.path = scratch / "tokens";
  EXPECT_THROW((void)open_source(world, source), IoError);
  world.barrier();
}

}  // namespace
}  // namespace evenkeel::indexed_source_test
