// trainer FAULT: a program that embeds Evenkeel, with MPI used by one thread only. FAULT decides what rank 1
// does while the others continue; without the watchdog, they would wait forever.
//
//   throw  throws between a step and collecting its results, catches the exception and exits
//   skip   skips the second step, as if it had no more data
//   sleep  sleeps forever between two steps

#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "evenkeel/evenkeel.hpp"

namespace {

using namespace evenkeel;

constexpr double limit = 2;

std::unique_ptr<Watchdog> watch(const boost::mpi::communicator& world) {
  WatchdogSettings settings;
  settings.seconds = limit;
  settings.report = [](const WatchdogReport& report) { std::cerr << report.text() << std::endl; };
  settings.terminate = [](const WatchdogReport&) { std::_Exit(3); };
  return std::make_unique<Watchdog>(world, settings);
}

void train(const boost::mpi::communicator& world, const std::string& fault) {
  DataService service(world, Config{});
  const bool fails = world.rank() == 1;
  for (int i = 0; i < 2; ++i) {
    if (fails && i == 1 && fault == "skip") return;
    if (fails && i == 1 && fault == "sleep") std::this_thread::sleep_for(std::chrono::hours(1));
    const Step step = service.step(RaggedBatch());  // without samples
    if (fails && fault == "throw") throw std::runtime_error("the loss is not a number");
    static_cast<void>(service.collect(step, StepResults(step.micro_batches.size())));
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::unique_ptr<Watchdog> watchdog;  // outlives MPI
  const boost::mpi::environment environment(argc, argv);
  const boost::mpi::communicator world;
  watchdog = watch(world);
  try {
    train(world, argc > 1 ? argv[1] : "");
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "rank " << world.rank() << ": " << error.what() << std::endl;
    return 1;
  }
}
