#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <string>

#include "base/text_layout.hpp"
#include "batch/integers.hpp"
#include "evenkeel/base/error.hpp"
#include "io/megatron/indexed_dataset.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t sequences_per_block = 64;
// Maximum number of runs in one read. The data of one read should remain in the cache until it is widened to
// 64 bits.
constexpr std::size_t runs_per_read = 16;
constexpr std::int64_t numbers_per_read = std::int64_t{1} << 17;  // 1 MiB of 64-bit numbers
constexpr std::int64_t length_bytes = sizeof(std::int32_t);
constexpr std::int64_t offset_bytes = sizeof(std::int64_t);

template <typename T>
std::span<char> as_chars(std::span<T> values) {
  return {reinterpret_cast<char*>(values.data()), values.size_bytes()};
}

template <typename T>
T number_at(const InputFile& file, std::int64_t offset) {
  std::array<T, 1> number{};
  file.read(as_chars(std::span<T>(number)), offset);
  return number[0];
}

/// Reads `count` 64-bit numbers that start at `offset`, and calls act(i, number) for each of them in order.
template <typename Act>
void for_each_number(const InputFile& file, std::int64_t offset, std::int64_t count, Act&& act) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(std::min(count, numbers_per_read)));
  for (std::int64_t first = 0; first < count; first += numbers_per_read) {
    const std::span<std::int64_t> part =
        std::span(numbers).first(static_cast<std::size_t>(std::min(count - first, numbers_per_read)));
    file.read(as_chars(part), offset + first * offset_bytes);
    for (std::size_t i = 0; i < part.size(); ++i) act(first + static_cast<std::int64_t>(i), part[i]);
  }
}

std::string byte_position_text(std::int64_t offset) {
  return " (at byte " + std::to_string(offset) + ")";
}

/// Widens numbers to 64 bits in place. On entry, the last bytes of `values` contain the narrow numbers; on
/// return, `values` contains the wide numbers. Goes from front to back, so writing number i never overwrites
/// numbers that have not been read yet. Returns whether any number is negative.
template <typename Narrow>
bool widen(std::span<std::int64_t> values) {
  char* const bytes = reinterpret_cast<char*>(values.data());
  const char* from = bytes + values.size() * (sizeof(std::int64_t) - sizeof(Narrow));
  std::int64_t signs = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    Narrow number{};
    std::memcpy(&number, from + i * sizeof number, sizeof number);
    const std::int64_t wide = number;
    std::memcpy(bytes + i * sizeof wide, &wide, sizeof wide);
    signs |= wide;
  }
  return signs < 0;
}

}  // namespace

DType to_dtype(IndexedDType dtype) noexcept {
  switch (dtype) {
    case IndexedDType::uint8:
      return DType::uint8;
    case IndexedDType::int8:
      return DType::int8;
    case IndexedDType::int16:
      return DType::int16;
    case IndexedDType::int32:
      return DType::int32;
    case IndexedDType::int64:
      return DType::int64;
    case IndexedDType::float64:
      return DType::float64;
    case IndexedDType::float32:
      return DType::float32;
    case IndexedDType::uint16:
      break;
  }
  return DType::uint16;
}

IndexedDType optimal_dtype(std::int64_t vocab_size) noexcept {
  return vocab_size < 65500 ? IndexedDType::uint16 : IndexedDType::int32;
}

bool is_indexed_dataset_path(const std::filesystem::path& path) {
  return path.extension() == ".bin" || path.extension() == ".idx";
}

std::filesystem::path indexed_dataset_prefix(std::filesystem::path path) {
  if (is_indexed_dataset_path(path)) path.replace_extension();
  return path;
}

IndexedDataset::IndexedDataset(const std::filesystem::path& prefix)
    : index_(indexed_dataset::with_file_ending(prefix, ".idx")),
      data_(indexed_dataset::with_file_ending(prefix, ".bin")) {
  read_header();
  read_counts();
  read_lengths();
  check_offsets();
  read_documents();
}

void IndexedDataset::fail(const std::string& message) const {
  throw InputError(index_.path(), message, "Check that this is a complete index of a Megatron-Core dataset");
}

