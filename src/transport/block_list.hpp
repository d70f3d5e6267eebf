#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace evenkeel {

/// A committed MPI datatype of absolute addresses, used as (MPI_BOTTOM, 1, type). Move-only; freed with its
/// owner, which must happen before MPI_Finalize.
class MpiDatatype {
 public:
  MpiDatatype() = default;
  explicit MpiDatatype(MPI_Datatype committed) noexcept : type_(committed) {}
  MpiDatatype(MpiDatatype&& other) noexcept;
  MpiDatatype& operator=(MpiDatatype&& other) noexcept;
  MpiDatatype(const MpiDatatype&) = delete;
  MpiDatatype& operator=(const MpiDatatype&) = delete;
  ~MpiDatatype();

  [[nodiscard]] MPI_Datatype get() const noexcept { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// The bytes of one message, in order, wherever they lie in memory: what lets columns be sent from, and
/// packed buffers be received into, without a staging copy. Does not own the memory, which must outlive the
/// list's datatypes.
class BlockList {
 public:
  struct Block {
    const std::byte* address;
    std::size_t bytes;
  };

  /// Appends `bytes` bytes at `address`; joined to the block before where they touch. Nothing for 0 bytes.
  /// The address may be written through when the list is received into.
  void add(const std::byte* address, std::size_t bytes);

  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool empty() const noexcept { return blocks_.empty(); }
  [[nodiscard]] std::size_t num_blocks() const noexcept { return blocks_.size(); }
  [[nodiscard]] std::span<const Block> blocks() const noexcept { return blocks_; }

  /// The list as datatypes of at most `max_bytes` each, full but for the last: two lists of equal bytes give
  /// equal numbers of equally long chunks, so that sender and receiver agree without talking. Precondition:
  /// max_bytes >= 1 and below 2^31.
  [[nodiscard]] std::vector<MpiDatatype> chunks(std::int64_t max_bytes) const;

  /// Copies this list's bytes to `to`'s blocks. `total_bytes` is what the exchange that this copy is a part
  /// of writes on this rank: from some megabytes on it stores past the caches. Precondition: equal bytes.
  void copy_to(const BlockList& to, std::int64_t total_bytes) const;

 private:
  std::vector<Block> blocks_;
  std::int64_t bytes_ = 0;
};

/// Bytes of all lists.
[[nodiscard]] std::int64_t total_bytes(std::span<const BlockList> lists) noexcept;

}  // namespace evenkeel
