#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/batch/column_memory.hpp"
#include "evenkeel/batch/dtype.hpp"
#include "evenkeel/batch/sample_rows.hpp"

namespace evenkeel {

/// What a field has one row for.
enum class FieldKind : std::uint8_t {
  token,           ///< every token of a sample
  response_token,  ///< every response token of a sample
  sample,          ///< every sample
  rows,            ///< whatever each sample has any number of: image patches, audio frames, tool calls
  text,            ///< every byte of a sample's text, which is UTF-8
  bytes,           ///< every byte of a sample's value, of which nothing is known
};

[[nodiscard]] std::string_view name_of(FieldKind kind) noexcept;

/// Whether each sample says itself how many rows of the field it has, which its lengths do not tell: a
/// **counted** field. Its rows stay together, uncut, wherever the sample goes.
[[nodiscard]] constexpr bool is_counted(FieldKind kind) noexcept {
  return kind == FieldKind::rows || kind == FieldKind::text || kind == FieldKind::bytes;
}

/// What the offsets of a counted field are called where they stand beside its rows, in dumps and other files.
[[nodiscard]] inline std::string offsets_name(std::string_view field) {
  return std::string(field) + "_offsets";
}

/// A field's name and shape: rows of `trailing` elements of `dtype`. An empty `trailing` is one element a
/// row.
struct FieldSpec {
  std::string name;
  DType dtype = DType::int64;
  FieldKind kind = FieldKind::token;
  std::vector<std::int64_t> trailing;

  /// Elements of one row; 0 when a trailing dimension is 0. Throws InputError when a dimension is negative or
  /// a row has 2^63 bytes or more.
  [[nodiscard]] std::int64_t row_elements() const;
  /// Bytes of one row. Throws likewise.
  [[nodiscard]] std::size_t row_bytes() const;

  friend bool operator==(const FieldSpec&, const FieldSpec&) = default;
};

/// One field's rows, contiguous, row after row. Owns its bytes, which lie in column_memory(), or borrows
/// bytes that are only to be read: writing access takes a copy of them first. So read through const access
/// (`std::as_const`) where a copy is not wanted.
///
/// The column of a counted field knows whose its rows are: samples() has exactly its rows, in common or each
/// its own. Others have none.
///
/// What makes or resizes a column throws InputError for a shape that row_elements() refuses, a negative
/// number of rows, or 2^63 bytes and more.
class Column {
 public:
  Column() = default;
  /// `rows` rows of zero bytes. Here and below, of a field that is not counted, or without rows and samples.
  Column(FieldSpec spec, std::int64_t rows);
  /// Rows of zero bytes, of samples. Here and below, of a counted field.
  Column(FieldSpec spec, SampleRows samples);
  /// `rows` rows of whatever their memory held before, for who writes every byte: large columns are spared a
  /// pass over memory.
  [[nodiscard]] static Column unwritten(FieldSpec spec, std::int64_t rows);
  [[nodiscard]] static Column unwritten(FieldSpec spec, SampleRows samples);
  /// `rows` rows at `first`, which keeps them there. Nobody may write them while a column borrows them.
  [[nodiscard]] static Column borrowing(FieldSpec spec, std::int64_t rows,
                                        std::shared_ptr<const std::byte> first);
  [[nodiscard]] static Column borrowing(FieldSpec spec, SampleRows samples,
                                        std::shared_ptr<const std::byte> first);
  /// The rows of a column that is not counted as those of a counted field, divided among samples. Throws
  /// InputError unless they have exactly these rows.
  [[nodiscard]] static Column counted(Column rows, FieldKind kind, SampleRows samples);

  [[nodiscard]] const FieldSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  /// Whose the rows of a counted field are.
  [[nodiscard]] const SampleRows& samples() const noexcept { return samples_; }
  /// Bytes of one row.
  [[nodiscard]] std::size_t row_bytes() const noexcept { return row_bytes_; }
  [[nodiscard]] std::span<std::byte> bytes() {
    own();
    return own_;
  }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data(), offset_of(rows_)}; }
  /// Row `row`'s address. Precondition: 0 <= row <= rows(); `rows()` gives the end.
  [[nodiscard]] std::byte* row(std::int64_t row) {
    EVENKEEL_PRECONDITION(cheap, 0 <= row && row <= rows(), row, rows());
    return bytes().data() + offset_of(row);
  }
  [[nodiscard]] const std::byte* row(std::int64_t row) const noexcept {
    EVENKEEL_PRECONDITION(cheap, 0 <= row && row <= rows(), row, rows());
    return data() + offset_of(row);
  }

  /// The elements as T. Throws InputError when T is not the field's element type.
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

  /// Makes the column `rows` rows long, keeping what fits and zeroing what is new. Precondition: the field is
  /// not counted.
  void resize(std::int64_t rows);

  /// Lets others borrow the rows, and this column with them: they stay as they are, wherever they lie, until
  /// the last has let go.
  [[nodiscard]] std::shared_ptr<const std::byte> lend();
  /// A column of the same rows that borrows them from this one.
  [[nodiscard]] Column lent();
  /// The same of a counted field, as those of other samples. Precondition: samples.rows() == rows().
  [[nodiscard]] Column lent_to(SampleRows samples);
  [[nodiscard]] bool is_borrowed() const noexcept { return borrowed_ != nullptr; }

  /// Equal fields with equal bytes of the same samples, whoever owns them.
  friend bool operator==(const Column& a, const Column& b) noexcept;

 private:
  [[nodiscard]] static Column unwritten_rows(FieldSpec spec, std::int64_t rows);
  [[nodiscard]] static Column borrowing_rows(FieldSpec spec, std::int64_t rows,
                                             std::shared_ptr<const std::byte> first);
  void grow_to(std::int64_t rows);
  [[nodiscard]] std::size_t offset_of(std::int64_t row) const noexcept {
    return static_cast<std::size_t>(row) * row_bytes_;
  }
  void require_dtype(DType dtype) const;
  [[nodiscard]] std::size_t checked_bytes(std::int64_t rows) const;
  [[nodiscard]] const std::byte* data() const noexcept { return borrowed_ ? borrowed_.get() : own_.data(); }
  void own() {
    if (borrowed_) copy_borrowed();
  }
  void copy_borrowed();

  FieldSpec spec_;
  std::size_t row_bytes_ = 0;
  std::int64_t rows_ = 0;
  SampleRows samples_;                                      // of no samples but in counted fields
  std::vector<std::byte, ColumnAllocator<std::byte>> own_;  // empty while bytes are borrowed
  std::shared_ptr<const std::byte> borrowed_;
};

}  // namespace evenkeel
