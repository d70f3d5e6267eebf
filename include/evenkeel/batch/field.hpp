#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/dtype.hpp"

namespace evenkeel {

/// Returns the standard heap. It grants large blocks only if there is memory for them (require_memory), so an
/// impossible request throws LimitError instead of ending the process when the block is written.
[[nodiscard]] std::pmr::memory_resource& standard_heap() noexcept;

/// Returns the memory resource for new columns of this process: standard_heap() unless it was set.
[[nodiscard]] std::pmr::memory_resource* column_memory() noexcept;

/// Makes new columns of this process allocate from `memory`, which must outlive all of them; returns the
/// previous resource. Existing columns keep their memory; blocks that were kept for later micro-batches are
/// returned to their resource. Thread-safe.
///
/// This lets an embedding program have its tensors in its own memory, for example pinned for copies to a
/// device: packed micro-batches, received data and collected results, except tensors that tensor-parallel
/// ranks of a node share. `memory` is called by the threads that make steps. It should keep freed blocks,
/// since each step needs about as many as the previous one. (Blocks of micro-batches are already kept here:
/// see MicroBatchArena.) If it throws, all ranks throw. By default, the first service or exchange sets a heap
/// that the other ranks of the node can read; from other memory, one additional copy is needed to reach them.
std::pmr::memory_resource* set_column_memory(std::pmr::memory_resource& memory) noexcept;

/// Allocates from the column_memory() that was set when the container was made or copied, with an alignment
/// suitable for values of any type, since columns of bytes may hold them. Moving a container keeps its
/// memory. Elements without a value are left uninitialized, as with make_unique_for_overwrite.
template <typename T>
class ColumnAllocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  ColumnAllocator() noexcept : memory_(column_memory()) {}
  template <typename U>
  ColumnAllocator(const ColumnAllocator<U>& other) noexcept : memory_(other.memory()) {}

  [[nodiscard]] T* allocate(std::size_t count) {
    return static_cast<T*>(memory_->allocate(count * sizeof(T), alignment));
  }
  void deallocate(T* address, std::size_t count) noexcept {
    memory_->deallocate(address, count * sizeof(T), alignment);
  }
  template <typename U, typename... Arguments>
  void construct(U* element, Arguments&&... arguments) noexcept {
    if constexpr (sizeof...(Arguments) == 0) {
      ::new (static_cast<void*>(element)) U;
    } else {
      std::construct_at(element, std::forward<Arguments>(arguments)...);
    }
  }
  [[nodiscard]] ColumnAllocator select_on_container_copy_construction() const noexcept { return {}; }
  [[nodiscard]] std::pmr::memory_resource* memory() const noexcept { return memory_; }

  friend bool operator==(const ColumnAllocator& a, const ColumnAllocator& b) noexcept {
    return *a.memory_ == *b.memory_;
  }

 private:
  static constexpr std::size_t alignment = alignof(std::max_align_t);
  std::pmr::memory_resource* memory_;
};

/// The rows of each sample in a counted field. Does not allocate if there are no samples.
///
/// Usually, each sample has its own rows, back to back in the order of the samples. They are described by n+1
/// offsets: the prefix sums of the numbers of rows of n samples, which start at 0 and never decrease.
/// Example: samples of 2, 0 and 3 rows have offsets {0, 2, 2, 5}.
///
/// Otherwise, rows are shared: each sample has an arbitrary range of rows, several samples may have the same
/// range, and some rows may not belong to any sample. With FieldSharing::equal, micro-batches have such
/// fields, in which equal values are stored once.
class SampleRows {
 public:
  /// Makes an object without samples.
  SampleRows() = default;
  /// Makes rows for samples with these numbers of rows. Throws InputError for a negative number, and for 2^63
  /// rows or more. O(n).
  [[nodiscard]] static SampleRows from_counts(std::span<const std::int64_t> counts);
  /// Makes rows for samples with these offsets. Throws InputError unless they start at 0 and never decrease.
  /// O(n).
  [[nodiscard]] static SampleRows from_offsets(std::vector<std::int64_t> offsets);
  /// Makes rows for samples that have these ranges of `rows` shared rows. Throws InputError for a range that
  /// is not within them. O(n).
  [[nodiscard]] static SampleRows shared(std::vector<RowRange> ranges, std::int64_t rows);

