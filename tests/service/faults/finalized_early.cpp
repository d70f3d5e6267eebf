// finalized_early CALL: finalizes MPI while it has a service, and then makes a call: `step` or `collect` of a
// DataService, `next` or `progress` of Steps. Prints the error on every rank.

#include <mpi.h>

#include <boost/mpi/communicator.hpp>
#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "evenkeel/evenkeel.hpp"

namespace {

using namespace evenkeel;

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const MpiError& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const boost::mpi::communicator world(MPI_COMM_WORLD, boost::mpi::comm_attach);
  DataService service(world, Config{});
  DataService ahead(world, Config{});
  Steps steps = ahead.steps([](std::int64_t) { return RaggedBatch(); }, 2);
  const Step step = service.step(RaggedBatch());
  MPI_Finalize();

  const std::map<std::string, std::function<void()>> calls = {
      {"step", [&] { static_cast<void>(service.step(RaggedBatch())); }},
      {"collect", [&] { static_cast<void>(service.collect(step, StepResults(step.micro_batches.size()))); }},
      {"next", [&] { static_cast<void>(steps.next()); }},
      {"progress", [&] { static_cast<void>(steps.progress()); }}};
  // Prints one string, so mpirun does not mix it with other ranks' output.
  std::cout << "rank " + std::to_string(rank) + " is told: " + error_of(calls.at(argc > 1 ? argv[1] : "")) +
                   "\n"
            << std::flush;
}
