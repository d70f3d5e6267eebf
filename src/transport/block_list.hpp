#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "batch/row_view.hpp"

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
/// packed buffers be received into, without a staging copy. Some may be rows that are looked at through a
/// view: pieces of them, or integers that are of another type on the way. Does not own the memory, which must
/// outlive the list's datatypes.
class BlockList {
 public:
  static constexpr std::size_t plain = ~std::size_t{0};

  struct Block {
    const std::byte* address;
    std::size_t bytes;         ///< as they travel
    std::size_t view = plain;  ///< of views(), or plain
  };

  /// Appends `bytes` bytes at `address`; joined to the block before where they touch. Nothing for 0 bytes.
  /// The address may be written through when the list is received into.
  void add(const std::byte* address, std::size_t bytes);
  /// Appends what a view takes of `rows` rows of `row_bytes` bytes; joined likewise. Where it is received
  /// into, the view takes whole rows.
  void add(const std::byte* first_row, std::int64_t rows, std::size_t row_bytes, const RowView& view);

  /// Appends a block of a list that has these views.
  void add(const Block& block, std::span<const RowView> views);

  /// As they travel.
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool empty() const noexcept { return blocks_.empty(); }
  [[nodiscard]] std::size_t num_blocks() const noexcept { return blocks_.size(); }
  [[nodiscard]] std::span<const Block> blocks() const noexcept { return blocks_; }
  [[nodiscard]] std::span<const RowView> views() const noexcept { return views_; }
  /// Whether its bytes lie in memory as they travel.
  [[nodiscard]] bool is_plain() const noexcept { return views_.empty(); }

  /// The list as datatypes of at most `max_bytes` each, full but for the last: two lists of equal bytes give
  /// equal numbers of equally long chunks, so that sender and receiver agree without talking. Preconditions:
  /// max_bytes >= 1 and below 2^31; the list is plain.
  [[nodiscard]] std::vector<MpiDatatype> chunks(std::int64_t max_bytes) const;

  /// Copies this list's bytes to `to`'s blocks, in one pass whatever the views of both are. `total_bytes` is
  /// what the exchange that this copy is a part of writes on this rank: from some megabytes on it stores past
  /// the caches. Takes no memory. Preconditions: equal bytes; rows of views that meet are rows of one field.
  void copy_to(const BlockList& to, std::int64_t total_bytes) const noexcept;

 private:
  void append(const Block& block, std::size_t row_bytes, std::size_t travelling);
  std::size_t number_of(const RowView& view);
  [[nodiscard]] ViewedRows rows_of(const Block& block, std::size_t at) const noexcept {
    return {block.address, block.view == plain ? nullptr : &views_[block.view], at};
  }

  std::vector<Block> blocks_;
  std::vector<RowView> views_;  // no two equal
  std::int64_t bytes_ = 0;
};

/// Bytes of all lists.
[[nodiscard]] std::int64_t total_bytes(std::span<const BlockList> lists) noexcept;

}  // namespace evenkeel