  /// Returns n.
  [[nodiscard]] std::int64_t size() const noexcept {
    if (are_shared()) return static_cast<std::int64_t>(ranges_.size());
    return offsets_.empty() ? 0 : static_cast<std::int64_t>(offsets_.size()) - 1;
  }
  /// Returns the number of rows of all samples; if rows are shared, the number of shared rows.
  [[nodiscard]] std::int64_t rows() const noexcept {
    if (are_shared()) return *rows_in_common_;
    return offsets_.empty() ? 0 : offsets_.back();
  }
  /// Returns the rows of one sample. Precondition: 0 <= sample < size().
  [[nodiscard]] RowRange operator[](std::int64_t sample) const noexcept {
    EVENKEEL_PRECONDITION(cheap, 0 <= sample && sample < size(), sample, size());
    const auto at = static_cast<std::size_t>(sample);
    return are_shared() ? ranges_[at] : RowRange{offsets_[at], offsets_[at + 1]};
  }
  [[nodiscard]] bool are_shared() const noexcept { return rows_in_common_.has_value(); }
  /// Precondition: not shared.
  [[nodiscard]] std::span<const std::int64_t> offsets() const noexcept {
    EVENKEEL_PRECONDITION(cheap, !are_shared(), size());
    return offsets_.empty() ? std::span<const std::int64_t>(&none, 1) : offsets_;
  }
  /// Returns each sample's rows. Precondition: shared.
  [[nodiscard]] std::span<const RowRange> ranges() const noexcept {
    EVENKEEL_PRECONDITION(cheap, are_shared(), size());
    return ranges_;
  }

  /// Shared rows are never equal to rows that are not shared.
  friend bool operator==(const SampleRows& a, const SampleRows& b) noexcept = default;

 private:
  static constexpr std::int64_t none = 0;

  std::vector<std::int64_t> offsets_;  // empty if there are no samples, or if rows are shared
  std::vector<RowRange> ranges_;       // used for shared rows
  std::optional<std::int64_t> rows_in_common_;
};

/// The unit for which a field has one row.
enum class FieldKind : std::uint8_t {
  token,           ///< every token of a sample
  response_token,  ///< every response token of a sample
  sample,          ///< every sample
  rows,            ///< every item of some other kind, such as image patches, audio frames, tool calls
  text,            ///< every byte of a sample's text, which is UTF-8
  bytes,           ///< every byte of a sample's opaque value
};

/// The quantity that determines a sample's number of rows.
enum class RowsPer : std::uint8_t {
  token,           ///< one row per token
  response_token,  ///< one row per response token
  sample,          ///< one row
  own_count,       ///< a separate number, independent of the sample's lengths
};

/// Content of one sample's rows.
enum class ValueForm : std::uint8_t { numbers, text, bytes };

/// The properties of a field kind. Code asks for a property instead of comparing kinds, so a new kind needs
/// only an entry in `field_rules`.
struct FieldRule {
  FieldKind kind;
  std::string_view
      name;  ///< in files, configurations, error messages and Python; in C, EVENKEEL_ plus the name
  std::int32_t c_value;  ///< EVENKEEL_TOKEN and so on
  RowsPer rows_per;
  ValueForm form = ValueForm::numbers;
  bool is_cut_by_ranges = false;  ///< a field of token ranges may assign the rows to tokens (`cut_by`)

  [[nodiscard]] constexpr bool is_per_token() const noexcept { return rows_per == RowsPer::token; }
  [[nodiscard]] constexpr bool is_per_response_token() const noexcept {
    return rows_per == RowsPer::response_token;
  }
  [[nodiscard]] constexpr bool is_per_sample() const noexcept { return rows_per == RowsPer::sample; }
  /// Returns whether each sample has its own number of rows: a **counted** field. A sample's rows stay
  /// together wherever the sample goes, unless they are cut by ranges.
  [[nodiscard]] constexpr bool is_counted() const noexcept { return rows_per == RowsPer::own_count; }
  /// Returns whether each member of a CP group gets only the rows of its own tokens. Otherwise, every member
  /// gets all rows.
  [[nodiscard]] constexpr bool is_cut() const noexcept { return is_per_token() || is_per_response_token(); }
  [[nodiscard]] constexpr bool has_numbers() const noexcept { return form == ValueForm::numbers; }
  [[nodiscard]] constexpr bool is_text() const noexcept { return form == ValueForm::text; }
  [[nodiscard]] constexpr bool is_bytes() const noexcept { return form == ValueForm::bytes; }

  /// Returns the number of rows of a sample with these lengths; `own_count` is used only for counted kinds.
  [[nodiscard]] constexpr std::int64_t rows_of(std::int64_t prompt, std::int64_t response,
                                               std::int64_t own_count = 0) const noexcept {
    switch (rows_per) {
      case RowsPer::token:
        return prompt + response;
      case RowsPer::response_token:
        return response;
      case RowsPer::sample:
        return 1;
      case RowsPer::own_count:
        break;
    }
    return own_count;
  }
};

