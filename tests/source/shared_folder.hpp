#pragma once

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/serialization/string.hpp>
#include <filesystem>
#include <functional>
#include <string>

#include "evenkeel/config/config.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel::test {

/// A folder for all ranks. It is removed after all ranks are done.
class SharedFolder {
 public:
  /// Lets rank 0 fill the folder first.
  explicit SharedFolder(const std::function<void(const std::filesystem::path&)>& fill = {}) {
    std::string path;
    if (world_.rank() == 0) {
      path = scratch_.path().string();
      if (fill) fill(scratch_.path());
    }
    boost::mpi::broadcast(world_, path, 0);
    path_ = path;
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  ~SharedFolder() { world_.barrier(); }

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] SourceSettings source(SourceKind kind, const std::string& pattern) const {
    SourceSettings source;
    source.kind = kind;
    source.path = path_ / pattern;
    return source;
  }

 private:
  boost::mpi::communicator world_;
  testing_support::ScratchFolder scratch_;
  std::filesystem::path path_;
};

}  // namespace evenkeel::test
