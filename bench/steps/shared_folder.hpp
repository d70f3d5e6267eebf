#pragma once

#include <unistd.h>

#include <boost/mpi/collectives.hpp>
#include <boost/serialization/string.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include "mesh/fail_together.hpp"

namespace evenkeel::bench {

/// A folder of rank 0 that is deleted, with its contents, along with this object.
class SharedFolder {
 public:
  SharedFolder(const boost::mpi::communicator& world, const std::filesystem::path& parent) : world_(world) {
    std::string path =
        (parent / ("evenkeel-bench-" + std::to_string(static_cast<std::int64_t>(::getpid())))).string();
    boost::mpi::broadcast(world_, path, 0);
    path_ = path;
    run_together(world_, [&] {
      if (world_.rank() == 0) std::filesystem::create_directories(path_);
    });
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  ~SharedFolder() {
    std::error_code ignored;
    if (world_.rank() == 0) std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  const boost::mpi::communicator& world_;
  std::filesystem::path path_;
};

}  // namespace evenkeel::bench
