#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "buffer/intake/acceptance.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// The job that began last at a buffer, as the buffer's store keeps it.
struct CurrentJob {
  std::int64_t number = 0;  ///< counts the jobs that began; 0: none
  std::string nonce;        ///< differs from that of a job with the same number after a backup was restored
  bool has_left = true;     ///< or none has begun
  Acceptance acceptance;
  std::int64_t unchecked = 0;  ///< the last sample that came before it began, and may not be accepted

  /// The next job, which has a nonce of its own.
  [[nodiscard]] CurrentJob next(const Acceptance& accepts, std::int64_t last_arrival) const;
};

/// For a store. Reading throws InputError for a text that is not such a job.
[[nodiscard]] std::string text_of_job(const CurrentJob& job);
[[nodiscard]] CurrentJob job_of_text(const std::string& text);

/// The parameter that each call of the job carries: the job's number and nonce, and a fingerprint of the
/// rules with which it began.
[[nodiscard]] std::string pass_of(const CurrentJob& job, std::string_view rules);

/// Throws FencedError if the pass is not that of this job, and RulesError if its rules were others.
void require_pass(const std::string& pass, const CurrentJob& job, std::string_view rules);

/// Another job has begun since, so that this one must end (410).
class FencedError : public InputError {
 public:
  using InputError::InputError;
};

/// The buffer's rules are not those with which the job began (412).
class RulesError : public InputError {
 public:
  using InputError::InputError;
};

/// Another job is alive (423).
class BusyError : public InputError {
 public:
  using InputError::InputError;
};

}  // namespace evenkeel
