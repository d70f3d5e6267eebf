// A trainer whose samples come from the sources in a configuration: it trains on one step while the next one
// is made.
//
//   mpirun -n 4 streaming_trainer job.yaml

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <boost/mpi/operations.hpp>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <span>

#include "evenkeel/evenkeel.hpp"
#include "evenkeel/source/sample_stream.hpp"

namespace {

using namespace evenkeel;

/// Stands in for forward, backward and the optimizer: the loss of a model that scores a token by its label.
double train_on(const Step& step) {
  double loss = 0;
  for (const MicroBatch& micro_batch : step.micro_batches) {
    const auto labels = micro_batch.tensors.find("labels")->values<std::int64_t>();
    const auto weights = micro_batch.tensors.find("loss_weights")->values<float>();
    for (std::size_t row = 0; row < labels.size(); ++row)
      loss += micro_batch.loss.scale * weights[row] *
              std::log(2.0 + static_cast<double>(std::abs(labels[row]) % 97));
  }
  return loss;
}

void train(const boost::mpi::communicator& world, const Config& config) {
  SampleStream samples(world, config);
  DataService service(world, config);
  Steps steps = service.steps(samples);
  while (const std::optional<Step> step = steps.next()) {
    const double sum = boost::mpi::all_reduce(world, train_on(*step), std::plus<>());
    const double loss = sum / service.mesh().grid().sizes().dp;
    if (world.rank() == 0)
      std::printf("step %lld: %lld samples, loss %.9f\n", static_cast<long long>(step->index),
                  static_cast<long long>(step->num_samples), loss);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const boost::mpi::environment mpi(argc, argv, boost::mpi::threading::multiple);
  const boost::mpi::communicator world;
  const auto arguments = std::span(argv, static_cast<std::size_t>(argc));
  if (arguments.size() != 2) {
    if (world.rank() == 0) std::fprintf(stderr, "usage: streaming_trainer CONFIG\n");
    return 2;
  }
  try {
    const Config config = load_config(arguments[1]);
    train(world, config);
  } catch (const Error& error) {
    // Every rank throws the same error.
    if (world.rank() == 0) std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
