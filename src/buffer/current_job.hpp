#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "buffer/intake/acceptance.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// The latest job of a buffer, as kept in the buffer's store.
struct CurrentJob {
  std::int64_t number = 0;  ///< number of jobs begun so far; 0 if none
  std::string nonce;     ///< distinguishes jobs with the same number before and after a backup was restored
  bool has_left = true;  ///< also true if no job has begun
  Acceptance acceptance;
  /// Number of the latest event before the job began. Samples with arrival numbers up to this one were not
  /// checked against `acceptance` when they arrived.
  std::int64_t unchecked = 0;

  /// Returns the next job, with a new nonce and `last_arrival` as `unchecked`.
  [[nodiscard]] CurrentJob next(const Acceptance& accepts, std::int64_t last_arrival) const;
};

/// Converts a job to text for the store, and back. parse_job() throws InputError for invalid text.
[[nodiscard]] std::string format_job(const CurrentJob& job);
[[nodiscard]] CurrentJob parse_job(const std::string& text);

/// Returns the job's pass, which every call of the job has as a parameter: the job's number and nonce, and a
/// fingerprint of the buffer's rules (json_of_rules()).
[[nodiscard]] std::string pass_of(const CurrentJob& job, std::string_view rules);

/// Throws FencedError if the pass belongs to another job, and RulesError if it belongs to this job but the
/// rules have changed since the job began.
void require_pass(const std::string& pass, const CurrentJob& job, std::string_view rules);

/// Another job has begun in the meantime, so this job must end. HTTP status 410.
class FencedError : public InputError {
 public:
  using InputError::InputError;
};

/// The buffer's rules differ from those with which the job began. HTTP status 412.
class RulesError : public InputError {
 public:
  using InputError::InputError;
};

/// A job is alive, so no other job can begin or change its steps. HTTP status 423.
class BusyError : public InputError {
 public:
  using InputError::InputError;
};

}  // namespace evenkeel
