#include "io/megatron/indexed_dataset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "io/indexed_dataset_files.hpp"
#include "io/temporary_file.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using namespace testing_support;

constexpr std::array<IndexedDType, 8> indexed_dtypes{
    IndexedDType::uint8, IndexedDType::int8,    IndexedDType::int16,   IndexedDType::int32,
    IndexedDType::int64, IndexedDType::float64, IndexedDType::float32, IndexedDType::uint16};

TEST(IndexedDatasetWriter, follows_the_format_to_the_byte) {
  const Files files;
  IndexedDatasetWriter writer(files.prefix(), IndexedDType::uint16);
  writer.add_sequence(std::vector<std::int64_t>{1, 2, 300});
  writer.add_sequence({});
  writer.end_document();
  writer.add_bytes(std::as_bytes(std::span("\xff\xff", 2)));
  writer.end_document();
  writer.commit();
  EXPECT_EQ(read_text(files.index_path()), small_index);
  EXPECT_EQ(read_text(files.data_path()), small_data);
  EXPECT_EQ(files.count(), 2);
}

TEST(IndexedDatasetWriter, can_write_an_empty_dataset) {
  const Files files;
  IndexedDatasetWriter(files.prefix(), IndexedDType::int32).commit();
  EXPECT_EQ(IndexedDataset(files.prefix()).num_sequences(), 0);
  EXPECT_EQ(read_text(files.data_path()), "");
}

TEST(IndexedDatasetWriter, the_optimal_dtype_is_the_one_of_the_format) {
  EXPECT_EQ(optimal_dtype(0), IndexedDType::uint16);
  EXPECT_EQ(optimal_dtype(65499), IndexedDType::uint16);
  EXPECT_EQ(optimal_dtype(65500), IndexedDType::int32);
  EXPECT_EQ(optimal_dtype(200000), IndexedDType::int32);
}

TEST(IndexedDatasetWriter, names_a_token_that_does_not_fit_and_drops_its_sequence) {
  const Files files;
  IndexedDatasetWriter writer(files.prefix(), IndexedDType::uint16);
  writer.add_sequence(std::vector<std::int64_t>{7});
  const ErrorReport report = report_of<InputError>([&] {
    writer.add_sequence(std::vector<std::int64_t>{0, 65535, 65536});
  });
  EXPECT_EQ(report.where, files.data_path().string());
  EXPECT_EQ(report.message, "sequence 1 has 65536 at position 2; uint16 holds 0 to 65535");
  EXPECT_EQ(report.hint, "Choose a wider dtype");
  EXPECT_THAT(report_of<InputError>([&] { writer.add_sequence(std::vector<std::int64_t>{-1}); }).message,
              HasSubstr("has -1 at position 0"));
  writer.end_document();
  writer.commit();
  EXPECT_THAT(tokens_of(IndexedDataset(files.prefix()), {0, 1}), ElementsAre(7));
}

TEST(IndexedDatasetWriter, checks_the_range_of_every_integer_dtype) {
  const auto accepts = [](IndexedDType dtype, std::int64_t token) {
    const Files files;
    try {
      IndexedDatasetWriter(files.prefix(), dtype).add_sequence(std::vector{token});
      return true;
    } catch (const InputError&) {
      return false;
    }
  };
  constexpr std::int64_t one = 1;
  EXPECT_TRUE(accepts(IndexedDType::uint8, 255) && !accepts(IndexedDType::uint8, 256));
  EXPECT_TRUE(accepts(IndexedDType::uint8, 0) && !accepts(IndexedDType::uint8, -1));
  EXPECT_TRUE(accepts(IndexedDType::int8, 127) && !accepts(IndexedDType::int8, 128));
  EXPECT_TRUE(accepts(IndexedDType::int8, -128) && !accepts(IndexedDType::int8, -129));
  EXPECT_TRUE(accepts(IndexedDType::int16, 32767) && !accepts(IndexedDType::int16, 32768));
  EXPECT_TRUE(accepts(IndexedDType::int16, -32768) && !accepts(IndexedDType::int16, -32769));
  EXPECT_TRUE(accepts(IndexedDType::int32, (one << 31) - 1) && !accepts(IndexedDType::int32, one << 31));
  EXPECT_TRUE(accepts(IndexedDType::int32, -(one << 31)) && !accepts(IndexedDType::int32, -(one << 31) - 1));
  EXPECT_TRUE(accepts(IndexedDType::int64, std::numeric_limits<std::int64_t>::max()));
}

