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

/// Numbers (0-based) of the lines that first determined the properties of a field, for use in errors.
struct FieldOrigin {
  std::int64_t kind = 0;
  std::int64_t trailing = 0;
  std::int64_t dtype = 0;  ///< if both integers and real numbers occur, the line of the first real number

  friend bool operator==(const FieldOrigin&, const FieldOrigin&) = default;
};

/// The fields of rollouts in JSONL files, except uid, prompt_ids and response_ids. Each rank infers a schema
/// from the lines that it reads. Merging these schemas in any order yields the schema of all lines.
///
/// Properties that no line has determined yet are open: `fields` has placeholders for them (kind token;
/// float32 elements without trailing dimensions). The first line with more information replaces them. If no
/// line does, readers use the placeholders.
struct JsonlSchema {
  /// Whether no lines have been seen yet; such a schema is the identity element of merge().
  bool empty = true;
  std::int64_t first_line = 0;       ///< lowest number of the lines seen so far
  std::vector<FieldSpec> fields;     ///< specs of the fields, sorted by name; dtypes: bool, int64 and float32
  std::vector<FieldOrigin> origins;  ///< for each field, the lines that determined its properties
  /// Fields whose kind may be token or response_token. All prompts so far were empty, so both kinds would
  /// have the same number of rows.
  std::set<std::string> kind_open;
  /// Fields without any element so far, so their dtype and trailing dimensions are open.
  std::set<std::string> element_open;
  /// Keys whose values do not form fields, with the reasons.
  std::map<std::string, std::set<SkipReason>> ignored;
  /// Fields with an integer that float32 cannot represent exactly, each with the first line that has such an
  /// integer. All values of these fields must be integers.
  std::map<std::string, std::int64_t> wide_integers;

  [[nodiscard]] bool has_field(std::string_view name) const noexcept {
    return std::ranges::find(fields, name, &FieldSpec::name) != fields.end();
  }
  friend bool operator==(const JsonlSchema&, const JsonlSchema&) = default;
};

/// Declared formats, by field name, for fields whose format cannot be inferred from the lines.
/// - text: a string
/// - bytes: a string in base64 (RFC 4648, with padding)
/// - rows: a list of any number of rows of one shape
/// - axes: one or more lists of numbers, each with one number per token or per response token; the field's
///   rows have one value per axis
/// - runs: a list of [value, count] pairs whose counts are non-negative and add up to the number of tokens or
///   of response tokens
using DeclaredFormats = std::map<std::string, LineFormat, std::less<>>;

/// Infers the schema of these lines, which are results of scan_lines() with line numbers that continue over
/// all files. `tokens` receives the number of tokens of each line's sample; it must have one element per line
/// or be empty.
///
/// A number or boolean forms a `sample` field. A list forms a `token` field if its outer length is the
/// sample's number of tokens, or a `response_token` field if it is the sample's number of response tokens;
/// the lengths of lists inside it are trailing dimensions. Integers are int64, booleans are bool, and any
/// real number makes the field float32. Text, null, objects, lists of these, empty lists that fit neither
/// length, and a field named input_ids are ignored. Fields in `declared` must have the declared format.
///
/// Throws InputError at "PATH:LINE" (1-based) for a malformed line, a line without prompt_ids or
/// response_ids, a list of a length that fits neither kind, a list with rows of different shapes or elements
/// of different types (except integers and real numbers), and a field without its declared format. Throws
/// InputError if the lines' schemas cannot be merged (see merge()), and IoError if reading fails.
[[nodiscard]] JsonlSchema infer_schema(const LineFiles& files, std::span<const LineRef> lines,
                                       std::span<std::int64_t> tokens = {},
                                       const DeclaredFormats& declared = {});

/// Throws InputError about `source` if `declared` contains a field that no line of the source has. `schema`
/// is the schema of all lines of the source.
void require_declared_fields(const JsonlSchema& schema, const DeclaredFormats& declared,
                             const std::string& source);

/// Returns the common schema of the lines of `a` and `b`. `names` contains the names of these lines.
/// Commutative, associative and idempotent; an empty schema is the identity element. int64 and float32
/// combine to float32. Throws InputError if a field is missing in one schema, if kinds or trailing dimensions
/// differ, if one schema has booleans and the other numbers, or if integers are combined with real numbers
/// and float32 would round one of them. The error names a line from each schema, and its place is the later
/// of the two lines.
[[nodiscard]] JsonlSchema merge(const JsonlSchema& a, const JsonlSchema& b, const LineNames& names);

/// Returns the reasons as text, such as "text, null".
[[nodiscard]] std::string describe_skip_reasons(const std::set<SkipReason>& reasons);

/// Returns the ignored fields and the reasons, such as "'chat' (objects), 'solution' (text, null)"; empty if
/// there are none.
[[nodiscard]] std::string describe_ignored_fields(const JsonlSchema& schema);

/// Returns the fields with an open kind, such as "'advantages', 'turn'"; empty if there are none.
[[nodiscard]] std::string undecided_fields(const JsonlSchema& schema);

/// One entry of a schema: a field and its open properties.
struct SchemaEntry {
  FieldSpec spec;
  FieldOrigin origin;
  bool kind_open = false;
  bool element_open = false;
  /// Number of the first line with an integer that float32 would round; nullopt if there is none.
  std::optional<std::int64_t> wide_integer = {};
};

/// Appends an entry. Call this in ascending order of the fields' names.
void append(JsonlSchema& schema, SchemaEntry field);

[[nodiscard]] SchemaEntry schema_entry(const JsonlSchema& schema, std::size_t index);

/// Returns the dtype of a field with elements of both dtypes: float32 for int64 and float32, or nullopt if
/// only one is bool. Precondition: both are bool, int64 or float32.
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
    "Write only integers, or only real numbers (5.0, not 5), which may be rounded, or leave the field out";

}  // namespace evenkeel
