#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <cstdio>
#include <evenkeel/evenkeel.hpp>

// One step of synthetic samples, read from a stream and exchanged between the ranks.
int main(int argc, char** argv) {
  const boost::mpi::environment mpi(argc, argv);
  const boost::mpi::communicator world;
  const evenkeel::Config config =
      evenkeel::parse_config("source: {kind: synthetic, samples: 16}", "consumer");
  evenkeel::SampleStream stream(world, config);
  evenkeel::DataService service(world, config);
  const evenkeel::Step step = service.step(stream.read(0));
  std::printf("%lld samples in %zu micro-batches\n", static_cast<long long>(step.num_samples),
              step.micro_batches.size());
  return step.num_samples == 16 && world.size() == 2 ? 0 : 1;
}
