#include "evenkeel/base/error.hpp"

#include <utility>

#include "base/utf8.hpp"

namespace evenkeel {

std::string to_string(const ErrorReport& report) {
  std::string text;
  if (!report.where.empty()) text += report.where + ": ";
  text += report.message;
  if (report.rank >= 0) text += " (rank " + std::to_string(report.rank) + ")";
  if (!report.hint.empty()) text += (text.ends_with('.') ? " " : ". ") + report.hint;
  return printable(text);  // the text may quote external files, keys and words
}

void throw_error(ErrorReport report) {
  switch (report.kind) {
    case ErrorKind::config:
      throw ConfigError(std::move(report));
    case ErrorKind::input:
      throw InputError(std::move(report));
    case ErrorKind::limit:
      throw LimitError(std::move(report));
    case ErrorKind::mesh:
      throw MeshError(std::move(report));
    case ErrorKind::io:
      throw IoError(std::move(report));
    case ErrorKind::mpi:
      throw MpiError(std::move(report));
    case ErrorKind::end:
      throw EndOfSamples(std::move(report));
    case ErrorKind::none:
      break;
  }
  throw std::logic_error("throw_error was given a report without an error: " + to_string(report));
}

}  // namespace evenkeel
