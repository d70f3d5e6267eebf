#include "job/output/output_folders.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <utility>
#include <vector>

#include "base/activity.hpp"
#include "evenkeel/base/error.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel {
namespace {

namespace fs = std::filesystem;

std::string option_of(RunOutput output) {
  return "--" + std::string(name_of(output));
}

/// Returns the relative path from `outer` to `inner`; empty if `inner` is not below `outer`.
fs::path relative_path_inside(const fs::path& outer, const fs::path& inner) {
  const fs::path way = inner.lexically_relative(outer);
  return way.empty() || way == "." || *way.begin() == ".." ? fs::path() : way;
}

}  // namespace

OutputFolders::OutputFolders(const boost::mpi::communicator& world, OutputRequest request)
    : world_(world), request_(std::move(request)) {
  if (request_.folders.empty()) return;
  const Phase phase("prepare output folders");
  marker_.version = request_.version;
  run_together(world_, [&] { marker_.by = new_identity(world_.rank()); });
  {
    const Waiting waiting("MPI_Bcast");
    boost::mpi::broadcast(world_, marker_.by.run, 0);
    boost::mpi::broadcast(world_, marker_.by.started, 0);
  }
  marker_.job = request_.job;
  marker_.first_step = request_.first_step;
  marker_.configuration = request_.configuration;
  marker_.ranks = world_.size();
  marker_.profiles = request_.profiles;
  marker_.passes = request_.passes;
  // One rank at a time, beginning with rank 0, prepares folders, and only then do all ranks look for theirs.
  // Otherwise, a network file system could cache that a folder does not exist. The next rank to prepare
  // folders is the lowest one that has not found its own.
  for (int next = 0; next < world_.size();) {
    run_together(world_, [&] {
      if (world_.rank() == next) prepare_missing();
    });
    const bool done = run_together(world_, [&] { return find_all_managers(); });
    const Waiting waiting("MPI_Allreduce");
    next = boost::mpi::all_reduce(world_, done ? world_.size() : world_.rank(), boost::mpi::minimum<int>());
  }
  {
    const Waiting waiting("MPI_Allgather");
    boost::mpi::all_gather(world_, is_written_here(RunOutput::dump) ? managers_.at(RunOutput::dump) : -1,
                           dump_managers_);
  }
  run_together(world_, [&] {
    for (RunFolder& folder : folders_) folder.clear_and_mark_running();
  });
  warn_about_missing_locks();
}

void OutputFolders::complete(std::int64_t steps) {
  if (request_.folders.empty()) return;
  const Phase phase("complete output folders");
  std::vector<std::int64_t> dumped;
  {
    const Waiting waiting("MPI_Allgather");
    boost::mpi::all_gather(world_, written_[RunOutput::dump], dumped);
  }
  std::int64_t of_mine = 0;
  for (std::size_t rank = 0; rank < dumped.size(); ++rank)
    of_mine += dump_managers_[rank] == world_.rank() ? dumped[rank] : 0;
  run_together(world_, [&] {
    for (RunFolder& folder : folders_) {
      std::map<RunOutput, std::int64_t> files;
      for (const auto& [output, place] : managed_) {
        if (place == &folder) files[output] = output == RunOutput::dump ? of_mine : written_[output];
      }
      folder.complete(steps, files);
    }
  });
}

bool OutputFolders::is_written_here(RunOutput output) const {
  return request_.folders.contains(output) && (output == RunOutput::dump || world_.rank() == 0);
}

// Returns whether this run has prepared the folder that this rank sees at the requested path.
bool OutputFolders::find_manager(RunOutput output) {
  if (!is_written_here(output) || managers_.contains(output)) return true;
  const std::optional<RunIdentity> holder = read_lock_identity(request_.folders.at(output));
  if (!holder || holder->run != marker_.by.run) return false;
  managers_[output] = holder->rank;
  return true;
}

bool OutputFolders::find_all_managers() {
  return std::ranges::all_of(request_.folders,
                             [&](const auto& folder) { return find_manager(folder.first); });
}

void OutputFolders::prepare_missing() {
  for (const auto& [output, path] : request_.folders) {
    if (is_written_here(output) && !managers_.contains(output)) claim_folder(output);
  }
  require_separate_folders();
  for (RunFolder& folder : folders_) folder.require_free(request_.overwrite);
}

void OutputFolders::claim_folder(RunOutput output) {
  RunFolder& folder = folders_.emplace_front(request_.folders.at(output), option_of(output), marker_);
  const auto same = std::ranges::find_if(folders_, [&](const RunFolder& other) {
    return &other != &folder && other.canonical_path() == folder.canonical_path();
  });
  RunFolder* place = &folder;
  if (same != folders_.end()) {
    place = &*same;
    folders_.pop_front();
  } else if (!folder.lock()) {
    folders_.pop_front();
    managers_[output] = read_lock_identity(request_.folders.at(output)).value_or(marker_.by).rank;
    return;
  }
  place->add(output);
  managed_[output] = place;
  managers_[output] = world_.rank();
}

// Rejects an output inside the layout of another one, since readers of a dump treat every safetensors file
// below the dump's folder as a micro-batch.
void OutputFolders::require_separate_folders() const {
  for (const auto& [outer_output, outer] : managed_) {
    for (const auto& [inner_output, inner] : managed_) {
      const fs::path way = relative_path_inside(outer->canonical_path(), inner->canonical_path());
      const bool results_in_dump = outer_output == RunOutput::dump && inner_output == RunOutput::results &&
                                   (inner == outer || !way.empty());
      const bool in_layout = !way.empty() && (is_step_folder(way.begin()->string()) ||
                                              request_.profiles.contains(way.begin()->string()));
      if (!results_in_dump && !in_layout) continue;
      throw IoError(
          request_.folders.at(inner_output).string(),
          option_of(inner_output) + " would write among the files of " + option_of(outer_output),
          "Give " + option_of(inner_output) + " a folder beside that of " + option_of(outer_output));
    }
  }
}

void OutputFolders::warn_about_missing_locks() const {
  for (const RunFolder& folder : folders_) {
    if (folder.blocks_other_runs()) continue;
    spdlog::warn(
        "{}: the file system does not support locks; a second run that writes here would not be noticed",
        folder.canonical_path().string());
  }
}

}  // namespace evenkeel
