#pragma once

#include <algorithm>
#include <boost/mpi/communicator.hpp>
#include <cstdint>
#include <filesystem>
#include <forward_list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "job/output/run_folder.hpp"

namespace evenkeel {

/// Where a run writes what.
struct OutputRequest {
  std::map<RunOutput, std::filesystem::path> folders;
  std::set<std::string>
      profiles;  ///< that dump and results have a folder each for; none when there is one pass
  std::set<std::string> passes;  ///< the profiles of all passes over a step
  std::string configuration;     ///< hash of all settings
  std::string version;           ///< of the program
  bool overwrite = false;
  std::string job;              ///< the name in the job's state; empty: nobody goes on with this run
  std::int64_t first_step = 0;  ///< the step that the run goes on with
};

/// The output folders of one run over all of its ranks. Every rank writes to the dump; rank 0 alone to
/// results, report and trace. A folder may lie on one file system for all ranks or on each node's own: a rank
/// that does not see what another prepared prepares its own.
///
/// What is written to one folder must not look like what is written to another.
class OutputFolders {
 public:
  /// Makes, locks, checks, clears and marks the folders, in this order over all ranks, so that nothing is
  /// removed for a run that is then refused. Collective. Throws IoError on every rank, and leaves every
  /// folder as it was, when one cannot be used.
  OutputFolders(const boost::mpi::communicator& world, OutputRequest request);

  [[nodiscard]] bool have(RunOutput output) const { return request_.folders.contains(output); }
  /// As it was asked for. Precondition: have(output).
  [[nodiscard]] const std::filesystem::path& path_of(RunOutput output) const {
    EVENKEEL_PRECONDITION(cheap, have(output), output);
    return request_.folders.at(output);
  }

  /// How many ranks write their part of the dump to the folder that this rank sees. Precondition: there is
  /// a dump.
  [[nodiscard]] std::int64_t dump_writers() const {
    EVENKEEL_PRECONDITION(cheap, have(RunOutput::dump), world_.rank());
    return std::ranges::count(of_dump_, answers_.at(RunOutput::dump));
  }

  /// Counts files that this rank has written. Local.
  void wrote(RunOutput output, std::int64_t files) { written_[output] += files; }
  /// Marks all folders as complete. Collective. Throws IoError on every rank when one cannot be.
  void complete(std::int64_t steps);

 private:
  [[nodiscard]] bool uses(RunOutput output) const;
  [[nodiscard]] bool is_prepared(RunOutput output);
  [[nodiscard]] bool all_are_prepared();
  void prepare_missing();
  void add(RunOutput output);
  void require_apart() const;
  void warn_of_missing_locks() const;

  const boost::mpi::communicator& world_;
  OutputRequest request_;
  RunMarker marker_;
  std::forward_list<RunFolder> folders_;  // that this rank answers for; the first made goes last
  std::map<RunOutput, RunFolder*> mine_;  // where in them an output goes
  std::map<RunOutput, int> answers_;      // the rank that answers for the folder this rank writes to
  std::vector<int> of_dump_;              // the same of the dump, for every rank; -1 without one
  std::map<RunOutput, std::int64_t> written_;
};

}  // namespace evenkeel
