#pragma once

#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel::cli {

/// Exit statuses other than 0: `wrong_use` if the command line or the configuration is wrong, `failed` if the
/// work failed.
inline constexpr int wrong_use = 2;
inline constexpr int failed = 1;

/// Returns the exit status of a program that ends with `error`. A mesh that does not fit the number of ranks
/// also counts as a wrong configuration.
[[nodiscard]] int status_of(const Error& error) noexcept;

/// Returns the result of `load`. Converts IoError to ConfigError, since a configuration file that cannot be
/// read is an error of the command line. Does not change other exceptions.
template <typename Load>
[[nodiscard]] auto convert_load_errors(Load&& load) {
  try {
    return load();
  } catch (const IoError& error) {
    ErrorReport report = error.report();
    report.kind = ErrorKind::config;
    throw_error(std::move(report));
  }
}

/// Returns a message for the exception being handled. Precondition: called inside a catch block for an
/// exception that is not an Error.
[[nodiscard]] std::string describe_foreign_exception();

/// Prints the exception being handled in one line, and returns the exit status. Precondition: called inside a
/// catch block.
[[nodiscard]] int report_failure();

}  // namespace evenkeel::cli