/// All kinds, in the order of FieldKind. C values start at 1, so a zeroed structure has no kind.
inline constexpr std::array field_rules{
    FieldRule{FieldKind::token, "token", 1, RowsPer::token},
    FieldRule{FieldKind::response_token, "response_token", 2, RowsPer::response_token},
    FieldRule{FieldKind::sample, "sample", 3, RowsPer::sample},
    FieldRule{FieldKind::rows, "rows", 4, RowsPer::own_count, ValueForm::numbers, true},
    FieldRule{FieldKind::text, "text", 5, RowsPer::own_count, ValueForm::text},
    FieldRule{FieldKind::bytes, "bytes", 6, RowsPer::own_count, ValueForm::bytes},
};

namespace detail {
/// The table that the functions below use: `field_rules`, unless a test replaces it to add a kind.
inline constinit std::span<const FieldRule> rules_in_use{field_rules};
}  // namespace detail

[[nodiscard]] inline std::span<const FieldRule> all_field_rules() noexcept {
  return detail::rules_in_use;
}

/// Returns the rule of a kind. Precondition: the kind is in the table.
[[nodiscard]] inline const FieldRule& rule_of(FieldKind kind) noexcept {
  const auto at = static_cast<std::size_t>(kind);
  EVENKEEL_PRECONDITION(cheap, at < detail::rules_in_use.size(), at);
  return detail::rules_in_use[at];
}

/// Returns the rule with this name, or null.
[[nodiscard]] inline const FieldRule* find_rule(std::string_view name) noexcept {
  const auto rules = all_field_rules();
  const auto found = std::ranges::find(rules, name, &FieldRule::name);
  return found == rules.end() ? nullptr : &*found;
}

[[nodiscard]] inline std::string_view name_of(FieldKind kind) noexcept {
  return rule_of(kind).name;
}

[[nodiscard]] inline bool is_counted(FieldKind kind) noexcept {
  return rule_of(kind).is_counted();
}

/// Returns the name of a counted field's offsets, which are stored next to its rows in dumps and other files.
[[nodiscard]] inline std::string offsets_name(std::string_view field) {
  return std::string(field) + "_offsets";
}

/// A field's name and shape: rows of `trailing` elements of `dtype`. If `trailing` is empty, each row has one
/// element.
struct FieldSpec {
  std::string name;
  DType dtype = DType::int64;
  FieldKind kind = FieldKind::token;
  std::vector<std::int64_t> trailing;

  [[nodiscard]] const FieldRule& rule() const noexcept { return rule_of(kind); }
  /// Returns the number of elements of one row; 0 if a trailing dimension is 0. Throws InputError if a
  /// dimension is negative or a row has 2^63 bytes or more.
  [[nodiscard]] std::int64_t row_elements() const;
  /// Returns the number of bytes of one row. Throws InputError like row_elements().
  [[nodiscard]] std::size_t row_bytes() const;
  /// Returns the number of bytes of `rows` rows. Throws InputError for a shape that row_elements() refuses, a
  /// negative number of rows, and 2^63 bytes or more.
  [[nodiscard]] std::size_t bytes_of(std::int64_t rows) const;

  friend bool operator==(const FieldSpec&, const FieldSpec&) = default;
};

/// One field's rows, contiguous, row after row. Owns its bytes, which are in column_memory(), or borrows
/// read-only bytes: non-const access first copies these. Use const access (`std::as_const`) to avoid that
/// copy. Bytes that it owns may be part of a block that also contains other columns (MicroBatchArena); a copy
/// of the column, or the column itself once it grows, gets separate memory.
///
/// The column of a counted field knows which rows belong to which sample: samples() describes exactly its
/// rows, shared or not. For other columns, samples() is empty.
///
/// Functions that make or resize a column throw InputError for a shape that row_elements() refuses, a
/// negative number of rows, or 2^63 bytes or more.
class Column {
 public:
  Column() = default;
  Column(const Column& other);
  Column(Column&& other) noexcept = default;
  Column& operator=(const Column& other);
  Column& operator=(Column&& other) noexcept;
  ~Column();
  /// Makes `rows` rows of zero bytes. Here and below, functions with `rows` are for fields that are not
  /// counted, or for zero rows of zero samples.
  Column(FieldSpec spec, std::int64_t rows);
  /// Makes rows of zero bytes for samples. Here and below, functions with `samples` are for counted fields.
  Column(FieldSpec spec, SampleRows samples);
  /// Makes `rows` uninitialized rows, for callers that write every byte. This saves large columns a pass over
  /// memory.
  [[nodiscard]] static Column uninitialized(FieldSpec spec, std::int64_t rows);
  [[nodiscard]] static Column uninitialized(FieldSpec spec, SampleRows samples);
  /// Makes uninitialized rows at `place`, which must have room for them and which only this column may read
  /// or write while it uses it. If `place` is null, the rows get separate memory.
  [[nodiscard]] static Column uninitialized(FieldSpec spec, std::int64_t rows,
                                            std::shared_ptr<std::byte> place);
  [[nodiscard]] static Column uninitialized(FieldSpec spec, SampleRows samples,
                                            std::shared_ptr<std::byte> place);
  /// Makes a column that borrows `rows` rows at `first`; the pointer keeps them alive. They must not be
  /// written while a column borrows them.
  [[nodiscard]] static Column borrowing(FieldSpec spec, std::int64_t rows,
                                        std::shared_ptr<const std::byte> first);
  [[nodiscard]] static Column borrowing(FieldSpec spec, SampleRows samples,
                                        std::shared_ptr<const std::byte> first);
  /// Converts a column that is not counted to a counted field by dividing its rows among samples. Throws
  /// InputError unless `samples` describe exactly these rows.
  [[nodiscard]] static Column make_counted(Column rows, FieldKind kind, SampleRows samples);

