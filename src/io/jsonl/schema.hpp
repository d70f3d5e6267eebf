#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/batch/dtype.hpp"
#include "evenkeel/batch/field.hpp"
#include "io/files/line_files.hpp"
#include "io/files/lines.hpp"

namespace evenkeel {

/// Why a value of a line makes no field.
enum class LeftOut : std::uint8_t {
  text,
  null,
  object,
  empty_list,  ///< of as many rows as neither the sample nor its response has tokens
  own_name,    ///< it is called input_ids, which is made of prompt_ids and response_ids
};

/// Where a field's properties were first seen, as numbers of lines (0-based): what an error names.
struct FieldOrigin {
  std::int64_t kind = 0;
  std::int64_t trailing = 0;
  std::int64_t dtype = 0;  ///< where integers and reals meet: the first real

  friend bool operator==(const FieldOrigin&, const FieldOrigin&) = default;
};

/// The fields that the rollouts of JSONL files carry beside uid, prompt_ids and response_ids. Every rank
/// infers it from the lines it sees; merging all of them in any order gives the schema of the whole.
///
/// What no line has shown yet is still open: `fields` then holds a stand-in (kind token; float32 elements
/// without trailing dimensions), and the first line that shows more decides. Stand-ins are what a reader uses
/// when nothing ever does.
struct JsonlSchema {
  bool empty = true;                 ///< no line was seen: the identity of merge()
  std::int64_t first_line = 0;       ///< the lowest number of a line that was seen
  std::vector<FieldSpec> fields;     ///< sorted by name; dtypes are bool, int64 and float32
  std::vector<FieldOrigin> origins;  ///< one a field
  /// Fields that may be token or response_token: all prompts were empty, so that both have as many rows.
  std::set<std::string> kind_open;
  std::set<std::string> element_open;  ///< fields of which no element was seen: dtype and trailing are open
  std::map<std::string, std::set<LeftOut>> ignored;  ///< names whose values make no field, and why
  /// Fields with an integer that float32 cannot hold exactly, and the first line that has one. Such a field
  /// must have integers only.
  std::map<std::string, std::int64_t> wide_integers;

  friend bool operator==(const JsonlSchema&, const JsonlSchema&) = default;
};

/// How fields are written that lines alone do not tell, by name. `text` is a text, `bytes` a text that is
/// base64 (RFC 4648, with padding), `rows` a list of any number of rows of one shape. `axes` are one or more
/// lists of numbers, one a token or one a response token, and make a field of a row of all axes for each;
/// `runs` are [value, count], counts from 0 on, which add up to the tokens or to those of the response.
using ToldFormats = std::map<std::string, LineFormat, std::less<>>;

/// The schema of these lines; `lines` are those of scan_lines() with their numbers in all files. `tokens`
/// gets the tokens of each line's sample where it has a place for each, and may be empty.
///
/// A number or boolean makes a `sample` field. A list whose outer length is the sample's tokens makes a
/// `token` field, its response tokens a `response_token` field; lists inside it are trailing dimensions.
/// Integers are int64, any real number makes float32, booleans are bool. Text, null, objects, lists of such,
/// an empty list that fits neither, and a field called input_ids, are ignored. What `told` names is as it
/// says, or an InputError at its line.
///
/// Throws InputError at "PATH:LINE" (1-based) for a malformed line, one without prompt_ids or response_ids, a
/// list of any other length or of unequal rows, and whatever merge() refuses. Throws IoError.
[[nodiscard]] JsonlSchema infer_schema(const LineFiles& files, std::span<const LineRef> lines,
                                       std::span<std::int64_t> tokens = {}, const ToldFormats& told = {});

/// Throws InputError about `source` where `told` names a field that its lines, whose schema this is, have
/// not.
void require_told_fields(const JsonlSchema& schema, const ToldFormats& told, const std::string& source);

/// What both schemas, of lines that are called so, say together. Commutative, associative, idempotent;
/// an empty schema changes nothing. int64 and float32 make float32. Throws InputError when a field is in one
/// and not in the other, when kinds, trailing dimensions, or booleans and numbers clash, or when a real
/// number would round an integer of the other: it names a line of either side and stands at the later one.
[[nodiscard]] JsonlSchema merge(const JsonlSchema& a, const JsonlSchema& b, const LineNames& names);

/// Reasons as words, such as "text, null".
[[nodiscard]] std::string words_for(const std::set<LeftOut>& reasons);

/// The fields that are ignored and why, such as "'chat' (objects), 'solution' (text, null)"; empty when there
/// are none.
[[nodiscard]] std::string ignored_fields(const JsonlSchema& schema);

/// The fields whose kind is open, such as "'advantages', 'turn'"; empty when there are none.
[[nodiscard]] std::string undecided_fields(const JsonlSchema& schema);

/// A field and what is open about it: one entry of a schema.
struct FieldView {
  FieldSpec spec;
  FieldOrigin origin;
  bool kind_open = false;
  bool element_open = false;
  std::optional<std::int64_t> wide_integer = {};  ///< the first line with an integer that float32 rounds
};

/// Adds an entry; names are added in order.
void append(JsonlSchema& schema, FieldView field);

[[nodiscard]] FieldView field_view(const JsonlSchema& schema, std::size_t index);

/// The dtype that holds the elements of both; none when booleans meet numbers.
[[nodiscard]] std::optional<DType> join(DType a, DType b);

/// Whether float32 holds an integer of this magnitude exactly.
[[nodiscard]] constexpr bool is_exact_in_float32(std::uint64_t magnitude) noexcept {
  constexpr int significant_bits = std::numeric_limits<float>::digits;
  constexpr std::uint64_t most_exact = std::uint64_t{1} << significant_bits;  // as all integers below it are
  return magnitude <= most_exact ||
         std::bit_width(magnitude >> std::countr_zero(magnitude)) <= significant_bits;
}
[[nodiscard]] constexpr bool is_exact_in_float32(std::int64_t value) noexcept {
  const auto bits = static_cast<std::uint64_t>(value);
  return is_exact_in_float32(value < 0 ? -bits : bits);
}

/// What to do about a field of which float32 would round an integer.
inline constexpr const char* wide_integer_hint =
    "Write integers only, or leave the field out; a number with a point, such as 5.0, may be rounded";

}  // namespace evenkeel
