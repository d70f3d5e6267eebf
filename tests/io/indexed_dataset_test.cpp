#include "io/megatron/indexed_dataset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "io/indexed_dataset_files.hpp"
#include "io/temporary_file.hpp"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace testing_support;

std::string indexed_error(const std::string& index, const std::string& data = small_data) {
  const Files files(index, data);
  const ErrorReport report = report_of<InputError>([&] { IndexedDataset{files.prefix()}; });
  EXPECT_THAT((std::vector{files.index_path().string(), files.data_path().string()}),
              testing::Contains(report.where));
  EXPECT_FALSE(report.hint.empty());
  return report.message;
}

/// Returns the small index with these bytes at an offset.
std::string small_index_with(std::size_t place, const std::string& bytes) {
  std::string index = small_index;
  return index.replace(place, bytes.size(), bytes);
}

template <typename T>
std::string bytes_of(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// Opens the dataset and, if that succeeds, reads all of it. Any inconsistency is an InputError.
void read_everything(const std::filesystem::path& prefix) {
  const IndexedDataset dataset(prefix);
  const RowRange all{0, dataset.num_sequences()};
  EXPECT_EQ(dataset.read_bytes(all).size(), std::filesystem::file_size(prefix.string() + ".bin"));
  std::int64_t sequences = 0;
  for (std::int64_t document = 0; document < dataset.num_documents(); ++document) {
    const RowRange range = dataset.document(document);
    EXPECT_EQ(range.begin, sequences);
    sequences = range.end;
  }
  EXPECT_EQ(sequences, dataset.num_sequences());
  if (dataset.dtype() == IndexedDType::float32 || dataset.dtype() == IndexedDType::float64) return;
  EXPECT_EQ(std::ssize(tokens_of(dataset, all)), dataset.num_tokens());
}

TEST(IndexedDataset, follows_the_format) {
  const Files files(small_index, small_data);
  const IndexedDataset dataset(files.prefix());
  EXPECT_EQ(dataset.dtype(), IndexedDType::uint16);
  EXPECT_EQ(dataset.num_sequences(), 3);
  EXPECT_EQ(dataset.num_documents(), 2);
  EXPECT_EQ(dataset.num_tokens(), 4);
  EXPECT_FALSE(dataset.has_modes());
  EXPECT_EQ(dataset.length(0), 3);
  EXPECT_EQ(dataset.length(1), 0);
  EXPECT_EQ(dataset.length(2), 1);
  EXPECT_EQ(dataset.document(0), (RowRange{0, 2}));
  EXPECT_EQ(dataset.document(1), (RowRange{2, 3}));
  EXPECT_THAT(tokens_of(dataset, {0, 3}), ElementsAre(1, 2, 300, 65535));
  EXPECT_THAT(tokens_of(dataset, {0, 1}), ElementsAre(1, 2, 300));
  EXPECT_THAT(tokens_of(dataset, {1, 3}), ElementsAre(65535));
  EXPECT_THAT(tokens_of(dataset, {1, 2}), IsEmpty());
  EXPECT_THAT(tokens_of(dataset, {3, 3}), IsEmpty());
  EXPECT_THAT(dataset.read_bytes({2, 3}), ElementsAre(std::byte{0xff}, std::byte{0xff}));
}

TEST(IndexedDataset, detects_modes_by_the_size_of_the_index) {
  const Files files(small_index + "\0\1\xff"s, small_data);
  const IndexedDataset dataset(files.prefix());
  EXPECT_TRUE(dataset.has_modes());
  EXPECT_THAT(tokens_of(dataset, {0, 3}), ElementsAre(1, 2, 300, 65535));
}

TEST(IndexedDataset, may_be_empty) {
  const std::string none(8, '\0');
  const Files files(magic_bytes + version_bytes + "\4" + none + version_bytes + none, "");
  const IndexedDataset dataset(files.prefix());
  EXPECT_EQ(dataset.num_sequences(), 0);
  EXPECT_EQ(dataset.num_documents(), 0);
  EXPECT_EQ(dataset.num_tokens(), 0);
  EXPECT_THAT(tokens_of(dataset, {0, 0}), IsEmpty());
}

TEST(IndexedDataset, a_document_may_be_empty) {
  // two documents more than sequences, so the counts alone do not reveal it
  const std::string starts = bytes_of<std::int64_t>(0) + bytes_of<std::int64_t>(0) +
                             bytes_of<std::int64_t>(2) + bytes_of<std::int64_t>(3);
  std::string index = header_bytes + lengths_bytes + offsets_bytes + starts;
  index[26] = 4;
  const Files files(index, small_data);
  const IndexedDataset dataset(files.prefix());
  EXPECT_EQ(dataset.num_documents(), 3);
  EXPECT_EQ(dataset.document(0), (RowRange{0, 0}));
  EXPECT_EQ(dataset.document(1), (RowRange{0, 2}));
}

TEST(IndexedDataset, usually_has_one_sequence_per_document) {
  const std::string starts = bytes_of<std::int64_t>(0) + bytes_of<std::int64_t>(1) +
                             bytes_of<std::int64_t>(2) + bytes_of<std::int64_t>(3);
  std::string index = header_bytes + lengths_bytes + offsets_bytes + starts;
  index[26] = 4;
  const Files files(index, small_data);
  const IndexedDataset dataset(files.prefix());
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(dataset.document(i), (RowRange{i, i + 1}));
}

TEST(IndexedDataset, returns_negative_tokens_and_floats_unchanged) {
  const std::string index = magic_bytes + version_bytes + "\2" + version_bytes + "\2\0\0\0\0\0\0\0"s +
                            "\4\0\0\0"s + std::string(16, '\0') + version_bytes;
  const Files bytes(index, "\x80\xff\0\x7f"s);
  EXPECT_THAT(tokens_of(IndexedDataset(bytes.prefix()), {0, 1}), ElementsAre(-128, -1, 0, 127));

  std::string of_floats = index;
  of_floats[17] = 7;
  const std::string one_and_half = "\0\0\x80\x3f\0\0\0\x3f\0\0\0\0\0\0\0\0"s;
  const Files floats(of_floats, one_and_half);
  const IndexedDataset dataset(floats.prefix());
  const ErrorReport report = report_of<InputError>([&] { (void)tokens_of(dataset, {0, 1}); });
  EXPECT_EQ(report.where, floats.index_path().string());
  EXPECT_EQ(report.message, "has elements of float32; tokens must be integers");
  EXPECT_TRUE(std::ranges::equal(dataset.read_bytes({0, 1}), std::as_bytes(std::span(one_and_half))));
}

TEST(IndexedDataset, a_missing_file_is_an_io_error) {
  const Files files;
  EXPECT_EQ(report_of<IoError>([&] { IndexedDataset{files.prefix()}; }).where, files.index_path().string());
  std::ofstream(files.index_path(), std::ios::binary) << small_index;
  EXPECT_EQ(report_of<IoError>([&] { IndexedDataset{files.prefix()}; }).where, files.data_path().string());
}

TEST(IndexedDataset, an_index_cut_anywhere_is_refused) {
  for (std::size_t size = 0; size < small_index.size(); ++size) {
    EXPECT_FALSE(indexed_error(small_index.substr(0, size)).empty()) << size;
  }
  for (const std::size_t more : {1U, 2U, 4U, 8U}) {
    EXPECT_THAT(
        indexed_error(small_index + std::string(more, '\0')),
        HasSubstr("has " + std::to_string(more) + (more == 1 ? " byte" : " bytes") + " after 3 sequences"));
  }
}

TEST(IndexedDataset, an_index_whose_header_is_wrong_is_refused) {
  EXPECT_EQ(indexed_error("MMIDIDX"), "has 7 bytes; the header of an index alone has 34");
  EXPECT_EQ(indexed_error(small_index_with(8, "x")), "does not start with MMIDIDX and two zero bytes");
  EXPECT_EQ(indexed_error(small_index_with(9, "\2")),
            "has version 2 (at byte 9); only version 1 is supported");
  EXPECT_EQ(indexed_error(small_index_with(17, "\0"s)),
            "has the dtype code 0 (at byte 17); valid codes are 1 to 8");
  EXPECT_THAT(indexed_error(small_index_with(17, "\x09")), HasSubstr("dtype code 9"));
  EXPECT_EQ(indexed_error(small_index_with(18, "\7")),
            "has 7 sequences (at byte 18), which is more than its 94 bytes can hold")
      << "62 bytes are left, 7 sequences have 84";
  EXPECT_EQ(indexed_error(small_index_with(26, "\4")),
            "has 4 starts of documents (at byte 26), which is more than its 94 bytes can hold after 3 "
            "sequences");
  EXPECT_THAT(indexed_error(small_index_with(26, "\0"s)), HasSubstr("has no list of document starts"));
}

TEST(IndexedDataset, a_field_of_the_header_with_an_extreme_value_is_refused) {
  constexpr std::uint64_t high = std::uint64_t{1} << 63;
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  for (const std::size_t place : {9U, 18U, 26U}) {
    for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, high - 1, high,
                                      high + 3, most / 12, most / 12 + 1, most / 8, most - 1, most}) {
      if (place == 9 && value == 1) continue;  // the version there is
      EXPECT_FALSE(indexed_error(small_index_with(place, bytes_of(value))).empty()) << place << ' ' << value;
    }
  }
  for (int code = 0; code < 256; ++code) {
    if (code == 8) continue;
    if (code == 3) {  // as wide as the dtype that it replaces
      const Files files(small_index_with(17, "\3"), small_data);
      EXPECT_THAT(tokens_of(IndexedDataset(files.prefix()), {0, 3}), ElementsAre(1, 2, 300, -1));
    } else {
      EXPECT_FALSE(indexed_error(small_index_with(17, std::string(1, static_cast<char>(code)))).empty())
          << code;
    }
  }
}

