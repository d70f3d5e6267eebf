#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "buffer/intake/spooled_body.hpp"
#include "io/jsonl/schema.hpp"
#include "stream/event.hpp"

namespace evenkeel {

/// A sample of a request that is well formed. What it must be besides is for the ledger to say.
struct ReceivedSample {
  stream::SampleAccepted accepted;  ///< without the bytes that a store needs
  std::string_view line;            ///< as it was sent, for a store
  std::int64_t number = 0;          ///< of the line, 0-based
};

/// The samples of one request, checked as those of a file are: all are good, or none is taken.
class ReceivedSamples {
 public:
  /// Rollouts as JSON lines, as docs/rollouts.md has them, with `uid`, `index` and `version` or `versions`
  /// ([version, count] runs, of which the oldest counts). Throws InputError at "body:LINE", as reading a file
  /// does, and where one of these keys is missing or no integer, or where version is not the oldest of
  /// versions. Throws LimitError above 2^20 samples.
  explicit ReceivedSamples(SpooledBody body);

  [[nodiscard]] const std::vector<ReceivedSample>& samples() const noexcept { return samples_; }
  [[nodiscard]] const JsonlSchema& schema() const noexcept { return schema_; }
  /// "body:LINE"
  [[nodiscard]] static std::string where(const ReceivedSample& sample);

 private:
  SpooledBody body_;
  JsonlSchema schema_;
  std::vector<ReceivedSample> samples_;
};

/// How the lines of a stream write the field `versions`.
[[nodiscard]] const ToldFormats& stream_formats();

/// What the samples so far and those of one more request have. While it `may_widen`, fields may become more
/// general, as within a file: integers real, open kinds decided. Throws InputError that names the field.
[[nodiscard]] JsonlSchema joined_schema(const JsonlSchema& so_far, const JsonlSchema& more, bool may_widen);

/// For a store. `schema_of` throws InputError for a text that is no schema.
[[nodiscard]] std::string text_of_schema(const JsonlSchema& schema);
[[nodiscard]] JsonlSchema schema_of(const std::string& text);

}  // namespace evenkeel
