#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel {

/// Bytes that are written once and then read again, in a nameless file: gone with this object, or with the
/// process.
class SpooledBytes {
 public:
  /// In the folder of `beside`. Throws IoError.
  explicit SpooledBytes(const std::filesystem::path& beside);
  SpooledBytes(SpooledBytes&& other) noexcept;
  SpooledBytes& operator=(SpooledBytes&&) = delete;
  ~SpooledBytes();

  void write(std::span<const std::byte> bytes);
  /// Fills `out` with the bytes from `offset` on. Precondition: so many were written.
  void read(std::span<std::byte> out, std::int64_t offset);
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }

 private:
  void flush();

  std::filesystem::path beside_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
  std::vector<std::byte> buffer_;
};

/// Samples as they come, kept column by column until all are there.
class SampleSpool {
 public:
  explicit SampleSpool(std::filesystem::path beside) : beside_(std::move(beside)) {}

  /// Throws InputError where batches have different fields. Throws IoError.
  void add(const RaggedBatch& batch);

  [[nodiscard]] const std::vector<SampleShape>& samples() const noexcept { return samples_; }
  [[nodiscard]] const std::vector<FieldSpec>& fields() const noexcept { return specs_; }
  [[nodiscard]] SpooledBytes& rows(std::size_t field) { return columns_[field]; }
  /// How many rows each sample has of a counted field.
  [[nodiscard]] const std::vector<std::int64_t>& counts(std::size_t field) const { return counts_[field]; }

 private:
  std::filesystem::path beside_;
  bool is_first_ = true;
  std::vector<SampleShape> samples_;
  std::vector<FieldSpec> specs_;
  std::vector<SpooledBytes> columns_;
  std::vector<std::vector<std::int64_t>> counts_;  // as columns_; empty where the field is not counted
};

}  // namespace evenkeel
