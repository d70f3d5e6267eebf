#include "io/samples/sample_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "io/jsonl/jsonl.hpp"
#include "io/samples/lengths_file.hpp"
#include "io/samples/sample_tensors.hpp"
#include "io/temporary_file.hpp"
#include "support/made_up_batch.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::made_up_batch;
using testing_support::report_of;
using testing_support::TemporaryFile;

/// Writes samples of one token each and returns their uids as read back.
std::vector<Uid> written_and_read(SampleFormat format, const char* ending, const std::vector<Uid>& uids,
                                  const DroppedFields& dropped = {}) {
  std::vector<SampleShape> shapes;
  for (std::size_t i = 0; i < uids.size(); ++i)
    shapes.push_back({SampleId{static_cast<std::int64_t>(i)}, 0, 0, 1});
  const TemporaryFile file(ending);
  const auto writer = make_sample_writer(format, file.path(), dropped);
  writer->write(made_up_batch(shapes, std::vector<FieldSpec>{}), uids);
  writer->close();
  if (format == SampleFormat::jsonl) {
    const InputFile lines(file.path());
    return read_uids(lines, scan_lines(lines).lines);
  }
  if (format == SampleFormat::lengths) return read_uids_of_table(InputFile(file.path()));
  const SampleTensors samples(std::make_unique<TensorFile>(file.path()));
  std::vector<Uid> read;
  for (std::int64_t i = 0; i < samples.num_samples(); ++i) read.push_back(samples.uid_of(i));
  return read;
}

constexpr std::array formats_with_uids{std::pair{SampleFormat::jsonl, ".jsonl"},
                                       std::pair{SampleFormat::safetensors, ".safetensors"}};

TEST(SampleWriters, keep_uids_unchanged) {
  const std::vector<std::vector<Uid>> all{{Uid(std::int64_t{-1}), Uid(std::int64_t{0}), Uid(std::int64_t{7})},
                                          {Uid("q1"), Uid(""), Uid("\u00e4 \n")},
                                          {Uid(), Uid()}};
  for (const auto& [format, ending] : formats_with_uids) {
    for (const std::vector<Uid>& uids : all)
      EXPECT_EQ(written_and_read(format, ending, uids), uids) << ending;
    EXPECT_EQ(written_and_read(format, ending, all[0], {"uid"}), std::vector<Uid>(3)) << ending;
  }
  const std::vector<Uid> mixed{Uid("7"), Uid(), Uid(std::int64_t{7})};
  EXPECT_EQ(written_and_read(SampleFormat::jsonl, ".jsonl", mixed), mixed);
  // A table contains only text.
  const auto of_table = [](const std::vector<Uid>& uids, const DroppedFields& dropped) {
    return written_and_read(SampleFormat::lengths, ".csv", uids, dropped);
  };
  EXPECT_THAT(of_table(all[0], {"input_ids"}), ElementsAre(Uid("-1"), Uid("0"), Uid("7")));
  EXPECT_THAT(of_table({Uid("a,\"b\""), Uid()}, {"all"}), ElementsAre(Uid("a,\"b\""), Uid()));
  EXPECT_THAT(of_table({Uid("q"), Uid(std::int64_t{7})}, {"all"}), ElementsAre(Uid("q"), Uid()));
}

TEST(SampleWriters, omit_dropped_columns_of_a_table) {
  const auto text = [](const DroppedFields& dropped) {
    const TemporaryFile file(".csv");
    const auto writer = make_sample_writer(SampleFormat::lengths, file.path(), dropped);
    writer->write(
        made_up_batch({{SampleId{0}, 5, 1, 2}, {SampleId{1}, own_group(1), 0, 3}}, std::vector<FieldSpec>{}));
    writer->close();
    return file.content();
  };
  EXPECT_EQ(text({"input_ids"}), "prompt_length,response_length,uid\n1,2,5\n0,3,\n");
  EXPECT_EQ(text({"input_ids", "uid"}), "prompt_length,response_length\n1,2\n0,3\n");
  EXPECT_EQ(text({"input_ids", "uid", "prompt_lengths"}), "length\n3\n3\n");
}

TEST(SampleWriters, reject_uids_that_they_cannot_keep_unless_these_are_dropped) {
  const std::vector<std::vector<Uid>> all{
      {Uid("7"), Uid(std::int64_t{7})}, {Uid(std::int64_t{7}), Uid()}, {Uid(std::uint64_t{1} << 63)}};
  const auto of_tensors = [](const std::vector<Uid>& uids, const DroppedFields& dropped) {
    return written_and_read(SampleFormat::safetensors, ".safetensors", uids, dropped);
  };
  for (const std::vector<Uid>& uids : all) {
    const ErrorReport report = report_of<InputError>([&] { of_tensors(uids, {}); });
    EXPECT_THAT(report.message, HasSubstr("cannot hold the uid of sample"));
    EXPECT_THAT(report.hint, HasSubstr("--drop uid"));
    EXPECT_EQ(of_tensors(uids, {"all"}), std::vector<Uid>(uids.size()));
  }
  for (const std::vector<Uid>& uids : std::vector<std::vector<Uid>>{
           {Uid("7"), Uid(std::int64_t{7})}, {Uid(" q")}, {Uid("")}, {Uid("a\nb")}}) {
    const ErrorReport report =
        report_of<InputError>([&] { written_and_read(SampleFormat::lengths, ".csv", uids, {"input_ids"}); });
    EXPECT_THAT(report.message, HasSubstr("the uid of sample"));
    EXPECT_THAT(report.hint, HasSubstr("--drop uid"));
  }
}

TEST(SampleWriters, name_a_token_that_an_indexed_dataset_cannot_store_and_the_remedy) {
  RaggedBatch batch({{SampleId{4}, own_group(4), 0, 2}});
  const auto tokens =
      batch.add_field({"input_ids", DType::int64, FieldKind::token, {}}).values<std::int64_t>();
  tokens[1] = 70000;
  const auto refusal = [&](IndexedDType dtype) {
    const TemporaryFile file(".idx");
    return report_of<InputError>(
        [&] { make_sample_writer(SampleFormat::megatron, file.path(), {}, dtype)->write(batch); });
  };
  const ErrorReport narrow = refusal(IndexedDType::uint16);
  EXPECT_EQ(narrow.message,
            "token 1 of sample 4 is 70000, but tokens are stored as uint16 (at most 65535) because "
            "--vocab-size is below 65500");
  EXPECT_THAT(narrow.hint, HasSubstr("--vocab-size"));
  tokens[1] = std::int64_t{1} << 31;
  EXPECT_EQ(refusal(IndexedDType::int32).hint, "Write it in another format");
}

}  // namespace
}  // namespace evenkeel
