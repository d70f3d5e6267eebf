#include "cli/run_on_ranks.hpp"

#include <boost/mpi/environment.hpp>
#include <exception>
#include <iostream>

#include "evenkeel/base/error.hpp"

namespace evenkeel::cli {

int run_on_ranks(const boost::mpi::communicator& world, const std::function<void()>& work) {
  try {
    work();
    return 0;
  } catch (const MpiError& error) {
    std::cerr << "evenkeel: error: " << error.what() << " on rank " << world.rank() << std::endl;
  } catch (const Error& error) {
    // All ranks threw this together. One tells, the others wait until it has.
    if (world.rank() == 0) std::cerr << "evenkeel: error: " << error.what() << std::endl;
    world.barrier();
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "evenkeel: internal error on rank " << world.rank() << ": " << error.what() << std::endl;
  }
  boost::mpi::environment::abort(1);
  return 1;
}

}  // namespace evenkeel::cli
