// wrong lose|read: a program whose second rank leaks memory or branches on an uninitialized value, to verify
// that the checker detects it.

#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <iostream>
#include <memory>
#include <string>

int main(int argc, char** argv) {
  const boost::mpi::environment environment(argc, argv);
  if (boost::mpi::communicator().rank() != 1) return 0;
  std::unique_ptr<int[]> memory(new int[16]);
  if (argc > 1 && argv[1] == std::string("lose")) {
    static_cast<void>(memory.release());
  } else if (memory[static_cast<std::size_t>(argc)] == 7) {
    std::cout << "seven" << std::endl;
  }
  return 0;
}
