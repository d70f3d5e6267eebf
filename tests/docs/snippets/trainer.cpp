// Around the trainer of README.md.
#include <boost/mpi/communicator.hpp>

#include "evenkeel/service/data_service.hpp"

void train(const boost::mpi::communicator& trainers, const bool& training, evenkeel::RaggedBatch (*my_samples)()) {
  @SNIPPET@
}
