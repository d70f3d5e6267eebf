#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/batch/dtype.hpp"
#include "evenkeel/batch/field.hpp"
#include "io/files/line_files.hpp"
#include "io/files/lines.hpp"

namespace evenkeel {

/// Reason why a value in a line does not form a field.
enum class SkipReason : std::uint8_t {
  text,
  null,
  object,
  empty_list,  ///< an empty list, although neither the sample nor its response is empty
  own_name,    ///< the name is input_ids, which is derived from prompt_ids and response_ids
};

/// Lines (0-based) that first determined a field's properties. Errors name them.
struct FieldOrigin {
  std::int64_t kind = 0;
  std::int64_t trailing = 0;
  std::int64_t dtype = 0;  ///< if both integers and reals occur, the line of the first real

  friend bool operator==(const FieldOrigin&, const FieldOrigin&) = default;
};

/// The fields of rollouts in JSONL files besides uid, prompt_ids and response_ids. Each rank infers a schema
/// from the lines that it reads; merging all of them in any order yields the schema of the whole.
///
/// Properties that no line has determined yet are open: `fields` has placeholders for them (kind token;
/// float32 elements without trailing dimensions). The first line with more information replaces them.
/// Placeholders that are never replaced are used for reading.
struct JsonlSchema {
  /// Whether no lines have been seen yet; such a schema is the identity element of merge().
  bool empty = true;
  std::int64_t first_line = 0;       ///< lowest number of the lines seen
  std::vector<FieldSpec> fields;     ///< sorted by name; dtypes are bool, int64 and float32
  std::vector<FieldOrigin> origins;  ///< one per field
  /// Fields whose kind may be token or response_token. All prompts so far were empty, so both kinds would
  /// have the same number of rows.
  std::set<std::string> kind_open;
  /// Fields without any element so far, so their dtype and trailing dimensions are open.
  std::set<std::string> element_open;
  std::map<std::string, std::set<SkipReason>> ignored;  ///< names whose values do not form fields, and why
  /// Fields with an integer that float32 cannot represent exactly, each with the first line that has such an
  /// integer. All values of these fields must be integers.
  std::map<std::string, std::int64_t> wide_integers;

  [[nodiscard]] bool has_field(std::string_view name) const noexcept {
    return std::ranges::find(fields, name, &FieldSpec::name) != fields.end();
  }
  friend bool operator==(const JsonlSchema&, const JsonlSchema&) = default;
};

/// Declared formats, by field, for fields that lines alone do not determine. `text` is a string; `bytes` is a
/// string in base64 (RFC 4648, with padding); `rows` is a list of any number of rows of one shape; `axes` is
/// one or more lists of numbers, each with one number per token or per response token, and forms a field
/// whose rows have one value per axis; `runs` is a list of [value, count] pairs whose counts are non-negative
/// and add up to the number of tokens or response tokens.
using DeclaredFormats = std::map<std::string, LineFormat, std::less<>>;

/// Infers the schema of these lines, which are results of scan_lines(), numbered over all files. `tokens`
/// receives the number of tokens of each line's sample; it must have one element per line or be empty.
///
/// A number or boolean forms a `sample` field. A list forms a `token` field if its outer length is the
/// sample's number of tokens, or a `response_token` field if it is the sample's number of response tokens;
/// the lengths of lists inside it are trailing dimensions. Integers are int64, booleans are bool, and any
/// real number makes the field float32. Text, null, objects, lists of these, empty lists that fit neither
/// length, and a field named input_ids are ignored. Fields in `declared` must have the declared format.
///
/// Throws InputError at "PATH:LINE" (1-based) for a malformed line, a line without prompt_ids or
/// response_ids, a list whose length fits neither or whose rows are unequal, and a field without its declared
/// format; also throws the errors of merge(), and IoError.
[[nodiscard]] JsonlSchema infer_schema(const LineFiles& files, std::span<const LineRef> lines,
                                       std::span<std::int64_t> tokens = {},
                                       const DeclaredFormats& declared = {});

/// Throws InputError about `source` if `declared` declares a field that none of the source's lines has.
/// `schema` is the schema of all these lines.
void require_declared_fields(const JsonlSchema& schema, const DeclaredFormats& declared,
                             const std::string& source);

/// Returns the common schema of lines with these names. Commutative, associative and idempotent; an empty
/// schema is the identity element. int64 and float32 combine to float32. Throws InputError if a field is
/// missing in one schema, if kinds or trailing dimensions differ, if one has booleans and the other numbers,
/// or if integers are combined with real numbers and float32 would round one of them. The error names a line
/// from each schema, and its place is the later of the two lines.
[[nodiscard]] JsonlSchema merge(const JsonlSchema& a, const JsonlSchema& b, const LineNames& names);

/// Returns the reasons as text, such as "text, null".
[[nodiscard]] std::string describe_skip_reasons(const std::set<SkipReason>& reasons);

/// Returns the ignored fields and the reasons, such as "'chat' (objects), 'solution' (text, null)"; empty if
/// there are none.
[[nodiscard]] std::string ignored_fields(const JsonlSchema& schema);

/// Returns the fields with an open kind, such as "'advantages', 'turn'"; empty if there are none.
[[nodiscard]] std::string undecided_fields(const JsonlSchema& schema);

/// One entry of a schema: a field and its open properties.
struct FieldView {
  FieldSpec spec;
  FieldOrigin origin;
  bool kind_open = false;
  bool element_open = false;
  std::optional<std::int64_t> wide_integer = {};  ///< first line with an integer that float32 would round
};

/// Appends an entry. Call this in the order of names.
void append(JsonlSchema& schema, FieldView field);

[[nodiscard]] FieldView field_view(const JsonlSchema& schema, std::size_t index);

/// Returns the dtype that can represent the elements of both dtypes, or nullopt if one is bool and the other
/// is not.
[[nodiscard]] std::optional<DType> common_dtype(DType a, DType b);

/// Returns whether float32 represents an integer of this magnitude exactly.
[[nodiscard]] constexpr bool is_exact_in_float32(std::uint64_t magnitude) noexcept {
  constexpr int significant_bits = std::numeric_limits<float>::digits;
  // float32 represents this number and all smaller integers exactly.
  constexpr std::uint64_t max_exact = std::uint64_t{1} << significant_bits;
  return magnitude <= max_exact ||
         std::bit_width(magnitude >> std::countr_zero(magnitude)) <= significant_bits;
}
[[nodiscard]] constexpr bool is_exact_in_float32(std::int64_t value) noexcept {
  const auto bits = static_cast<std::uint64_t>(value);
  return is_exact_in_float32(value < 0 ? -bits : bits);
}

/// Hint for a field with an integer that float32 would round.
inline constexpr const char* wide_integer_hint =
    "Write integers only, or leave the field out; a number with a decimal point, such as 5.0, may be rounded";

}  // namespace evenkeel
