#include "evenkeel/mesh/fail_together.hpp"

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/exception.hpp>
#include <boost/mpi/operations.hpp>
#include <new>

#include "evenkeel/mesh/error_serialization.hpp"

namespace evenkeel {

ErrorReport report_current_exception() {
  try {
    throw;
  } catch (const Error& error) {
    return error.report();
  } catch (const boost::mpi::exception& error) {
    return {ErrorKind::mpi, error.routine(), error.what(), "", -1};
  } catch (const std::bad_alloc&) {
    return {ErrorKind::limit, "", "out of memory", "Use a smaller global batch or more ranks", -1};
  } catch (const std::exception& error) {
    return {ErrorKind::input, "", error.what(), "", -1};
  } catch (...) {
    return {ErrorKind::input, "", "unknown error", "", -1};
  }
}

void fail_together(const boost::mpi::communicator& comm, const std::optional<ErrorReport>& mine) {
  const int nobody = comm.size();
  const int first = boost::mpi::all_reduce(comm, mine ? comm.rank() : nobody, boost::mpi::minimum<int>());
  if (first == nobody) return;
  ErrorReport report;
  if (comm.rank() == first) {
    report = *mine;
    report.rank = first;
  }
  boost::mpi::broadcast(comm, report, first);
  throw_error(std::move(report));
}

}  // namespace evenkeel
