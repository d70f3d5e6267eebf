#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "buffer/intake/request_body.hpp"
#include "buffer/intake/sample_bodies.hpp"
#include "io/jsonl/schema.hpp"
#include "stream/event.hpp"

namespace evenkeel {

struct SampleOutline;

/// Returns the formats that every stream has: the format of the field `versions`.
[[nodiscard]] const DeclaredFormats& stream_formats();
/// Returns stream_formats() with the formats declared by a user. Throws ConfigError, at `where`, if the user
/// declares a different format for `versions`.
[[nodiscard]] DeclaredFormats add_stream_formats(const DeclaredFormats& declared, const std::string& where);
/// Converts formats to text for stores and jobs, such as {"a": "axes"}, and back. The parser throws
/// InputError for other text.
[[nodiscard]] std::string serialize_formats(const DeclaredFormats& declared);
[[nodiscard]] DeclaredFormats parse_formats(const std::string& text);
/// Returns the formats for messages, such as "a=axes,b=runs"; "none" if there are none.
[[nodiscard]] std::string describe_formats(const DeclaredFormats& declared);

/// A well-formed sample of a request. The ledger checks further conditions.
struct ReceivedSample {
  stream::SampleAccepted accepted;  ///< without `bytes` and `content`
  std::string_view body;            ///< bytes to store: the sample's line, or a safetensors file (SampleForm)
  std::int64_t number = 0;    ///< number of its line in the request or, for tensors, of the sample; 0-based
  std::uint32_t content = 0;  ///< hash of its line or tensors without their versions
};

/// The samples of one request, checked like those of a file: either all are valid, or an error is thrown.
class ReceivedSamples {
 public:
  /// Lines: rollouts as in docs/rollouts.md, with `uid`, `index`, and `version` or `versions` ([version,
  /// count] runs, of which the oldest version counts). `declared` declares formats of fields; the declared
  /// fields, except versions, must be present. Throws InputError at "body:LINE" for the same reasons as a
  /// file reader, and if one of these keys is missing or not an integer, or `version` is not the oldest of
  /// `versions`.
  ///
  /// Tensors: ragged samples as in docs/formats.md, with `uid`, `index`, and `version` or `versions` (one
  /// integer per token or per response token). Throws InputError at "body" for the same reasons, for a tensor
  /// that does not form a field, and if `declared` declares fields other than versions, since formats apply
  /// to lines only.
  ///
  /// Throws LimitError for more than 2^20 samples.
  explicit ReceivedSamples(RequestBody body, SampleForm form = SampleForm::lines,
                           const DeclaredFormats& declared = stream_formats());
  /// Reads lines with the slow parser only. Produces the same result as the constructor. For tests.
  [[nodiscard]] static ReceivedSamples parse_body(RequestBody body,
                                                  const DeclaredFormats& declared = stream_formats());

  [[nodiscard]] SampleForm form() const noexcept { return form_; }
  [[nodiscard]] const std::vector<ReceivedSample>& samples() const noexcept { return samples_; }
  [[nodiscard]] const JsonlSchema& schema() const noexcept { return schema_; }
  /// Returns "body:LINE" or "body, sample NUMBER".
  [[nodiscard]] std::string where(const ReceivedSample& sample) const;

 private:
  struct NotYetRead {};
  ReceivedSamples(NotYetRead, RequestBody body, SampleForm form) : form_(form), body_(std::move(body)) {}
  [[nodiscard]] std::optional<ReceivedSample> make_received_sample(SampleOutline& outline,
                                                                   const JsonlSchema& schema) const;
  bool outline_lines(const DeclaredFormats& declared);
  void parse_lines(const DeclaredFormats& declared);
  void read_tensors();
  void hash_lines();

  SampleForm form_ = SampleForm::lines;
  RequestBody body_;
  std::vector<std::string> tensors_;  ///< per sample, if the form is tensors
  JsonlSchema schema_;
  std::vector<ReceivedSample> samples_;
};

/// Returns the common schema of the samples so far and those of one more request. If `may_widen`, fields may
/// become more general, as within a file: integers become real, and open kinds are decided. Throws InputError
/// naming the field if the schemas are not compatible.
[[nodiscard]] JsonlSchema join_schemas(const JsonlSchema& so_far, const JsonlSchema& more, bool may_widen);
/// Same as join_schemas() for tensors, whose element types never change: only open properties are decided.
[[nodiscard]] JsonlSchema join_tensor_schemas(const JsonlSchema& so_far, const JsonlSchema& more);

/// Converts a schema to text for a store, and back. parse_schema() throws InputError for invalid text.
[[nodiscard]] std::string serialize_schema(const JsonlSchema& schema, SampleForm form = SampleForm::lines);
[[nodiscard]] JsonlSchema parse_schema(const std::string& text);
[[nodiscard]] SampleForm parse_sample_form(const std::string& text);

}  // namespace evenkeel
