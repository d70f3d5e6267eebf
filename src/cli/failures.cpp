#include "cli/failures.hpp"

#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>

#include "base/utf8.hpp"
#include "cli/terminal/terminal.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::cli {
namespace {

constexpr const char* out_of_memory =
    "out of memory: this needs more than the process may have. Samples need less if they are fewer or "
    "shorter, or if the batch is smaller";

}  // namespace

int status_of(const Error& error) noexcept {
  const ErrorKind kind = error.report().kind;
  return kind == ErrorKind::config || kind == ErrorKind::mesh ? wrong_use : failed;
}

std::string describe_foreign_exception() {
  EVENKEEL_PRECONDITION(cheap, std::current_exception() != nullptr);
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return out_of_memory;
  } catch (const std::length_error&) {  // the requested size of a container exceeds the address space
    return out_of_memory;
  } catch (const std::filesystem::filesystem_error& error) {
    return error.path1().string() + ": cannot be examined: " + error.code().message();
  } catch (const std::exception& error) {
    return std::string("internal error: ") + error.what() + ". Please report it";
  } catch (...) {
    return "internal error of unknown kind. Please report it";
  }
}

int report_failure() {
  EVENKEEL_PRECONDITION(cheap, std::current_exception() != nullptr);
  try {
    throw;
  } catch (const Error& error) {
    print_error(error.what());
    return status_of(error);
  } catch (...) {
    print_error(printable(describe_foreign_exception()));
    return failed;
  }
}

}  // namespace evenkeel::cli
