#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "buffer/intake/sent_samples.hpp"
#include "buffer/intake/spooled_body.hpp"
#include "io/jsonl/schema.hpp"
#include "stream/event.hpp"

namespace evenkeel {

struct SampleOutline;

/// How the lines of a stream write the field `versions`.
[[nodiscard]] const ToldFormats& stream_formats();
/// That, and what a user tells. Throws ConfigError, at `where`, if that is another format of `versions`.
[[nodiscard]] ToldFormats formats_with(const ToldFormats& told, const std::string& where);
/// For a store and a job: {"a": "axes"}. What reads throws InputError for any other text.
[[nodiscard]] std::string text_of_formats(const ToldFormats& told);
[[nodiscard]] ToldFormats formats_of_text(const std::string& text);
/// For people: "a=axes,b=runs", or "none".
[[nodiscard]] std::string words_of(const ToldFormats& told);

/// A sample of a request that is well formed. What it must be besides is for the ledger to say.
struct ReceivedSample {
  stream::SampleAccepted accepted;  ///< without the bytes that a store needs
  std::string_view body;            ///< what a store keeps of it: its line, or its tensors (SampleForm)
  std::int64_t number = 0;          ///< of its line, or of the sample, 0-based
  std::uint32_t content = 0;        ///< hash of its line or its tensors without their versions
};

/// The samples of one request, checked as those of a file are: all are good, or none is taken.
class ReceivedSamples {
 public:
  /// Lines: rollouts as docs/rollouts.md has them, with `uid`, `index` and `version` or `versions` ([version,
  /// count] runs, of which the oldest counts). `told` says how they write fields; those that it names must be
  /// there, but for versions. Throws InputError at "body:LINE", as reading a file does, and where one of the
  /// keys is missing or no integer, or where version is not the oldest of versions.
  ///
  /// Tensors: ragged samples as docs/formats.md has them, with `uid`, `index` and `version` or `versions` (an
  /// integer a token or a response token). Throws InputError at "body" likewise, for a tensor that would be
  /// no field, and where `told` names more than versions, since tensors are no lines.
  ///
  /// Throws LimitError above 2^20 samples.
  explicit ReceivedSamples(SpooledBody body, SampleForm form = SampleForm::lines,
                           const ToldFormats& told = stream_formats());
  /// Lines that are read by the parser alone, which is slow: the same in all that can be seen.
  [[nodiscard]] static ReceivedSamples parsed(SpooledBody body, const ToldFormats& told = stream_formats());

  [[nodiscard]] SampleForm form() const noexcept { return form_; }
  [[nodiscard]] const std::vector<ReceivedSample>& samples() const noexcept { return samples_; }
  [[nodiscard]] const JsonlSchema& schema() const noexcept { return schema_; }
  /// "body:LINE", or "body, sample NUMBER".
  [[nodiscard]] std::string where(const ReceivedSample& sample) const;

 private:
  struct Unread {};
  ReceivedSamples(Unread, SpooledBody body, SampleForm form) : form_(form), body_(std::move(body)) {}
  [[nodiscard]] std::optional<ReceivedSample> received_of(SampleOutline& outline,
                                                          const JsonlSchema& schema) const;
  bool outline_lines(const ToldFormats& told);
  void parse_lines(const ToldFormats& told);
  void read_tensors();
  void hash_lines();

  SampleForm form_ = SampleForm::lines;
  SpooledBody body_;
  std::vector<std::string> tensors_;  ///< of each sample, where they are tensors
  JsonlSchema schema_;
  std::vector<ReceivedSample> samples_;
};

/// What the samples so far and those of one more request have. While it `may_widen`, fields may become more
/// general, as within a file: integers real, open kinds decided. Throws InputError that names the field.
[[nodiscard]] JsonlSchema joined_schema(const JsonlSchema& so_far, const JsonlSchema& more, bool may_widen);
/// The same of tensors, whose element types never change: only what no sample has shown so far is decided.
[[nodiscard]] JsonlSchema joined_tensor_schema(const JsonlSchema& so_far, const JsonlSchema& more);

/// For a store. What reads throws InputError for a text that is no schema.
[[nodiscard]] std::string text_of_schema(const JsonlSchema& schema, SampleForm form = SampleForm::lines);
[[nodiscard]] JsonlSchema schema_of(const std::string& text);
[[nodiscard]] SampleForm form_of_schema(const std::string& text);

}  // namespace evenkeel