TEST(IndexedDataset, lengths_beyond_the_data_are_refused) {
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(indexed_error(small_index_with(38, bytes_of(std::int32_t{-1}))),
            "sequence 1 has -1 tokens (at byte 38); a length cannot be negative");
  EXPECT_THAT(indexed_error(small_index_with(38, bytes_of(most))),
              AllOf(HasSubstr("sequence 1 has 2147483647 tokens (at byte 38) and starts at token 3"),
                    HasSubstr("has 4 tokens of uint16 in 8 bytes")));
  EXPECT_THAT(indexed_error(small_index_with(34, bytes_of(std::numeric_limits<std::int32_t>::min()))),
              HasSubstr("a length cannot be negative"));
  EXPECT_THAT(indexed_error(small_index_with(42, std::string(4, '\0'))),
              HasSubstr("lists 3 tokens of uint16 (6 bytes)"));
}

TEST(IndexedDataset, data_of_another_size_is_refused) {
  EXPECT_THAT(indexed_error(small_index, ""), HasSubstr("has 0 tokens of uint16 in 0 bytes"));
  EXPECT_THAT(indexed_error(small_index, small_data.substr(0, 7)), HasSubstr("has 3 tokens"));
  EXPECT_THAT(
      indexed_error(small_index, small_data + "x"),
      AllOf(HasSubstr("has 9 bytes, but its index"), HasSubstr("lists 4 tokens of uint16 (8 bytes)")));
  EXPECT_THAT(indexed_error(small_index, small_data + small_data), HasSubstr("has 16 bytes"));
}

