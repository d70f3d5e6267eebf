// Around the prefetching trainer of docs/micro-batches.md.
#include <boost/mpi/communicator.hpp>

#include "evenkeel/service/data_service.hpp"
#include "evenkeel/service/prefetcher.hpp"

void train(const boost::mpi::communicator& trainers, const evenkeel::Config& config, std::int64_t num_steps,
           evenkeel::RaggedBatch (*my_samples)(std::int64_t)) {
  @SNIPPET@
}
