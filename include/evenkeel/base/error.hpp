#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "evenkeel/base/ids.hpp"

namespace evenkeel {

/// Kind of an error, by which callers may want to distinguish errors. The values are sent between ranks.
enum class ErrorKind : std::uint8_t {
  none = 0,  ///< no error; never thrown
  config,    ///< a configuration key or command-line value is unknown, malformed or inconsistent
  input,     ///< input data is malformed: a bad line, a negative token, mismatched shapes
  limit,     ///< data is well formed but breaks a stated limit, such as a sample longer than the cap
  mesh,      ///< the process grid does not fit the world
  io,        ///< a file or folder cannot be opened, read or written
  mpi,       ///< an MPI call failed
  end,       ///< not an error: there are no more samples, so no step was made
};

/// An error with everything that a user needs in order to act, and that another rank needs in order to throw
/// the same error. A plain value, which can be serialized.
struct ErrorReport {
  ErrorKind kind = ErrorKind::none;
  std::string where;    ///< the place: a file and line, a configuration key, or an argument; may be empty
  std::string message;  ///< what is wrong, with the offending value and the violated limit
  std::string hint;     ///< what to do about it; may be empty
  int rank = -1;        ///< world rank that found the error; -1 if every rank found it in replicated data
  /// Samples whose numbers appear in the texts. Code that knows the samples' names can add the names.
  std::vector<SampleId> samples = {};

  friend bool operator==(const ErrorReport&, const ErrorReport&) = default;
};

/// Adds a source's names for samples to a report that contains their numbers.
using NamesInErrors = std::function<ErrorReport(ErrorReport)>;

/// Returns the line that a user reads, made printable(): where, a colon, the message, the rank in
/// parentheses, a period, and the hint, without empty parts.
std::string to_string(const ErrorReport& report);

/// Base of all exceptions for bad input, bad configuration and failed MPI calls. Broken internal invariants
/// are assertions, not exceptions.
class Error : public std::runtime_error {
 public:
  explicit Error(ErrorReport report) : std::runtime_error(to_string(report)), report_(std::move(report)) {}

  [[nodiscard]] const ErrorReport& report() const noexcept { return report_; }

 private:
  ErrorReport report_;
};

/// The exception type for one kind of error. Callers can catch just the kinds that they can handle.
template <ErrorKind Kind>
class ErrorOf : public Error {
 public:
  explicit ErrorOf(ErrorReport report) : Error(with_kind(std::move(report))) {}
  ErrorOf(std::string where, std::string message, std::string hint = {})
      : Error({Kind, std::move(where), std::move(message), std::move(hint), -1}) {}
  /// Makes an error about a sample that is known only by its number.
  template <std::same_as<SampleId> Sample>  // so that {} is a text
  ErrorOf(Sample sample, std::string message, std::string hint = {})
      : Error({Kind,
               "sample " + std::to_string(sample.value()),
               std::move(message),
               std::move(hint),
               -1,
               {sample}}) {}

 private:
  static ErrorReport with_kind(ErrorReport report) {
    report.kind = Kind;
    return report;
  }
};

using ConfigError = ErrorOf<ErrorKind::config>;
using InputError = ErrorOf<ErrorKind::input>;
using LimitError = ErrorOf<ErrorKind::limit>;
using MeshError = ErrorOf<ErrorKind::mesh>;
using IoError = ErrorOf<ErrorKind::io>;
using MpiError = ErrorOf<ErrorKind::mpi>;
/// Thrown by a reader in place of the samples of a step if there are no more samples. The previous step is
/// then the last one. A DataService throws it on every rank.
using EndOfSamples = ErrorOf<ErrorKind::end>;

/// Throws the exception type of `report.kind`. All ranks use this to throw an error found by one of them. If
/// the report does not contain an error, throws std::logic_error.
[[noreturn]] void throw_error(ErrorReport report);

}  // namespace evenkeel