TEST(IndexedDataset, offsets_other_than_the_end_of_the_sequence_before_are_refused) {
  EXPECT_EQ(indexed_error(small_index_with(54, bytes_of(std::int64_t{4}))),
            "sequence 1 starts at byte 4 of .bin (at byte 54 of the index); it must start at byte 6");
  for (const std::int64_t offset :
       {std::int64_t{-6}, std::int64_t{0}, std::int64_t{7}, std::int64_t{8},
        std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_THAT(indexed_error(small_index_with(62, bytes_of(offset))),
                HasSubstr("sequence 2 starts at byte " + std::to_string(offset)));
  }
  EXPECT_THAT(indexed_error(small_index_with(46, bytes_of(std::int64_t{2}))), HasSubstr("sequence 0"));
}

TEST(IndexedDataset, documents_must_contain_every_sequence_once) {
  EXPECT_EQ(indexed_error(small_index_with(70, bytes_of(std::int64_t{1}))),
            "document 0 starts at sequence 1 (at byte 70); the first one must start at 0");
  EXPECT_EQ(indexed_error(small_index_with(78, bytes_of(std::int64_t{4}))),
            "document 1 starts at sequence 4 (at byte 78); the number of sequences is 3");
  EXPECT_EQ(indexed_error(small_index_with(78, bytes_of(std::int64_t{-1}))),
            "document 1 starts at sequence -1 (at byte 78), but the previous document starts at 0");
  EXPECT_EQ(indexed_error(small_index_with(86, bytes_of(std::int64_t{2}))),
            "the documents end at sequence 2 (at byte 86); the number of sequences is 3");
  EXPECT_THAT(indexed_error(small_index_with(86, bytes_of(std::int64_t{1}))),
              HasSubstr("but the last document starts at"));
  EXPECT_THAT(indexed_error(small_index_with(78, bytes_of(std::numeric_limits<std::int64_t>::max()))),
              HasSubstr("the number of sequences is 3"));
}

TEST(IndexedDataset, a_flipped_bit_is_refused_or_harmless) {
  const std::string with_modes = small_index + "\0\1\2"s;
  const Files files("", small_data);
  for (const std::string& index : {small_index, with_modes}) {
    for (std::size_t bit = 0; bit < index.size() * 8; ++bit) {
      std::string damaged = index;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      write_text(files.index_path(), damaged);
      try {
        read_everything(files.prefix());
      } catch (const InputError&) {  // as good
      }
    }
  }
}

RC_GTEST_PROP(IndexedDataset, a_damaged_index_is_refused_or_read_within_its_bounds, ()) {
  std::string index = small_index + (*rc::gen::arbitrary<bool>() ? "\0\1\2"s : ""s);
  for (int damage = *rc::gen::inRange(1, 5); damage > 0; --damage) {
    index[*rc::gen::inRange<std::size_t>(9, index.size())] = *rc::gen::elementOf("\0\1\2\3\4\x7f\x80\xff"s);
  }
  const Files files(index, small_data);
  try {
    read_everything(files.prefix());
  } catch (const InputError& error) {
    RC_ASSERT(!error.report().message.empty());
  }
}

}  // namespace
}  // namespace evenkeel
