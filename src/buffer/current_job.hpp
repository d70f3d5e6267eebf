#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "buffer/intake/acceptance.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// The latest job of a buffer, as recorded in the buffer's store.
struct CurrentJob {
  std::int64_t number = 0;  ///< number of the job, counted from 1; 0 if no job has begun
  std::string nonce;  ///< random text that distinguishes jobs with the same number if a backup was restored
  bool has_left = true;  ///< whether the job has left the buffer (Buffer::leave_job()), or no job has begun
  Acceptance acceptance;
  /// Number of the latest event before the job began. Samples with arrival numbers up to this number were not
  /// checked against `acceptance` when they arrived.
  std::int64_t unchecked = 0;

  /// Returns the job after this one, with a new nonce and `last_arrival` as `unchecked`.
  [[nodiscard]] CurrentJob make_next_job(const Acceptance& accepts, std::int64_t last_arrival) const;
};

/// Convert a job to text for the store, and back. parse_job() throws InputError if the text is invalid.
[[nodiscard]] std::string format_job(const CurrentJob& job);
[[nodiscard]] CurrentJob parse_job(const std::string& text);

/// Returns the job's pass, which the job sends with every call. It consists of the job's number and nonce,
/// and a fingerprint of the buffer's rules (json_of_rules()).
[[nodiscard]] std::string pass_of(const CurrentJob& job, std::string_view rules);

/// Throws FencedError if the pass belongs to another job, and RulesError if it belongs to this job but the
/// rules have changed since the job began.
void require_pass(const std::string& pass, const CurrentJob& job, std::string_view rules);

/// Thrown if another job has begun or the buffer has lost its store, so the calling job must end. HTTP status
/// 410.
class FencedError : public InputError {
 public:
  using InputError::InputError;
};

/// Thrown if the buffer's rules have changed since the job began. HTTP status 412.
class RulesError : public InputError {
 public:
  using InputError::InputError;
};

/// Thrown if a job is alive, so another job cannot begin and the live job's steps cannot be changed. HTTP
/// status 423.
class BusyError : public InputError {
 public:
  using InputError::InputError;
};

}  // namespace evenkeel
