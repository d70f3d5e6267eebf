#include "mesh/fail_together.hpp"

#include <cxxabi.h>
#include <algorithm>
#include <array>
#include <boost/core/demangle.hpp>
#include <boost/mpi/exception.hpp>
#include <cstdint>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <typeinfo>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

// Reports with this rank travel as those of every rank.
constexpr int every_rank = -2;

ErrorReport out_of_memory() noexcept {
  ErrorReport report;
  report.kind = ErrorKind::limit;
  report.message.assign("out of memory");  // short enough for a string that takes no memory
  try {
    report.hint = "Use a smaller global batch or more ranks";
  } catch (const std::bad_alloc&) {
    // Then without.
  }
  return report;
}

std::string what_was_thrown() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  return "an exception without a text" +
         (type == nullptr ? std::string() : ", of type " + boost::core::demangle(type->name()));
}

ErrorReport describe_current_exception() {
  try {
    throw;
  } catch (const Error& error) {
    return error.report();
  } catch (const boost::mpi::exception& error) {
    return {ErrorKind::mpi, error.routine(), error.what(), "", -1};
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception& error) {
    return {ErrorKind::input, "", error.what(), "", -1};
  } catch (...) {
    return {ErrorKind::input, "", what_was_thrown(), "", -1};
  }
}

/// An error of each kind that can be thrown when there is no memory to make one.
class SpareErrors {
 public:
  SpareErrors() {
    for (std::size_t kind = 1; kind < spares_.size(); ++kind) {
      try {
        throw_error(
            {static_cast<ErrorKind>(kind), "", "out of memory, also for the text of an error", "", -1});
      } catch (...) {
        spares_[kind] = std::current_exception();
      }
    }
  }
  [[noreturn]] void rethrow(ErrorKind kind) const {
    std::rethrow_exception(spares_[static_cast<std::size_t>(kind)]);
  }

 private:
  std::array<std::exception_ptr, static_cast<std::size_t>(ErrorKind::end) + 1> spares_;
};

const SpareErrors spare_errors;  // made while there is memory

/// What travels of a report before its texts.
struct ReportHeader {
  std::int64_t kind = 0;
  std::int64_t rank = -1;
  std::array<std::int64_t, 3> sizes{};  // of where, message and hint
};

// `own` is the root's text. In pieces through memory that is there, so that a rank that cannot keep the text
// takes part all the same.
std::string broadcast_text(const Communicator& comm, const std::string* own, std::int64_t size, int root) {
  std::array<char, 4096> piece;
  std::string text;
  bool is_kept = true;
  for (std::int64_t done = 0; done < size;) {
    const auto bytes = static_cast<std::size_t>(std::min(size - done, std::ssize(piece)));
    if (own != nullptr) own->copy(piece.data(), bytes, static_cast<std::size_t>(done));
    comm.broadcast(std::as_writable_bytes(std::span(piece).first(bytes)), root);
    is_kept = is_kept && !try_locally([&] { text.append(piece.data(), bytes); });
    done += static_cast<std::int64_t>(bytes);
  }
  return text;
}

}  // namespace

void throw_in_any_case(const ErrorReport& report) {
  try {
    throw_error(report);
  } catch (const std::bad_alloc&) {
    spare_errors.rethrow(report.kind);
  }
}

ErrorReport report_current_exception() noexcept {
  EVENKEEL_PRECONDITION(cheap, std::current_exception() != nullptr);
  try {
    return describe_current_exception();
  } catch (...) {
    return out_of_memory();  // what else keeps a text from being copied
  }
}

ErrorReport report_current_exception_of_all() noexcept {
  EVENKEEL_PRECONDITION(cheap, std::current_exception() != nullptr);
  try {
    throw;
  } catch (const Error&) {
    ErrorReport report = report_current_exception();
    report.rank = every_rank;
    return report;
  } catch (...) {
    return report_current_exception();
  }
}

void fail_together(const Communicator& comm, const std::optional<ErrorReport>& mine) {
  const int nobody = comm.size();
  const auto first = static_cast<int>(comm.all_reduce(mine ? comm.rank() : nobody, Extreme::least));
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
  }
  comm.broadcast(header, first);
  ErrorReport report;
  report.kind = static_cast<ErrorKind>(header.kind);
  report.rank = static_cast<int>(header.rank);
  report.where = broadcast_text(comm, own[0], header.sizes[0], first);
  report.message = broadcast_text(comm, own[1], header.sizes[1], first);
  report.hint = broadcast_text(comm, own[2], header.sizes[2], first);
  throw_in_any_case(report);
}

}  // namespace evenkeel