void IndexedDataset::read_header() {
  const std::int64_t size = index_.size();
  if (size < indexed_dataset::header_bytes) {
    fail("has " + format_plain_count(size, "byte") + "; the header of an index alone has " +
         std::to_string(indexed_dataset::header_bytes));
  }
  std::array<char, indexed_dataset::magic.size()> magic{};
  index_.read(magic, 0);
  if (std::string_view(magic.data(), magic.size()) != indexed_dataset::magic) {
    fail("does not start with MMIDIDX and two zero bytes");
  }
  const auto version = number_at<std::uint64_t>(index_, indexed_dataset::version_at);
  if (version != indexed_dataset::version) {
    fail("has version " + std::to_string(version) + byte_position_text(indexed_dataset::version_at) +
         "; only version " + std::to_string(indexed_dataset::version) + " is supported");
  }
  const auto code = number_at<std::uint8_t>(index_, indexed_dataset::dtype_at);
  dtype_ = static_cast<IndexedDType>(code);
  if (dtype_ < IndexedDType::uint8 || dtype_ > IndexedDType::uint16) {
    fail("has the dtype code " + std::to_string(code) + byte_position_text(indexed_dataset::dtype_at) +
         "; valid codes are 1 to 8");
  }
}

void IndexedDataset::read_counts() {
  const auto sequences = number_at<std::uint64_t>(index_, indexed_dataset::sequences_at);
  const auto ends = number_at<std::uint64_t>(index_, indexed_dataset::documents_at);
  const std::int64_t size = index_.size();
  auto left = static_cast<std::uint64_t>(size - indexed_dataset::header_bytes);
  if (sequences > left / (length_bytes + offset_bytes)) {
    fail("has " + std::to_string(sequences) + (sequences == 1 ? " sequence" : " sequences") +
         byte_position_text(indexed_dataset::sequences_at) + ", which is more than its " +
         std::to_string(size) + " bytes can hold");
  }
  left -= sequences * (length_bytes + offset_bytes);
  if (ends == 0) {
    fail("has no list of document starts" + byte_position_text(indexed_dataset::documents_at) +
         "; even an index without documents has one entry");
  }
  if (ends > left / offset_bytes) {
    fail("has " + std::to_string(ends) + (ends == 1 ? " start of a document" : " starts of documents") +
         byte_position_text(indexed_dataset::documents_at) + ", which is more than its " +
         std::to_string(size) + " bytes can hold after " +
         format_plain_count(static_cast<std::int64_t>(sequences), "sequence"));
  }
  left -= ends * offset_bytes;
  if (left != 0 && left != sequences) {
    fail("has " + format_plain_count(static_cast<std::int64_t>(left), "byte") + " after " +
         format_plain_count(static_cast<std::int64_t>(sequences), "sequence") + " and " +
         format_plain_count(static_cast<std::int64_t>(ends), "start of a document", "starts of documents") +
         "; only a mode for each sequence may follow");
  }
  has_modes_ = left != 0;
  num_documents_ = static_cast<std::int64_t>(ends) - 1;
  lengths_.resize(sequences);
}

void IndexedDataset::read_lengths() {
  index_.read(as_chars(std::span(lengths_)), indexed_dataset::header_bytes);
  block_starts_.reserve(lengths_.size() / sequences_per_block + 2);
  const auto element = static_cast<std::int64_t>(size_of(dtype_));
  const std::int64_t capacity = data_.size() / element;
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < lengths_.size(); ++i) {
    if (i % sequences_per_block == 0) block_starts_.push_back(tokens);
    const std::int64_t length = lengths_[i];
    const auto place = [&] {
      const auto offset = indexed_dataset::header_bytes + static_cast<std::int64_t>(i) * length_bytes;
      return "sequence " + std::to_string(i) + " has " + format_plain_count(length, "token") +
             byte_position_text(offset);
    };
    if (length < 0) fail(place() + "; a length cannot be negative");
    if (length > capacity - tokens) {
      throw InputError(index_.path(),
                       place() + " and starts at token " + std::to_string(tokens) + "; " + data_.path() +
                           " has " + format_plain_count(capacity, "token") + " of " +
                           std::string(name_of(dtype_)) + " in " + format_plain_count(data_.size(), "byte"),
                       "Check that both files are complete and come from the same run");
    }
    tokens += length;
  }
  block_starts_.push_back(tokens);
  if (tokens * element != data_.size()) {
    throw InputError(data_.path(),
                     "has " + format_plain_count(data_.size(), "byte") + ", but its index " + index_.path() +
                         " lists " + format_plain_count(tokens, "token") + " of " +
                         std::string(name_of(dtype_)) + " (" + format_plain_count(tokens * element, "byte") +
                         ")",
                     "Check that both files come from the same run");
  }
}

void IndexedDataset::check_offsets() const {
  const std::int64_t begin = indexed_dataset::header_bytes + num_sequences() * length_bytes;
  const auto element = static_cast<std::int64_t>(size_of(dtype_));
  std::int64_t expected = 0;
  for_each_number(index_, begin, num_sequences(), [&](std::int64_t sequence, std::int64_t offset) {
    if (offset != expected) {
      fail("sequence " + std::to_string(sequence) + " starts at byte " + std::to_string(offset) +
           " of .bin (at byte " + std::to_string(begin + sequence * offset_bytes) +
           " of the index); it must start at byte " + std::to_string(expected));
    }
    expected += length(sequence) * element;
  });
}

