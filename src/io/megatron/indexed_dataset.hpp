#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"

namespace evenkeel {

/// Element types of an indexed dataset. The values are the codes of the format.
enum class IndexedDType : std::uint8_t {
  uint8 = 1,
  int8 = 2,
  int16 = 3,
  int32 = 4,
  int64 = 5,
  float64 = 6,
  float32 = 7,
  uint16 = 8,
};

/// Such as "uint16".
[[nodiscard]] std::string_view name_of(IndexedDType dtype) noexcept;
/// Bytes of one element.
[[nodiscard]] std::size_t size_of(IndexedDType dtype) noexcept;
/// What Megatron-Core takes for tokens of a vocabulary of that size: uint16 below 65,500, else int32.
[[nodiscard]] IndexedDType optimal_dtype(std::int64_t vocab_size) noexcept;

/// The name that both files of a dataset have without ".bin" and ".idx", when `path` is that or either
/// file's.
[[nodiscard]] std::filesystem::path dataset_prefix(std::filesystem::path path);
/// Whether the path names a file of a dataset by its ending.
[[nodiscard]] bool names_dataset_file(const std::filesystem::path& path);

/// A Megatron-Core indexed dataset, open for reading: `<prefix>.bin` holds the elements of all sequences, one
/// after the other, `<prefix>.idx` where sequences and documents begin. A document is a range of sequences,
/// perhaps an empty one; most datasets have one sequence a document. Multimodal datasets also have a mode, a
/// small integer, for each sequence.
///
/// Memory: 4 1/8 bytes a sequence, and 8 bytes a document unless each document is exactly one sequence. Time
/// to open: that of reading the index once. Elements are read when they are asked for, so that both files
/// must stay as they are (InputFile). Reads are local and may come from several threads.
class IndexedDataset {
 public:
  /// `prefix` is as dataset_prefix() makes it. Throws IoError when one cannot be read,
  /// and InputError that names the file, the byte and the rule it breaks: magic, version 1, a known dtype; an
  /// index as long as its counts say, with or without modes; lengths from 0 up; each sequence starts where
  /// the one before ends, and the last ends where `.bin` does; documents start at sequence 0, never fall, and
  /// end with the last sequence.
  explicit IndexedDataset(const std::filesystem::path& prefix);

  [[nodiscard]] IndexedDType dtype() const noexcept { return dtype_; }
  [[nodiscard]] std::int64_t num_sequences() const noexcept {
    return static_cast<std::int64_t>(lengths_.size());
  }
  [[nodiscard]] std::int64_t num_documents() const noexcept { return num_documents_; }
  /// Elements of all sequences.
  [[nodiscard]] std::int64_t num_tokens() const noexcept;
  [[nodiscard]] bool has_modes() const noexcept { return has_modes_; }
  /// Whether elements are integers, as tokens are.
  [[nodiscard]] bool has_tokens() const noexcept;
  /// The index and the data.
  [[nodiscard]] std::array<const InputFile*, 2> files() const noexcept { return {&index_, &data_}; }

  /// Elements of one sequence. Precondition: 0 <= sequence < num_sequences(), as below.
  [[nodiscard]] std::int64_t length(std::int64_t sequence) const noexcept {
    return lengths_[static_cast<std::size_t>(sequence)];
  }
  /// Elements of adjacent sequences. O(1).
  [[nodiscard]] std::int64_t tokens_in(RowRange sequences) const noexcept;
  /// The document that a sequence belongs to. O(log documents).
  [[nodiscard]] std::int64_t document_of(std::int64_t sequence) const noexcept;
  /// A document's sequences. Precondition: 0 <= document < num_documents().
  [[nodiscard]] RowRange document(std::int64_t document) const noexcept;

  /// Where the elements of adjacent sequences are in the data. O(1).
  [[nodiscard]] ByteRange bytes_of(RowRange sequences) const noexcept;
  /// The tokens of runs of adjacent sequences, one after the other into `out`, with one read a run. Returns
  /// whether any is negative. Throws InputError when the dtype is no integer, IoError when the file cannot be
  /// read or has changed. Precondition: `out` has as many elements as the runs have tokens.
  [[nodiscard]] bool read_tokens(std::span<const RowRange> runs, std::span<std::int64_t> out) const;
  /// The elements of adjacent sequences as the file has them, little-endian, of any dtype.
  [[nodiscard]] std::vector<std::byte> read_bytes(RowRange sequences) const;
  /// The modes of adjacent sequences. Precondition: has_modes().
  [[nodiscard]] std::vector<std::int8_t> read_modes(RowRange sequences) const;

