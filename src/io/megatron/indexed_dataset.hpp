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
#include "evenkeel/batch/dtype.hpp"
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

/// Returns the DType that corresponds to this type.
[[nodiscard]] DType to_dtype(IndexedDType dtype) noexcept;
/// Returns the type's name, such as "uint16".
[[nodiscard]] inline std::string_view name_of(IndexedDType dtype) noexcept {
  return name_of(to_dtype(dtype));
}
/// Returns the number of bytes per element.
[[nodiscard]] inline std::size_t size_of(IndexedDType dtype) noexcept {
  return size_of(to_dtype(dtype));
}
/// Returns the dtype that Megatron-Core uses for the tokens of a vocabulary: uint16 if `vocab_size` is below
/// 65,500, otherwise int32.
[[nodiscard]] IndexedDType optimal_dtype(std::int64_t vocab_size) noexcept;

/// Returns the path of a dataset's files without the extension ".bin" or ".idx". `path` is either file, or a
/// path without such an extension.
[[nodiscard]] std::filesystem::path indexed_dataset_prefix(std::filesystem::path path);
/// Returns whether the path has the extension ".bin" or ".idx".
[[nodiscard]] bool is_indexed_dataset_path(const std::filesystem::path& path);

/// A Megatron-Core indexed dataset, open for reading. `<prefix>.bin` has the elements of all sequences,
/// concatenated; `<prefix>.idx` has the lengths and offsets of the sequences, and the starts of the
/// documents. A document is a range of sequences, possibly empty; in most datasets it is one sequence.
/// Multimodal datasets also have a mode, a small integer, per sequence.
///
/// Memory: 4.125 bytes per sequence, and 8 bytes per document unless each document is exactly one sequence.
/// The constructor reads the index once. Elements are read on demand, so neither file may change (see
/// InputFile). Reads are local and thread-safe.
class IndexedDataset {
 public:
  /// `prefix` is a result of indexed_dataset_prefix(). Throws IoError if a file cannot be read, and
  /// InputError naming the file and the violated rule: the magic, version 1 and a known dtype; an index of
  /// the size given by its counts, with or without modes; lengths that are not negative; sequences that start
  /// where the previous one ends, the last one ending with `.bin`; document starts that begin with 0, never
  /// decrease, and end with the number of sequences.
  explicit IndexedDataset(const std::filesystem::path& prefix);

  [[nodiscard]] IndexedDType dtype() const noexcept { return dtype_; }
  [[nodiscard]] std::int64_t num_sequences() const noexcept {
    return static_cast<std::int64_t>(lengths_.size());
  }
  [[nodiscard]] std::int64_t num_documents() const noexcept { return num_documents_; }
  /// Returns the number of elements of all sequences.
  [[nodiscard]] std::int64_t num_tokens() const noexcept;
  [[nodiscard]] bool has_modes() const noexcept { return has_modes_; }
  /// Returns whether the elements are integers, which read_tokens() requires.
  [[nodiscard]] bool has_integers() const noexcept;
  /// Returns the index and the data file.
  [[nodiscard]] std::array<const InputFile*, 2> files() const noexcept { return {&index_, &data_}; }

  /// Returns the number of elements of a sequence. Precondition here and below: 0 <= sequence <
  /// num_sequences().
  [[nodiscard]] std::int64_t length(std::int64_t sequence) const noexcept {
    return lengths_[static_cast<std::size_t>(sequence)];
  }
  /// Returns the total number of elements in a contiguous range of sequences. O(1).
  [[nodiscard]] std::int64_t tokens_in(RowRange sequences) const noexcept;
  /// Returns a document's sequences. Precondition: 0 <= document < num_documents().
  [[nodiscard]] RowRange document(std::int64_t document) const noexcept;

  /// Returns the byte range of adjacent sequences in the data file. O(1).
  [[nodiscard]] ByteRange byte_range_of(RowRange sequences) const noexcept;
  /// Reads the tokens of runs of adjacent sequences, concatenated, into `out`, with one read per run. Returns
  /// whether any token is negative. Throws InputError if the dtype is not an integer type, and IoError if the
  /// file cannot be read or has changed. Precondition: `out` has as many elements as the runs have tokens.
  [[nodiscard]] bool read_tokens(std::span<const RowRange> runs, std::span<std::int64_t> out) const;
  /// Returns the elements of adjacent sequences as they are stored: little-endian, in any dtype.
  [[nodiscard]] std::vector<std::byte> read_bytes(RowRange sequences) const;

 private:
  void read_header();
  void read_counts();
  void read_lengths();
  void check_offsets() const;
  void read_documents();
  [[nodiscard]] std::int64_t token_offset_of(std::int64_t sequence) const noexcept;
  [[noreturn]] void fail(const std::string& message) const;

  InputFile index_;
  InputFile data_;
  IndexedDType dtype_ = IndexedDType::uint8;
  bool has_modes_ = false;
  std::int64_t num_documents_ = 0;
  std::vector<std::int32_t> lengths_;
  // Number of tokens before every 64th sequence, followed by the total.
  std::vector<std::int64_t> block_starts_;
  // First sequence of each document, followed by num_sequences(); empty if each document is one sequence.
  std::vector<std::int64_t> document_starts_;
};

/// Writes an indexed dataset with the same bytes as Megatron-Core's builder. Append sequences, end each
/// document, and finally call commit(). Each file appears completely or not at all (AtomicFile), and the
/// index appears last. If the program crashes before the index appears, the new `.bin` may be next to an
/// older `.idx`.
///
/// Memory: 4 bytes per sequence, 8 bytes per document and two buffers of 1 MiB. Throws IoError for errors of
/// the file system.
class IndexedDatasetWriter {
 public:
  IndexedDatasetWriter(const std::filesystem::path& prefix, IndexedDType dtype);

  /// Appends a sequence to the current document. Throws InputError and appends nothing if the dtype is not an
  /// integer type, if it cannot represent a token (the error names the sequence, position and value), or if
  /// there are more than 2^31-1 tokens.
  void add_sequence(std::span<const std::int64_t> tokens);
  /// Appends a sequence of any dtype as little-endian bytes. Throws InputError and appends nothing if
  /// `elements` is not a whole number of elements or has more than 2^31-1 elements.
  void add_bytes(std::span<const std::byte> elements);
  /// Ends the current document, which may have no sequences.
  void end_document();
  /// Writes the index, and gives both files their final names. Call this only once, at the end. Throws
  /// InputError if there are sequences after the last end_document(), since readers of the format reject such
  /// an index.
  void commit();

 private:
  [[nodiscard]] std::string name_of_next_sequence() const;
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

/// Layout of the index: magic, version (u64), dtype code (u8), number of sequences (u64), number of documents
/// + 1 (u64), then lengths (i32), offsets in bytes (i64), document starts and end (i64), and optionally modes
/// (i8). The fields are not aligned.
namespace evenkeel::indexed_dataset {

static_assert(std::endian::native == std::endian::little, "indexed datasets hold little-endian numbers");

inline constexpr std::string_view magic{"MMIDIDX\0\0", 9};
inline constexpr std::uint64_t version = 1;
inline constexpr std::int64_t version_at = 9;
inline constexpr std::int64_t dtype_at = 17;
inline constexpr std::int64_t sequences_at = 18;
inline constexpr std::int64_t documents_at = 26;
inline constexpr std::int64_t header_bytes = 34;

[[nodiscard]] inline std::filesystem::path with_file_ending(std::filesystem::path prefix,
                                                            const char* ending) {
  prefix += ending;
  return prefix;
}

}  // namespace evenkeel::indexed_dataset