void IndexedDataset::read_documents() {
  const std::int64_t begin = indexed_dataset::header_bytes + num_sequences() * (length_bytes + offset_bytes);
  bool one_to_one = num_documents_ == num_sequences();
  if (!one_to_one) document_starts_.reserve(static_cast<std::size_t>(num_documents_) + 1);
  std::int64_t before = 0;
  for_each_number(index_, begin, num_documents_ + 1, [&](std::int64_t document, std::int64_t start) {
    const bool is_end = document == num_documents_;
    const auto place = [&] {
      return (is_end ? "the documents end" : "document " + std::to_string(document) + " starts") +
             " at sequence " + std::to_string(start) + byte_position_text(begin + document * offset_bytes);
    };
    if (document == 0 && start != 0) fail(place() + "; the first one must start at 0");
    if (start < before) {
      fail(place() + ", but the " + (is_end ? "last" : "previous") + " document starts at " +
           std::to_string(before));
    }
    if (start > num_sequences() || (is_end && start != num_sequences())) {
      fail(place() + "; the number of sequences is " + std::to_string(num_sequences()));
    }
    before = start;
    if (one_to_one && start != document) {
      one_to_one = false;
      document_starts_.reserve(static_cast<std::size_t>(num_documents_) + 1);
      for (std::int64_t i = 0; i < document; ++i) document_starts_.push_back(i);
    }
    if (!one_to_one) document_starts_.push_back(start);
  });
}

std::int64_t IndexedDataset::num_tokens() const noexcept {
  return block_starts_.back();
}

std::int64_t IndexedDataset::token_offset_of(std::int64_t sequence) const noexcept {
  const auto index = static_cast<std::size_t>(sequence);
  const std::size_t block = index / sequences_per_block;
  if (index == lengths_.size()) return block_starts_.back();
  std::int64_t token = block_starts_[block];
  for (std::size_t i = block * sequences_per_block; i < index; ++i) token += lengths_[i];
  return token;
}

std::int64_t IndexedDataset::tokens_in(RowRange sequences) const noexcept {
  assert(0 <= sequences.begin && sequences.begin <= sequences.end && sequences.end <= num_sequences());
  return token_offset_of(sequences.end) - token_offset_of(sequences.begin);
}

RowRange IndexedDataset::document(std::int64_t document) const noexcept {
  assert(0 <= document && document < num_documents_);
  if (document_starts_.empty()) return {document, document + 1};
  const auto index = static_cast<std::size_t>(document);
  return {document_starts_[index], document_starts_[index + 1]};
}

ByteRange IndexedDataset::byte_range_of(RowRange sequences) const noexcept {
  const auto element = static_cast<std::int64_t>(size_of(dtype_));
  return {token_offset_of(sequences.begin) * element, token_offset_of(sequences.end) * element};
}

bool IndexedDataset::read_tokens(std::span<const RowRange> runs, std::span<std::int64_t> out) const {
  if (!has_integers()) {
    throw InputError(index_.path(),
                     "has elements of " + std::string(name_of(dtype_)) + "; tokens must be integers",
                     "Give a dataset of token ids");
  }
  const auto element = size_of(dtype_);
  bool has_negative = false;
  for (std::size_t first = 0; first < runs.size(); first += runs_per_read) {
    const std::span<const RowRange> together =
        runs.subspan(first, std::min(runs_per_read, runs.size() - first));
    std::array<InputFile::Piece, runs_per_read> pieces;
    std::array<std::span<std::int64_t>, runs_per_read> tokens;
    for (std::size_t i = 0; i < together.size(); ++i) {
      const auto count = static_cast<std::size_t>(tokens_in(together[i]));
      tokens[i] = out.first(count);
      out = out.subspan(count);
      pieces[i] = {as_chars(tokens[i]).last(count * element), byte_range_of(together[i]).begin};
    }
    data_.read(std::span<const InputFile::Piece>(pieces).first(together.size()));
    with_integer_type(to_dtype(dtype_), [&](auto narrow) {
      for (std::size_t i = 0; i < together.size(); ++i) has_negative |= widen<decltype(narrow)>(tokens[i]);
    });
  }
  return has_negative;
}

std::vector<std::byte> IndexedDataset::read_bytes(RowRange sequences) const {
  const auto element = static_cast<std::int64_t>(size_of(dtype_));
  std::vector<std::byte> bytes(static_cast<std::size_t>(tokens_in(sequences) * element));
  data_.read(as_chars(std::span(bytes)), token_offset_of(sequences.begin) * element);
  return bytes;
}

bool IndexedDataset::has_integers() const noexcept {
  return is_integer(to_dtype(dtype_));
}

}  // namespace evenkeel
