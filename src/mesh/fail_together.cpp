#include "mesh/fail_together.hpp"

#include <cxxabi.h>
#include <array>
#include <boost/core/demangle.hpp>
#include <boost/mpi/exception.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <typeinfo>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

// Rank number that marks a report as thrown by every rank.
constexpr int every_rank = -2;

std::string describe_unknown_exception() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  return "an exception without a message" +
         (type == nullptr ? std::string() : ", of type " + boost::core::demangle(type->name()));
}

ErrorReport make_current_exception_report() {
  try {
    throw;
  } catch (const Error& error) {
    return error.report();
  } catch (const boost::mpi::exception& error) {
    return {ErrorKind::mpi, error.routine(), error.what(), "", -1};
  } catch (const std::bad_alloc&) {
    return {ErrorKind::limit, "", "out of memory", "Use a smaller global batch or more ranks", -1};
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again)
      return {ErrorKind::input, "", error.what(), "", -1};
    return {ErrorKind::limit, "", "cannot create a thread: " + error.code().message(),
            "Raise the limit on processes and threads (ulimit -u), or use fewer ranks per machine", -1};
  } catch (const std::exception& error) {
    return {ErrorKind::input, "", error.what(), "", -1};
  } catch (...) {
    return {ErrorKind::input, "", describe_unknown_exception(), "", -1};
  }
}

/// Fixed-size part of a report, which is broadcast before its strings.
struct ReportHeader {
  std::int64_t kind = 0;
  std::int64_t rank = -1;
  std::array<std::int64_t, 3> sizes{};  // sizes in bytes of the report's strings: where, message and hint
  std::int64_t samples = 0;
};

// Broadcasts a string of `size` bytes. `own` is the root's string, and null on other ranks.
std::string broadcast_text(const Communicator& comm, const std::string* own, std::int64_t size, int root) {
  std::string text = own == nullptr ? std::string(static_cast<std::size_t>(size), ' ') : *own;
  comm.broadcast(std::as_writable_bytes(std::span(text)), root);
  return text;
}

}  // namespace

void abort_out_of_memory() {
  std::fputs(
      "evenkeel: error: out of memory in a collective call, in which other ranks wait for this one; the "
      "process "
      "ends. Use fewer or shorter samples, a smaller batch or more ranks\n",
      stderr);
  std::_Exit(EXIT_FAILURE);
}

ErrorReport current_exception_report() noexcept {
  EVENKEEL_PRECONDITION(cheap, std::current_exception() != nullptr);
  return make_current_exception_report();
}

ErrorReport replicated_exception_report() noexcept {
  EVENKEEL_PRECONDITION(cheap, std::current_exception() != nullptr);
  try {
    throw;
  } catch (const Error&) {
    ErrorReport report = current_exception_report();
    report.rank = every_rank;
    return report;
  } catch (...) {
    return current_exception_report();
  }
}

void fail_together(const Communicator& comm, const std::optional<ErrorReport>& mine) {
  const int nobody = comm.size();
  const auto first = static_cast<int>(comm.all_reduce(mine ? comm.rank() : nobody, ReduceOp::min));
  if (first != nobody) fail_with_report_of(comm, first, mine);
}

void fail_with_report_of(const Communicator& comm, int first, const std::optional<ErrorReport>& mine) {
  ReportHeader header;
  std::array<const std::string*, 3> own{};
  if (comm.rank() == first) {
    own = {&mine->where, &mine->message, &mine->hint};
    header.kind = static_cast<std::int64_t>(mine->kind);
    header.rank = mine->rank == every_rank ? -1 : first;
    header.sizes = {std::ssize(mine->where), std::ssize(mine->message), std::ssize(mine->hint)};
    header.samples = std::ssize(mine->samples);
  }
  comm.broadcast(header, first);
  ErrorReport report;
  report.kind = static_cast<ErrorKind>(header.kind);
  report.rank = static_cast<int>(header.rank);
  report.where = broadcast_text(comm, own[0], header.sizes[0], first);
  report.message = broadcast_text(comm, own[1], header.sizes[1], first);
  report.hint = broadcast_text(comm, own[2], header.sizes[2], first);
  if (header.samples > 0) {
    if (comm.rank() == first) report.samples = mine->samples;
    report.samples.resize(static_cast<std::size_t>(header.samples));
    comm.broadcast(std::as_writable_bytes(std::span(report.samples)), first);
  }
  throw_error(report);
}

}  // namespace evenkeel
