#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/batch/dtype.hpp"
#include "evenkeel/batch/field.hpp"

namespace evenkeel {

/// What travels of each row of a column, and as what: pieces of the row, one after the other, whose integers
/// may be of another type on the way than in memory. By default whole rows as they are.
struct RowView {
  /// Bytes of a row that lie together in memory, and together on the way.
  struct Piece {
    std::size_t from = 0;
    std::size_t bytes = 0;

    friend bool operator==(const Piece&, const Piece&) = default;
  };

  std::size_t row_bytes = 0;  ///< in memory, from one row to the next; 0: whatever rows have
  /// In the order in which they travel; none: whole rows. An empty piece alone: nothing of them.
  std::vector<Piece> pieces;
  DType in_memory = DType::uint8;
  DType on_the_way = DType::uint8;

  /// Whether rows travel whole and as they are, so that nobody needs to look at the view.
  [[nodiscard]] bool is_plain() const noexcept { return pieces.empty() && in_memory == on_the_way; }
  /// Bytes of a row that travel, as they are in memory and as they are on the way. Precondition: not plain.
  [[nodiscard]] std::size_t taken_bytes() const noexcept;
  [[nodiscard]] std::size_t travelling_bytes() const noexcept {
    return taken_bytes() / size_of(in_memory) * size_of(on_the_way);
  }

  friend bool operator==(const RowView&, const RowView&) = default;
};

/// Of rows of `column`, with elements that travel as `on_the_way`: those layers along their first dimension,
/// in this order, or whole rows. Throws like FieldSpec::row_bytes(). Preconditions: the layers are there;
/// both types are the same, or integers.
[[nodiscard]] RowView view_of_rows(const FieldSpec& column,
                                   const std::optional<std::vector<std::int64_t>>& layers, DType on_the_way);

/// A place in rows that are looked at through a view.
struct ViewedRows {
  const std::byte* first = nullptr;  ///< of the first row
  const RowView* view = nullptr;     ///< nullptr: bytes as they travel
  std::size_t at = 0;                ///< bytes, as they travel, before the place

  /// The type on the way that the view knows; nothing where the bytes are as they travel.
  [[nodiscard]] std::optional<DType> on_the_way() const noexcept {
    return view == nullptr ? std::nullopt : std::optional(view->on_the_way);
  }
};

/// Copies the next `bytes` bytes, as they travel, from one place to another in one pass; past the caches
/// where it `streams`, which others see after streaming::finish(). Preconditions: both views have one type on
/// the way; the target's takes whole rows; places in views, and `bytes`, are at borders of elements; elements
/// fit their new type; nothing overlaps.
void copy_rows(const ViewedRows& from, const ViewedRows& to, std::size_t bytes, bool streams) noexcept;

}  // namespace evenkeel
