#pragma once

#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel::cli {

/// Exit statuses beside 0: the command line or the configuration is wrong; or the work failed.
inline constexpr int wrong_use = 2;
inline constexpr int failed = 1;

/// The exit status of a program that `error` ends: a mesh that does not fit is a wrong configuration, too.
[[nodiscard]] int status_of(const Error& error) noexcept;

/// What `load` returns. That a configuration file cannot be read is a ConfigError here, since the command
/// line names it; all else is thrown as it is.
template <typename Load>
[[nodiscard]] auto loaded(Load&& load) {
  try {
    return load();
  } catch (const IoError& error) {
    ErrorReport report = error.report();
    report.kind = ErrorKind::config;
    throw_error(std::move(report));
  }
}

/// What is wrong with the exception being handled, which is not Evenkeel's. Precondition: called inside a
/// catch block.
[[nodiscard]] std::string text_of_foreign_exception();

/// Tells the exception being handled in one line and returns the exit status. Precondition: called inside a
/// catch block.
[[nodiscard]] int tell_failure();

}  // namespace evenkeel::cli
