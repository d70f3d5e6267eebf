#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "buffer/intake/received_samples.hpp"
#include "io/files/input_file.hpp"
#include "io/jsonl/schema.hpp"
#include "stream/key.hpp"

namespace evenkeel {

/// Values of fields to add to a stored sample. A request has one line per sample, such as {"uid": "q1",
/// "index": 0, "values": [0.5, 0.25]}.
struct ReceivedFields {
  stream::SampleKey key;
  std::map<std::string, std::string> values;  ///< values as JSON without whitespace, by name of the field
  std::int64_t line = 0;                      ///< 0-based line number in the request

  [[nodiscard]] std::string error_location() const { return "body:" + std::to_string(line + 1); }
};

/// Parses the lines of a request that adds fields. Throws InputError at "body:LINE" if a line is not a JSON
/// object, repeats a key, lacks a uid, an index or fields, or has a field that is not in `late_fields`.
[[nodiscard]] std::vector<ReceivedFields> read_fields(const InputFile& body,
                                                      std::span<const std::string> late_fields);

/// Returns the hash of a field's value, for the detection of repeated values.
[[nodiscard]] std::uint32_t hash_value(std::string_view value);
/// Appends a field to a body to store: the part of a line that defines fields, such as
/// `"reward":1,"values":[0.5]`.
void append_field(std::string& body, const std::string& name, const std::string& value);
/// Returns a sample's line with the fields that were added to it. `fields` is a concatenation of stored
/// bodies of fields, each preceded by a comma.
[[nodiscard]] std::string add_fields_to_line(std::string_view line, std::string_view fields);

/// Lengths of a stored sample, in tokens.
struct SampleLengths {
  std::int64_t prompt = 0;
  std::int64_t response = 0;
};

/// Returns samples with these lengths, zeros as tokens, and the values in `fields`, so that the values can be
/// checked in the same way as values that arrive with samples. Throws InputError or LimitError if the
/// constructor of ReceivedSamples rejects the samples, and InputError if a value does not form a field.
/// Precondition: all elements of `fields` have the same fields.
[[nodiscard]] ReceivedSamples make_samples_with_fields(std::span<const ReceivedFields* const> fields,
                                                       std::span<const SampleLengths> lengths);

/// Returns the part of the schema that describes these fields.
[[nodiscard]] JsonlSchema select_fields(const JsonlSchema& schema, std::span<const std::string> fields);
/// Returns the schema of samples that have the fields of both schemas. Precondition: the schemas have no
/// field in common.
[[nodiscard]] JsonlSchema combine_disjoint_schemas(const JsonlSchema& a, const JsonlSchema& b);
/// Returns the common schema of the fields that were added so far and the fields of one more request. Fields
/// in both schemas are joined as in join_schemas(), which explains `may_widen`. Throws InputError naming the
/// field if they are not compatible.
[[nodiscard]] JsonlSchema join_late_field_schemas(const JsonlSchema& so_far, const JsonlSchema& more,
                                                  bool may_widen);

}  // namespace evenkeel