TEST(IndexedDatasetWriter, partial_elements_and_float_tokens_are_refused) {
  const Files files;
  IndexedDatasetWriter writer(files.prefix(), IndexedDType::float32);
  EXPECT_EQ(report_of<InputError>([&] { writer.add_sequence(std::vector<std::int64_t>{1}); }).message,
            "has elements of float32; tokens must be integers");
  const std::array<std::byte, 6> bytes{};
  EXPECT_EQ(report_of<InputError>([&] { writer.add_bytes(bytes); }).message,
            "sequence 0 has 6 bytes, which is not a multiple of 4, the size of float32");
}

TEST(IndexedDatasetWriter, without_commit_older_files_stay_and_nothing_is_left_behind) {
  const Files files("old index", "old data");
  {
    IndexedDatasetWriter writer(files.prefix(), IndexedDType::int32);
    writer.add_sequence(std::vector<std::int64_t>(1'000'000, 5));
    const ErrorReport report = report_of<InputError>([&] { writer.commit(); });
    EXPECT_EQ(report.where, files.index_path().string());
    EXPECT_EQ(report.message, "the last document, which has 1 sequence, was not ended");
  }
  EXPECT_EQ(read_text(files.index_path()), "old index");
  EXPECT_EQ(read_text(files.data_path()), "old data");
  EXPECT_EQ(files.count(), 2);
}

TEST(IndexedDatasetWriter, a_place_that_cannot_be_written_is_found_before_the_first_sequence) {
  const Files files;
  std::filesystem::create_directory(files.index_path());
  const ErrorReport report =
      report_of<IoError>([&] { IndexedDatasetWriter(files.prefix(), IndexedDType::int32); });
  EXPECT_EQ(report.where, files.index_path().string());
  EXPECT_FALSE(std::filesystem::exists(files.data_path()));
}

TEST(IndexedDatasetWriter, writes_more_than_its_buffers_hold) {
  const Files files;
  IndexedDatasetWriter writer(files.prefix(), IndexedDType::uint8);
  constexpr std::int64_t sequences = 200'000;  // more offsets than are written or read in one piece
  for (std::int64_t i = 0; i < sequences; ++i) {
    writer.add_sequence(std::vector<std::int64_t>(static_cast<std::size_t>(i % 16), i % 251));
    if (i % 3 == 2) writer.end_document();
  }
  std::vector<std::int64_t> long_one(3 << 20);
  std::iota(long_one.begin(), long_one.end(), 0);
  for (std::int64_t& token : long_one) token %= 256;
  writer.add_sequence(long_one);
  writer.end_document();
  writer.commit();

  const IndexedDataset dataset(files.prefix());
  EXPECT_EQ(dataset.num_sequences(), sequences + 1);
  EXPECT_EQ(dataset.num_documents(), sequences / 3 + 1);
  EXPECT_EQ(dataset.document(1000), (RowRange{3000, 3003}));
  EXPECT_EQ(tokens_of(dataset, {sequences, sequences + 1}), long_one);
  for (const std::int64_t i :
       {std::int64_t{63}, std::int64_t{64}, std::int64_t{131'071}, std::int64_t{131'072}, sequences - 1}) {
    EXPECT_EQ(tokens_of(dataset, {i, i + 1}),
              std::vector<std::int64_t>(static_cast<std::size_t>(i % 16), i % 251));
  }
}

/// Arbitrary sequences of any dtype, in arbitrary documents, as bytes.
struct Content {
  IndexedDType dtype = IndexedDType::uint8;
  std::vector<std::vector<std::byte>> sequences;
  std::vector<std::int64_t> document_ends;
};

Content any_content() {
  Content content;
  content.dtype = *rc::gen::elementOf(indexed_dtypes);
  const auto lengths =
      *rc::gen::scale(3, rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, 5)));
  auto number = *rc::gen::arbitrary<std::uint32_t>();
  for (const std::size_t length : lengths) {
    content.sequences.emplace_back(length * size_of(content.dtype));
    for (std::byte& value : content.sequences.back())
      value = static_cast<std::byte>((number = number * 5 + 3) >> 8);
  }
  content.document_ends = *rc::gen::container<std::vector<std::int64_t>>(
      rc::gen::inRange<std::int64_t>(0, std::ssize(lengths) + 1));
  if (*rc::gen::arbitrary<bool>()) {  // the usual case: each sequence is a document
    content.document_ends.resize(lengths.size());
    std::iota(content.document_ends.begin(), content.document_ends.end(), 1);
  }
  if (!lengths.empty()) content.document_ends.push_back(std::ssize(lengths));
  std::ranges::sort(content.document_ends);
  return content;
}

