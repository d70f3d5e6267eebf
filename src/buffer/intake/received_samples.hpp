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
/// Returns stream_formats() with the formats declared by a user. Throws ConfigError about `where` if the user
/// declares a different format for `versions`.
[[nodiscard]] DeclaredFormats add_stream_formats(const DeclaredFormats& declared, const std::string& where);
/// Convert formats to text for stores and jobs, such as {"a": "axes"}, and back. parse_formats() throws
/// InputError if the text is invalid.
[[nodiscard]] std::string serialize_formats(const DeclaredFormats& declared);
[[nodiscard]] DeclaredFormats parse_formats(const std::string& text);
/// Returns the formats for messages, such as "a=axes,b=runs"; "none" if `declared` is empty.
[[nodiscard]] std::string describe_formats(const DeclaredFormats& declared);

/// A well-formed sample of a request. The ledger checks further conditions.
struct ReceivedSample {
  stream::SampleAccepted accepted;  ///< event to record, in which `bytes` and `content` are not set yet
  std::string_view body;            ///< bytes to store: the sample's line, or a safetensors file (SampleForm)
  /// 0-based index within the request: of the line, or of the sample if the body contains tensors.
  std::int64_t number = 0;
  std::uint32_t content = 0;  ///< hash of the line or the tensors, excluding versions
};

/// The samples of one request, checked in the same way as the samples of a file.
class ReceivedSamples {
 public:
  /// Reads the samples of a request. `declared` has the formats of fields; all samples must have these
  /// fields, except `versions`. A sample must also have `uid`, `index`, and `version` or `versions`. If it
  /// has `versions`, the oldest of them is its version.
  ///
  /// SampleForm::lines: rollouts as in docs/rollouts.md. `versions` is a list of [version, count] runs.
  /// Throws InputError at "body:LINE" for the same errors as a file reader, if a required key is missing or
  /// has a wrong type, or if `version` is not the oldest of `versions`.
  ///
  /// SampleForm::tensors: ragged samples as in docs/formats.md. `versions` has one integer per token or per
  /// response token. Throws InputError at "body" for the same errors, for a tensor that does not form a
  /// field, and if `declared` has fields other than `versions`, since formats apply only to lines.
  ///
  /// Throws LimitError if the request has more than 2^20 samples.
  explicit ReceivedSamples(RequestBody body, SampleForm form = SampleForm::lines,
                           const DeclaredFormats& declared = stream_formats());
  /// Reads lines with the slow parser only. Returns the same result as the constructor. For tests.
  [[nodiscard]] static ReceivedSamples parse_without_outlines(
      RequestBody body, const DeclaredFormats& declared = stream_formats());

  [[nodiscard]] SampleForm form() const noexcept { return form_; }
  [[nodiscard]] const std::vector<ReceivedSample>& samples() const noexcept { return samples_; }
  [[nodiscard]] const JsonlSchema& schema() const noexcept { return schema_; }
  /// Returns the place of the sample for errors: "body:LINE" or "body, sample NUMBER".
  [[nodiscard]] std::string error_location(const ReceivedSample& sample) const;

 private:
  struct NotYetRead {};
  ReceivedSamples(NotYetRead, RequestBody body, SampleForm form) : form_(form), body_(std::move(body)) {}
  [[nodiscard]] std::optional<ReceivedSample> make_received_sample(SampleOutline& outline,
                                                                   const JsonlSchema& schema) const;
  bool try_outline_lines(const DeclaredFormats& declared);
  void parse_lines(const DeclaredFormats& declared);
  void read_tensors();
  void hash_and_check_lines();

  SampleForm form_ = SampleForm::lines;
  RequestBody body_;
  std::vector<std::string> tensors_;  ///< bodies of the samples if their form is SampleForm::tensors
  JsonlSchema schema_;
  std::vector<ReceivedSample> samples_;
};

/// Returns the common schema of the samples so far and the samples of one more request. If `may_widen`,
/// fields in `so_far` may become more general, as within a file: integers may become real numbers, and open
/// kinds may be decided. Throws InputError naming the field if the schemas are not compatible.
[[nodiscard]] JsonlSchema join_schemas(const JsonlSchema& so_far, const JsonlSchema& more, bool may_widen);
/// Like join_schemas(), but for tensors, whose element types never change: only open properties are decided.
[[nodiscard]] JsonlSchema join_tensor_schemas(const JsonlSchema& so_far, const JsonlSchema& more);

/// Convert a schema and the form of samples to text for a store, and back. parse_schema() throws InputError
/// if the text is invalid.
[[nodiscard]] std::string serialize_schema(const JsonlSchema& schema, SampleForm form = SampleForm::lines);
[[nodiscard]] JsonlSchema parse_schema(const std::string& text);
[[nodiscard]] SampleForm parse_sample_form(const std::string& text);

}  // namespace evenkeel
