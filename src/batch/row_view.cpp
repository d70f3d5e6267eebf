#include "batch/row_view.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/line_writer.hpp"
#include "base/streaming.hpp"
#include "batch/integers.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

constexpr std::size_t converted_at_once = 512;
constexpr std::size_t largest_element = 8;

using Convert = void (*)(const std::byte* from, std::byte* to, std::size_t elements);

// Use memcpy, since bytes in the transfer format may not be aligned to their element type.
template <typename From, typename To>
void convert(const std::byte* __restrict from, std::byte* __restrict to, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof(From), sizeof(From));
    const To converted = static_cast<To>(value);
    std::memcpy(to + i * sizeof(To), &converted, sizeof(To));
  }
}

Convert conversion(DType from, DType to) {
  return with_integer_type(from, [&]<typename From>(From) {
    return with_integer_type(to, []<typename To>(To) -> Convert { return &convert<From, To>; });
  });
}

/// Element types of the source, the target and the transfer. All of them are uint8 if both sides are in the
/// transfer format.
struct ElementTypes {
  DType from = DType::uint8;
  DType to = DType::uint8;
  DType wire_dtype = DType::uint8;

  ElementTypes(const ViewedRows& source, const ViewedRows& target) noexcept {
    const std::optional<DType> way =
        source.view != nullptr ? source.transfer_dtype() : target.transfer_dtype();
    if (!way) return;
    wire_dtype = *way;
    from = source.view != nullptr ? source.view->memory_dtype : *way;
    to = target.view != nullptr ? target.view->memory_dtype : *way;
  }
};

/// Prefetches the pieces of the next rows, one cache line per call. Rows are prefetched in groups of about 4
/// KiB: first the first line of each row of the group, then the second line of each row, and so on.
/// Prefetching consecutive lines of one row would trigger the hardware prefetcher, which would also load the
/// bytes between pieces, and double the memory traffic.
class PieceFetcher {
 public:
  /// Prefetches the first two groups of the `rows` rows that start at `row`.
  PieceFetcher(const RowView& view, const std::byte* row, std::size_t rows) noexcept
      : view_(view),
        first_row_(row),
        row_bytes_(view.row_bytes),
        group_(std::max(bytes_in_group / view.selected_bytes_per_row(), std::size_t{1})),
        next_(view.pieces.front().from) {
    std::size_t lines = 0;
    for (const RowView::Piece& piece : view.pieces) lines += num_lines_of(piece.bytes);
    for (std::size_t due = lines * std::min(rows, groups_ahead * group_); due > 0; --due) (*this)();
  }

  void operator()() noexcept {
    streaming::prefetch_read_once(first_row_, next_);
    next_ += row_bytes_;
    if (++row_ == group_) advance_to_next_line();
  }

  [[nodiscard]] static constexpr std::size_t num_lines_of(std::size_t bytes) noexcept {
    return (bytes + streaming::line_bytes - 1) / streaming::line_bytes;
  }

 private:
  static constexpr std::size_t bytes_in_group = std::size_t{4} << 10;
  static constexpr std::size_t groups_ahead = 2;

  void advance_to_next_line() noexcept {
    row_ = 0;
    line_ += streaming::line_bytes;
    if (line_ >= view_.pieces[piece_].bytes) {
      line_ = 0;
      if (++piece_ == view_.pieces.size()) {
        piece_ = 0;
        rows_ += group_ * row_bytes_;
      }
    }
    next_ = rows_ + view_.pieces[piece_].from + line_;
  }

  const RowView& view_;
  const std::byte* first_row_;
  std::size_t row_bytes_;
  std::size_t group_;      // rows per group
  std::size_t next_;       // offset of the next cache line to prefetch, in bytes from the first row
  std::size_t rows_ = 0;   // offset of the current group of rows, in bytes from the first row
  std::size_t row_ = 0;    // index of the row in the group
  std::size_t piece_ = 0;  // index of the piece in the row
  std::size_t line_ = 0;   // offset of the cache line, in bytes from the piece's start
};

/// Used in place of PieceFetcher when whole rows are copied.
struct NullFetcher {
  void operator()() const noexcept {}
};

/// Returns the offset of a position, in bytes of the memory format. Positions in the transfer format need not
/// be at element boundaries.
std::size_t bytes_before(const ViewedRows& place) noexcept {
  if (place.view == nullptr) return place.at;
  const std::size_t width = size_of(place.view->wire_dtype);
  EVENKEEL_PRECONDITION(cheap, place.at % width == 0, place.at, width);
  return place.at / width * size_of(place.view->memory_dtype);
}

/// Destination of a copy, written from front to back.
class Sink {
 public:
  Sink(std::byte* to, bool streams) noexcept : to_(to), streams_(streams) {
    if (streams) lines_ = LineWriter(to);
  }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  ~Sink() {
    if (streams_) lines_.finish();
  }

  void put(const std::byte* from, std::size_t bytes) noexcept { put(from, bytes, NullFetcher()); }
  /// Appends bytes, and calls `fetch` once per cache line. If the sink streams, the calls are interleaved
  /// with the stores, because prefetches issued in one burst would wait for each other.
  template <typename Fetch>
  void put(const std::byte* from, std::size_t bytes, Fetch&& fetch) noexcept {
    std::size_t due = PieceFetcher::num_lines_of(bytes);
    if (streams_) {
      lines_.put(from, bytes, [&](std::byte* to, const std::byte* lines, std::size_t count) {
        streaming::store_lines(to, lines, count, [&](std::size_t) { fetch(); });
        due -= count;
      });
    } else {
      std::memcpy(to_, from, bytes);
      to_ += bytes;
    }
    for (; due > 0; --due) fetch();
  }