 private:
  void read_header();
  void read_counts();
  void read_lengths();
  void check_offsets() const;
  void read_documents();
  [[nodiscard]] std::int64_t first_token_of(std::int64_t sequence) const noexcept;
  [[noreturn]] void fail(const std::string& message) const;

  InputFile index_;
  InputFile data_;
  IndexedDType dtype_ = IndexedDType::uint8;
  bool has_modes_ = false;
  std::int64_t num_documents_ = 0;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> block_starts_;     // the first token of every 64th sequence, then their end
  std::vector<std::int64_t> document_starts_;  // then their end; empty if each document is one sequence
};

/// Writes an indexed dataset, with the bytes that Megatron-Core's own builder writes: append sequences, end
/// documents, commit. Each file appears whole or not at all (AtomicFile), the index last; a crash between the
/// two leaves the new `.bin` beside an older `.idx`, if there was one.
///
/// Memory: 4 bytes a sequence, 8 bytes a document and a buffer of 1 MiB. Errors of the file system are
/// IoErrors.
class IndexedDatasetWriter {
 public:
  IndexedDatasetWriter(const std::filesystem::path& prefix, IndexedDType dtype);

  /// Appends a sequence to the document that is not ended yet. Throws InputError that names sequence,
  /// position and value when the dtype cannot hold one, or when the dtype is no integer; nothing is appended
  /// then.
  void add_sequence(std::span<const std::int64_t> tokens);
  /// Appends a sequence of any dtype as bytes, little-endian. Throws InputError when they are no whole number
  /// of elements, or more than 2^31-1 of them, as add_sequence() does.
  void add_bytes(std::span<const std::byte> elements);
  /// Ends a document; one without sequences is empty.
  void end_document();
  /// Writes the index and gives both files their names. Call once, last. Throws InputError when sequences
  /// follow the last end_document(): no reader of the format takes such an index.
  void commit();

 private:
  [[nodiscard]] std::string next_sequence() const;
  void append(std::span<const std::byte> bytes);
  void write_index();

  std::string data_path_;
  std::string index_path_;
  AtomicFile data_;
  AtomicFile index_;
  IndexedDType dtype_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> document_starts_{0};
  std::vector<std::byte> buffer_;
};

}  // namespace evenkeel

/// The index: magic, version (u64), code of the dtype (u8), sequences (u64), documents + 1 (u64), then
/// lengths (i32), offsets in bytes (i64), starts of documents and their end (i64), perhaps modes (i8).
/// Nothing is aligned.
namespace evenkeel::indexed_dataset {

static_assert(std::endian::native == std::endian::little, "indexed datasets hold little-endian numbers");

inline constexpr std::string_view magic{"MMIDIDX\0\0", 9};
inline constexpr std::uint64_t version = 1;
inline constexpr std::int64_t version_at = 9;
inline constexpr std::int64_t dtype_at = 17;
inline constexpr std::int64_t sequences_at = 18;
inline constexpr std::int64_t documents_at = 26;
inline constexpr std::int64_t header_bytes = 34;

[[nodiscard]] inline std::filesystem::path with_ending(std::filesystem::path prefix, const char* ending) {
  prefix += ending;
  return prefix;
}

[[nodiscard]] constexpr bool is_float(IndexedDType dtype) noexcept {
  return dtype == IndexedDType::float64 || dtype == IndexedDType::float32;
}

/// Calls `act` with a value of the C++ type of an integer dtype. Precondition: it is one.
template <typename Act>
decltype(auto) with_integer_type(IndexedDType dtype, Act&& act) {
  switch (dtype) {
    case IndexedDType::uint8:
      return act(std::uint8_t{});
    case IndexedDType::int8:
      return act(std::int8_t{});
    case IndexedDType::int16:
      return act(std::int16_t{});
    case IndexedDType::uint16:
      return act(std::uint16_t{});
    case IndexedDType::int32:
      return act(std::int32_t{});
    default:
      return act(std::int64_t{});
  }
}

}  // namespace evenkeel::indexed_dataset