  [[nodiscard]] const FieldSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  /// Returns which rows of a counted field belong to which sample.
  [[nodiscard]] const SampleRows& samples() const noexcept { return samples_; }
  /// Returns the number of bytes of one row.
  [[nodiscard]] std::size_t row_bytes() const noexcept { return row_bytes_; }
  [[nodiscard]] std::span<std::byte> bytes() {
    own_bytes();
    return {const_cast<std::byte*>(data()), offset_of(rows_)};
  }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data(), offset_of(rows_)}; }
  /// Returns the address of row `row`; for rows(), the end. Precondition: 0 <= row <= rows().
  [[nodiscard]] std::byte* row(std::int64_t row) {
    EVENKEEL_PRECONDITION(cheap, 0 <= row && row <= rows(), row, rows());
    return bytes().data() + offset_of(row);
  }
  [[nodiscard]] const std::byte* row(std::int64_t row) const noexcept {
    EVENKEEL_PRECONDITION(cheap, 0 <= row && row <= rows(), row, rows());
    return data() + offset_of(row);
  }

  /// Returns the elements as T. Throws InputError if T is not the field's element type.
  template <typename T>
  [[nodiscard]] std::span<T> values() {
    require_dtype(dtype_of<T>);
    return {reinterpret_cast<T*>(bytes().data()), offset_of(rows_) / sizeof(T)};
  }
  template <typename T>
  [[nodiscard]] std::span<const T> values() const {
    require_dtype(dtype_of<T>);
    return {reinterpret_cast<const T*>(data()), offset_of(rows_) / sizeof(T)};
  }

  /// Resizes the column to `rows` rows, keeping existing rows that fit and setting new ones to zero.
  /// Precondition: the field is not counted.
  void resize(std::int64_t rows);

  /// Lets others borrow the rows; this column then also borrows them. They remain unchanged and in place
  /// until the last borrower has released them.
  [[nodiscard]] std::shared_ptr<const std::byte> lend();
  /// Returns a column of the same rows that borrows them from this one.
  [[nodiscard]] Column make_borrowing_copy();
  /// Returns a column of a counted field that borrows the rows from this one, but divides them among other
  /// samples. Precondition: samples.rows() == rows().
  [[nodiscard]] Column make_borrowing_copy(SampleRows samples);
  [[nodiscard]] bool is_borrowed() const noexcept { return elsewhere_ && !is_placed_; }

  /// Returns whether both have equal fields and equal bytes of the same samples, regardless of who owns the
  /// bytes.
  friend bool operator==(const Column& a, const Column& b) noexcept;

 private:
  [[nodiscard]] static Column uninitialized_rows(FieldSpec spec, std::int64_t rows,
                                                 std::shared_ptr<std::byte> place);
  [[nodiscard]] static Column borrowing_rows(FieldSpec spec, std::int64_t rows,
                                             std::shared_ptr<const std::byte> first);
  void resize_rows(std::int64_t rows);
  [[nodiscard]] std::size_t offset_of(std::int64_t row) const noexcept {
    return static_cast<std::size_t>(row) * row_bytes_;
  }
  void require_dtype(DType dtype) const;
  [[nodiscard]] const std::byte* data() const noexcept { return elsewhere_ ? elsewhere_.get() : own_.data(); }
  void own_bytes() {
    if (is_borrowed()) copy_to_own_memory();
  }
  void copy_to_own_memory();

  FieldSpec spec_;
  std::size_t row_bytes_ = 0;
  std::int64_t rows_ = 0;
  SampleRows samples_;                                      // empty unless the field is counted
  std::vector<std::byte, ColumnAllocator<std::byte>> own_;  // empty while the bytes are elsewhere
  std::shared_ptr<const std::byte> elsewhere_;              // borrowed, or placed
  bool is_placed_ = false;  // whether the bytes elsewhere belong to this column alone
};

}  // namespace evenkeel
