#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "batch/row_view.hpp"

namespace evenkeel {

/// Owns a committed MPI datatype of absolute addresses, which is used as (MPI_BOTTOM, 1, type). Move-only.
/// Must be destroyed before MPI_Finalize.
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

/// Describes the bytes of one message, in order, as blocks anywhere in memory. Plain blocks are sent directly
/// from columns and received directly in packed buffers, without a staging copy. Blocks may also be rows that
/// are read or written through a view: only pieces of the rows, or integers that have a different type in the
/// transfer. Does not own the memory, which must outlive the list's datatypes.
class BlockList {
 public:
  static constexpr std::size_t plain = ~std::size_t{0};

  struct Block {
    const std::byte* address;
    std::size_t bytes;         ///< number of transferred bytes
    std::size_t view = plain;  ///< index in views(), or `plain` if the bytes are transferred unchanged
  };

  /// Appends `bytes` bytes at `address`. Extends the last block if they begin where it ends. Does nothing for
  /// 0 bytes. The memory must be writable if data is received into the list.
  void add(const std::byte* address, std::size_t bytes);
  /// Appends `rows` adjacent rows of `row_bytes` bytes each, or only the parts that `view` covers. Extends
  /// the last block if possible. If data is received into the list, the view must cover whole rows.
  void add(const std::byte* first_row, std::int64_t rows, std::size_t row_bytes, const RowView& view);

  /// Appends a block of another list. `views` are the views of that list.
  void add(const Block& block, std::span<const RowView> views);

  /// Returns the number of transferred bytes.
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool empty() const noexcept { return blocks_.empty(); }
  [[nodiscard]] std::size_t num_blocks() const noexcept { return blocks_.size(); }
  [[nodiscard]] std::span<const Block> blocks() const noexcept { return blocks_; }
  [[nodiscard]] std::span<const RowView> views() const noexcept { return views_; }
  /// Returns whether the bytes are transferred in the form that they have in memory.
  [[nodiscard]] bool is_plain() const noexcept { return views_.empty(); }

  /// Splits the list into datatypes of exactly `max_bytes` bytes each, except for a shorter last one. Lists
  /// of equal size give equal chunks, so sender and receiver need not communicate about them. Preconditions:
  /// 1 <= max_bytes < 2^31; the list is plain.
  [[nodiscard]] std::vector<MpiDatatype> chunks(std::int64_t max_bytes) const;

  /// Copies this list's bytes to the blocks of `to`, in one pass, whether or not either list has views.
  /// `total_bytes` is the number of bytes that the whole exchange writes on this rank; if it is several
  /// megabytes or more, stores bypass the caches. Preconditions: both lists have the same size; if both have
  /// views, corresponding rows belong to the same field.
  void copy_to(const BlockList& to, std::int64_t total_bytes) const noexcept;

 private:
  void append(const Block& block, std::size_t row_bytes, std::size_t traveling);
  std::size_t find_or_add_view(const RowView& view);
  [[nodiscard]] ViewedRows rows_of(const Block& block, std::size_t at) const noexcept {
    return {block.address, block.view == plain ? nullptr : &views_[block.view], at};
  }

  std::vector<Block> blocks_;
  std::vector<RowView> views_;  // views that blocks use, without duplicates
  std::int64_t bytes_ = 0;
};

/// Returns the total number of transferred bytes in all lists.
[[nodiscard]] std::int64_t total_bytes(std::span<const BlockList> lists) noexcept;

}  // namespace evenkeel