void write(const Content& content, const std::filesystem::path& prefix) {
  IndexedDatasetWriter writer(prefix, content.dtype);
  std::int64_t sequence = 0;
  for (const std::int64_t end : content.document_ends) {
    for (; sequence < end; ++sequence) {
      writer.add_bytes(content.sequences[static_cast<std::size_t>(sequence)]);
    }
    writer.end_document();
  }
  writer.commit();
}

RC_GTEST_PROP(IndexedDataset, any_documents_of_any_dtype_come_back, ()) {
  const Content content = any_content();
  const Files files;
  write(content, files.prefix());
  const IndexedDataset dataset(files.prefix());
  RC_ASSERT(dataset.dtype() == content.dtype);
  RC_ASSERT(dataset.num_sequences() == std::ssize(content.sequences));
  RC_ASSERT(dataset.num_documents() == std::ssize(content.document_ends));
  std::int64_t begin = 0;
  for (std::int64_t document = 0; document < dataset.num_documents(); ++document) {
    const std::int64_t end = content.document_ends[static_cast<std::size_t>(document)];
    RC_ASSERT(dataset.document(document) == (RowRange{begin, end}));
    begin = end;
  }
  const auto first = *rc::gen::inRange<std::int64_t>(0, dataset.num_sequences() + 1);
  const auto last = *rc::gen::inRange<std::int64_t>(first, dataset.num_sequences() + 1);
  std::vector<std::byte> expected;
  for (std::int64_t i = first; i < last; ++i) {
    const std::vector<std::byte>& sequence = content.sequences[static_cast<std::size_t>(i)];
    RC_ASSERT(dataset.length(i) * size_of(content.dtype) == sequence.size());
    expected.insert(expected.end(), sequence.begin(), sequence.end());
  }
  RC_ASSERT(dataset.read_bytes({first, last}) == expected);
  RC_ASSERT(dataset.tokens_in({first, last}) * size_of(content.dtype) == expected.size());
}

/// Writes and reads tokens of every value of T, or of values near its limits.
template <typename T>
void tokens_come_back(IndexedDType dtype) {
  const auto tokens = *rc::gen::container<std::vector<T>>(
      rc::gen::oneOf(rc::gen::arbitrary<T>(),
                     rc::gen::element(std::numeric_limits<T>::min(), std::numeric_limits<T>::max())));
  const std::vector<std::int64_t> wide(tokens.begin(), tokens.end());
  const Files files;
  IndexedDatasetWriter writer(files.prefix(), dtype);
  writer.add_sequence(wide);
  writer.end_document();
  writer.commit();
  RC_ASSERT(tokens_of(IndexedDataset(files.prefix()), {0, 1}) == wide);
  RC_ASSERT(std::filesystem::file_size(files.data_path()) == tokens.size() * sizeof(T));
}

RC_GTEST_PROP(IndexedDataset, tokens_of_every_integer_dtype_come_back, ()) {
  tokens_come_back<std::uint8_t>(IndexedDType::uint8);
  tokens_come_back<std::int8_t>(IndexedDType::int8);
  tokens_come_back<std::int16_t>(IndexedDType::int16);
  tokens_come_back<std::uint16_t>(IndexedDType::uint16);
  tokens_come_back<std::int32_t>(IndexedDType::int32);
  tokens_come_back<std::int64_t>(IndexedDType::int64);
}

RC_GTEST_PROP(IndexedDataset, runs_of_sequences_are_returned_in_the_requested_order, ()) {
  const auto lengths = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 40)));
  const Files files;
  IndexedDatasetWriter writer(files.prefix(), IndexedDType::uint16);
  std::int64_t next = 0;
  for (const int length : lengths) {
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(length));
    std::ranges::generate(tokens, [&] { return next++ % 60'000; });
    writer.add_sequence(tokens);
    writer.end_document();
  }
  writer.commit();
  const IndexedDataset dataset(files.prefix());
  const auto sequence = rc::gen::inRange<std::int64_t>(0, std::ssize(lengths) + 1);
  const auto ends = *rc::gen::container<std::vector<std::pair<std::int64_t, std::int64_t>>>(
      rc::gen::pair(sequence, sequence));
  std::vector<RowRange> runs;
  std::vector<std::int64_t> expected;
  for (const auto& [one, other] : ends) {
    runs.push_back({std::min(one, other), std::max(one, other)});
    for (const std::int64_t token : tokens_of(dataset, runs.back())) expected.push_back(token);
  }
  std::vector<std::int64_t> tokens(expected.size());
  const bool has_negative = dataset.read_tokens(runs, tokens);
  RC_ASSERT(tokens == expected);
  RC_ASSERT(has_negative == std::ranges::any_of(expected, [](std::int64_t token) { return token < 0; }));
}

}  // namespace
}  // namespace evenkeel
