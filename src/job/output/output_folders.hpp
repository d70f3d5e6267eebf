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

/// The outputs written by a run, and their folders.
struct OutputRequest {
  std::map<RunOutput, std::filesystem::path> folders;
  /// Profiles with separate folders for the dump and the results; empty if there is only one pass.
  std::set<std::string> profiles;
  std::set<std::string> passes;  ///< the profiles of all passes over a step
  std::string configuration;     ///< hash of all settings
  std::string version;           ///< version of the program
  bool overwrite = false;
  std::string job;  ///< name stored in the job's state; empty if later runs must not continue this run
  std::int64_t first_step = 0;  ///< first step of this run; not 0 if it continues a job
};

/// The output folders of one run, for all of its ranks. Every rank writes to the dump; only rank 0 writes to
/// results, report and trace. A folder may be on a file system shared by all ranks or separate on each node:
/// a rank that does not see the folder prepared by another rank prepares its own.
///
/// Refuses outputs whose files a reader would mistake for those of another output: results in or below the
/// dump's folder, and an output inside another output's folder for a step or profile.
class OutputFolders {
 public:
  /// Creates, locks and checks the folders. After all ranks have done so, clears and marks the folders.
  /// Therefore, no file is removed for a run that is then refused. Collective. If a folder cannot be used,
  /// throws IoError (or InputError, for a marker that is not a regular file) on every rank and leaves every
  /// folder unchanged.
  OutputFolders(const boost::mpi::communicator& world, OutputRequest request);

  [[nodiscard]] bool has(RunOutput output) const { return request_.folders.contains(output); }
  /// Returns the path that was requested. Precondition: has(output).
  [[nodiscard]] const std::filesystem::path& path_of(RunOutput output) const {
    EVENKEEL_PRECONDITION(cheap, has(output), output);
    return request_.folders.at(output);
  }

  /// Returns the number of ranks that write their part of the dump to the folder seen by this rank.
  /// Precondition: has(RunOutput::dump).
  [[nodiscard]] std::int64_t num_dump_writers() const {
    EVENKEEL_PRECONDITION(cheap, has(RunOutput::dump), world_.rank());
    return std::ranges::count(dump_managers_, managers_.at(RunOutput::dump));
  }

  /// Adds `files` to the number of files that this rank has written for `output`. Local.
  void add_written_files(RunOutput output, std::int64_t files) { written_[output] += files; }
  /// Marks all folders as complete. Collective. Throws IoError on every rank if one cannot be marked.
  void complete(std::int64_t steps);

 private:
  [[nodiscard]] bool is_written_here(RunOutput output) const;
  [[nodiscard]] bool find_manager(RunOutput output);
  [[nodiscard]] bool find_all_managers();
  void prepare_missing();
  void claim_folder(RunOutput output);
  void require_separate_folders() const;
  void warn_about_missing_locks() const;

  const boost::mpi::communicator& world_;
  OutputRequest request_;
  RunMarker marker_;
  // Folders that this rank manages; the first one created is destroyed last.
  std::forward_list<RunFolder> folders_;
  std::map<RunOutput, RunFolder*> managed_;  // the folder of each output, if this rank manages it
  // For each output, the rank that manages the folder to which this rank writes it.
  std::map<RunOutput, int> managers_;
  std::vector<int> dump_managers_;  // by rank, the rank that manages its dump folder; -1 without a dump
  std::map<RunOutput, std::int64_t> written_;
};

}  // namespace evenkeel
