#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// Bytes that are first written and then read. They are stored in an unlinked file, which is deleted when
/// this object is destroyed or the process ends.
class SpooledBytes {
 public:
  /// Creates the file in the folder of the path `beside`. `beside` is also the file's name in errors. Throws
  /// IoError if the file cannot be created.
  explicit SpooledBytes(const std::filesystem::path& beside);
  SpooledBytes(SpooledBytes&& other) noexcept;
  SpooledBytes& operator=(SpooledBytes&&) = delete;
  ~SpooledBytes();

  void write(std::span<const std::byte> bytes);
  /// Fills `out` with the bytes that begin at `offset`. Precondition: these bytes were written before.
  void read(std::span<std::byte> out, std::int64_t offset);
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }

 private:
  void flush();

  std::filesystem::path beside_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
  std::vector<std::byte> buffer_;
};

/// Collects samples batch by batch until they can be written field by field. The rows of each field are
/// stored in an unlinked file.
class SampleSpool {
 public:
  /// Creates files in the folder of the path `beside`. `beside` is also their name in errors.
  explicit SampleSpool(std::filesystem::path beside) : beside_(std::move(beside)) {}

  /// Adds the samples of a batch. Throws InputError if batches have different fields, and IoError if a file
  /// cannot be created or written.
  void add(const RaggedBatch& batch);

  [[nodiscard]] const std::vector<SampleShape>& samples() const noexcept { return samples_; }
  [[nodiscard]] const std::vector<FieldSpec>& fields() const noexcept { return specs_; }
  /// Returns the rows of all samples in a field, concatenated.
  [[nodiscard]] SpooledBytes& rows(std::size_t field) { return columns_[field]; }
  /// Returns the number of rows of each sample, for a counted field.
  [[nodiscard]] const std::vector<std::int64_t>& counts(std::size_t field) const { return counts_[field]; }

 private:
  std::filesystem::path beside_;
  bool is_first_ = true;
  std::vector<SampleShape> samples_;
  std::vector<FieldSpec> specs_;
  std::vector<SpooledBytes> columns_;
  // For each field, the number of rows of each sample; empty unless the field is counted.
  std::vector<std::vector<std::int64_t>> counts_;
};

}  // namespace evenkeel
