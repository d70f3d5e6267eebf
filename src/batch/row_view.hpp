#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/batch/dtype.hpp"
#include "evenkeel/batch/field.hpp"

namespace evenkeel {

/// Describes which bytes of each row of a column are transferred, and with which element type. In the
/// transfer format, a row is the concatenation of its pieces, and its integers may have a different type than
/// in memory. By default, whole rows are transferred unchanged.
struct RowView {
  /// A run of bytes that is contiguous in memory and in the transfer.
  struct Piece {
    std::size_t from = 0;
    std::size_t bytes = 0;

    friend bool operator==(const Piece&, const Piece&) = default;
  };

  std::size_t row_bytes = 0;  ///< distance in bytes from one row to the next in memory; 0 if not specified
  /// Pieces in transfer order. If the list is empty, whole rows are transferred. If it has a single piece of
  /// zero bytes, no bytes are transferred.
  std::vector<Piece> pieces;
  DType memory_dtype = DType::uint8;
  DType wire_dtype = DType::uint8;

  /// Returns whether rows are transferred whole and unchanged, so the view can be ignored.
  [[nodiscard]] bool is_plain() const noexcept { return pieces.empty() && memory_dtype == wire_dtype; }
  /// Returns the number of transferred bytes per row in memory. Precondition: the view is not plain.
  [[nodiscard]] std::size_t selected_bytes_per_row() const noexcept;
  /// Returns the number of transferred bytes per row in the transfer format. Precondition: the view is not
  /// plain.
  [[nodiscard]] std::size_t wire_bytes() const noexcept {
    return selected_bytes_per_row() / size_of(memory_dtype) * size_of(wire_dtype);
  }

  friend bool operator==(const RowView&, const RowView&) = default;
};

/// Returns a view for transferring rows of `column` with elements of type `wire_dtype`: the given layers
/// along the first dimension of a row, in this order, or whole rows if `layers` is nullopt. Throws InputError
/// if the rows have a negative dimension, or 2^63 bytes or more. Preconditions: the layers exist; both
/// element types are equal or both are integers.
[[nodiscard]] RowView view_of_rows(const FieldSpec& column,
                                   const std::optional<std::vector<std::int64_t>>& layers, DType wire_dtype);

/// A position in a list of rows, which may be accessed through a view.
struct ViewedRows {
  const std::byte* first = nullptr;  ///< start of the first row
  const RowView* view = nullptr;     ///< null if the bytes are in the transfer format
  std::size_t at = 0;  ///< offset of the position from the first row, in bytes of the transfer format

  /// Returns the element type of the transfer; nullopt if the bytes are already in the transfer format.
  [[nodiscard]] std::optional<DType> transfer_dtype() const noexcept {
    return view == nullptr ? std::nullopt : std::optional(view->wire_dtype);
  }
};

/// Copies the next `bytes` bytes, counted in the transfer format, from one position to another in one pass.
/// If `streams`, stores bypass the caches, and other threads see them after streaming::finish().
/// Preconditions: both views have the same transfer type; the target's view covers whole rows; `bytes` and
/// positions in views are at element boundaries; elements fit in their new type; source and target do not
/// overlap.
void copy_rows(const ViewedRows& from, const ViewedRows& to, std::size_t bytes, bool streams) noexcept;

}  // namespace evenkeel
