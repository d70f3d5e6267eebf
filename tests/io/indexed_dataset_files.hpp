#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "io/megatron/indexed_dataset.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel::testing_support {

using namespace std::string_literals;

// Three sequences of uint16, [1, 2, 300], [] and [65535]; the first two form one document. Every byte follows
// the description of the format, without using the code under test.
inline const std::string magic_bytes = "MMIDIDX\0\0"s;
inline const std::string version_bytes = "\1\0\0\0\0\0\0\0"s;
inline const std::string sequences_bytes = "\3\0\0\0\0\0\0\0"s;
inline const std::string documents_bytes = "\3\0\0\0\0\0\0\0"s;
inline const std::string header_bytes =
    magic_bytes + version_bytes + "\x08"s + sequences_bytes + documents_bytes;
inline const std::string lengths_bytes = "\3\0\0\0\0\0\0\0\1\0\0\0"s;
inline const std::string offsets_bytes = "\0\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0"s;
inline const std::string starts_bytes = "\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0"s;
inline const std::string small_index = header_bytes + lengths_bytes + offsets_bytes + starts_bytes;
inline const std::string small_data = "\1\0\2\0\x2c\1\xff\xff"s;

/// Both files of a dataset, in a folder of their own.
class Files {
 public:
  Files() = default;
  Files(const std::string& index, const std::string& data) {
    std::ofstream(index_path(), std::ios::binary) << index;
    std::ofstream(data_path(), std::ios::binary) << data;
  }
  [[nodiscard]] std::filesystem::path prefix() const { return folder_ / "data"; }
  [[nodiscard]] std::filesystem::path index_path() const { return folder_ / "data.idx"; }
  [[nodiscard]] std::filesystem::path data_path() const { return folder_ / "data.bin"; }
  [[nodiscard]] std::ptrdiff_t count() const {
    return std::distance(std::filesystem::directory_iterator(index_path().parent_path()), {});
  }

 private:
  ScratchFolder folder_;
};

/// Returns the tokens of adjacent sequences.
inline std::vector<std::int64_t> tokens_of(const IndexedDataset& dataset, RowRange sequences) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(dataset.tokens_in(sequences)));
  static_cast<void>(dataset.read_tokens(std::span(&sequences, 1), tokens));
  return tokens;
}

}  // namespace evenkeel::testing_support