 private:
  std::byte* to_;
  bool streams_;
  LineWriter lines_;
};

/// Converts elements and passes them to a sink. Converted elements are buffered in the first-level cache, so
/// that small pieces are stored as large blocks.
class ConvertedElements {
 public:
  ConvertedElements(Sink& sink, DType from, DType to) noexcept
      : sink_(sink), from_bytes_(size_of(from)), to_bytes_(size_of(to)), convert_(conversion(from, to)) {}
  ConvertedElements(const ConvertedElements&) = delete;
  ConvertedElements& operator=(const ConvertedElements&) = delete;
  ~ConvertedElements() { flush(); }

  template <typename Fetch>
  void put(const std::byte* from, std::size_t bytes, Fetch&& fetch) noexcept {
    for (std::size_t due = PieceFetcher::num_lines_of(bytes); due > 0; --due) fetch();
    for (std::size_t elements = bytes / from_bytes_; elements > 0;) {
      const std::size_t some = std::min(elements, converted_at_once - waiting_);
      convert_(from, converted_.data() + waiting_ * to_bytes_, some);
      from += some * from_bytes_;
      elements -= some;
      waiting_ += some;
      if (waiting_ == converted_at_once) flush();
    }
  }

 private:
  void flush() noexcept {
    sink_.put(converted_.data(), waiting_ * to_bytes_);
    waiting_ = 0;
  }

  Sink& sink_;
  std::size_t from_bytes_;
  std::size_t to_bytes_;
  Convert convert_;
  std::size_t waiting_ = 0;
  alignas(streaming::line_bytes) std::array<std::byte, converted_at_once * largest_element> converted_;
};

/// Passes `bytes` bytes of `rows`, starting at offset `at`, to target.put(), with one call per contiguous
/// run. Both numbers count bytes of the memory format.
template <typename Target>
void put_pieces(const ViewedRows& rows, std::size_t at, std::size_t bytes, Target& target) {
  if (rows.view == nullptr || rows.view->pieces.empty()) {
    return target.put(rows.first + at, bytes, NullFetcher());
  }
  const RowView& view = *rows.view;
  const std::size_t taken = view.selected_bytes_per_row();
  const std::byte* row = rows.first + at / taken * view.row_bytes;
  std::size_t skipped = at % taken;
  PieceFetcher fetch(view, row, bytes / taken);
  for (; bytes > 0; row += view.row_bytes) {
    for (const RowView::Piece& piece : view.pieces) {
      if (skipped >= piece.bytes) {
        skipped -= piece.bytes;
        continue;
      }
      const std::size_t some = std::min(piece.bytes - skipped, bytes);
      target.put(row + piece.from + skipped, some, fetch);
      skipped = 0;
      bytes -= some;
      if (bytes == 0) return;
    }
  }
}

}  // namespace

std::size_t RowView::selected_bytes_per_row() const noexcept {
  if (pieces.empty()) return row_bytes;
  std::size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  return bytes;
}

RowView view_of_rows(const FieldSpec& column, const std::optional<std::vector<std::int64_t>>& layers,
                     DType wire_dtype) {
  EVENKEEL_PRECONDITION(
      cheap, column.dtype == wire_dtype || (is_integer(column.dtype) && is_integer(wire_dtype)), column.name);
  RowView view{column.row_bytes(), {}, column.dtype, wire_dtype};
  if (!layers) return view;
  const std::int64_t all = column.trailing.front();
  const std::size_t in_layer = all == 0 ? 0 : view.row_bytes / static_cast<std::size_t>(all);
  for (const std::int64_t layer : *layers) {
    EVENKEEL_PRECONDITION(cheap, 0 <= layer && layer < all, layer, all);
    const std::size_t from = static_cast<std::size_t>(layer) * in_layer;
    if (!view.pieces.empty() && view.pieces.back().from + view.pieces.back().bytes == from) {
      view.pieces.back().bytes += in_layer;
    } else {
      view.pieces.push_back({from, in_layer});
    }
  }
  // Add a piece of zero bytes, since an empty list would mean whole rows.
  if (view.pieces.empty()) view.pieces.emplace_back();
  const bool are_all = view.pieces.size() == 1 && view.pieces.front().bytes == view.row_bytes;
  if (are_all) view.pieces.clear();
  return view;
}

void copy_rows(const ViewedRows& from, const ViewedRows& to, std::size_t bytes, bool streams) noexcept {
  if (bytes == 0) return;
  EVENKEEL_PRECONDITION(cheap, to.view == nullptr || to.view->pieces.empty());
  EVENKEEL_PRECONDITION(
      cheap, from.view == nullptr || to.view == nullptr || from.view->wire_dtype == to.view->wire_dtype);
  const ElementTypes types(from, to);
  const std::size_t width = size_of(types.wire_dtype);
  EVENKEEL_PRECONDITION(cheap, bytes % width == 0, bytes, width);
  // The cast is safe, since the target is writable memory.
  Sink sink(const_cast<std::byte*>(to.first) + bytes_before(to), streams);
  const std::size_t begin = bytes_before(from);
  const std::size_t taken = bytes / width * size_of(types.from);
  if (types.from == types.to) return put_pieces(from, begin, taken, sink);
  ConvertedElements converted(sink, types.from, types.to);
  put_pieces(from, begin, taken, converted);
}

}  // namespace evenkeel
