#include "source/files/input_files.hpp"

#include <fcntl.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/hash.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/system_error.hpp"
#include "io/files/unpacking.hpp"
#include "mesh/fail_together.hpp"
#include "source/files/file_agreement.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

namespace fs = std::filesystem;

/// Results of glob(3), freed with this object.
class Matches {
 public:
  explicit Matches(const std::string& pattern)
      : status_(::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found_)) {
    if (status_ == GLOB_NOSPACE) throw std::bad_alloc();
  }
  Matches(const Matches&) = delete;
  Matches& operator=(const Matches&) = delete;
  ~Matches() { ::globfree(&found_); }

  [[nodiscard]] std::vector<std::string> names() const {
    if (status_ != 0) return {};
    return {found_.gl_pathv, found_.gl_pathv + found_.gl_pathc};
  }

 private:
  glob_t found_{};
  int status_;
};

/// Returns the files that match the pattern, sorted by bytes regardless of the locale. Returns an empty list
/// if the pattern does not have wildcards or is the name of an existing file. Throws IoError if the pattern
/// does not match any file.
std::vector<std::string> expand_pattern(const std::string& pattern) {
  std::error_code unknown;  // ignored, since errors are reported when the file is opened
  if (pattern.find_first_of("*?[") == std::string::npos || fs::exists(pattern, unknown)) return {};
  std::vector<std::string> names = Matches(pattern).names();
  std::erase_if(names, [&](const std::string& name) { return fs::is_directory(name, unknown); });
  if (names.empty()) {
    throw IoError(
        pattern, "matches no file",
        "Check the pattern (*, ? and [...]); rank 0 expands it in the folder where the job is started");
  }
  std::ranges::sort(names);
  return names;
}

constexpr const char* needs_room =
    "Set TMPDIR to a folder with enough space, which every rank of a node can open";

/// A temporary file for the decompressed content of one file. It is unlinked after all ranks of the node have
/// opened it.
class DecompressedFile {
 public:
  explicit DecompressedFile(const std::string& packed) {
    const char* const folder = std::getenv("TMPDIR");
    name_ = std::string(folder != nullptr && *folder != '\0' ? folder : "/tmp") + "/evenkeel-XXXXXX";
    file_ = FileDescriptor(::mkostemp(name_.data(), O_CLOEXEC));
    if (file_.get() < 0) {
      const int reason = errno;
      ErrorReport report =
          system_error(packed, "cannot be decompressed to " + std::exchange(name_, {}), reason).report();
      report.hint = needs_room;
      throw_error(std::move(report));
    }
  }
  DecompressedFile(DecompressedFile&& other) noexcept
      : name_(std::exchange(other.name_, {})), file_(std::move(other.file_)) {}
  DecompressedFile& operator=(DecompressedFile&&) = delete;
  ~DecompressedFile() { unlink_file(); }

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  void unlink_file() noexcept {
    if (!name_.empty()) ::unlink(name_.c_str());
    name_.clear();
  }

  void write_decompressed(const InputFile& packed) const {
    unpack(packed, detect_packing(packed), [&](std::span<const char> bytes) {
      while (!bytes.empty()) {
        const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) {
          ErrorReport report =
              system_error(packed.path(), "cannot be decompressed to the folder for temporary files", errno)
                  .report();
          report.hint = needs_room;
          throw_error(std::move(report));
        }
        bytes = bytes.subspan(static_cast<std::size_t>(written));
      }
    });
  }

 private:
  std::string name_;
  FileDescriptor file_;
};

/// A compressed file, and the rank on this node that decompresses it.
struct Task {
  std::size_t file = 0;
  int rank = 0;
};

/// Assigns compressed files to ranks in descending order of size, each to the rank with the smallest load.
std::vector<Task> assign_files_to_ranks(const InputFiles& files, int ranks) {
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (detect_packing(*files[i]) != Packing::none) tasks.push_back({i, 0});
  }
  std::ranges::stable_sort(tasks, std::ranges::greater(),
                           [&](const Task& t) { return files[t.file]->size(); });
  std::vector<std::int64_t> load(static_cast<std::size_t>(ranks));
  for (Task& task : tasks) {
    const auto least = std::ranges::min_element(load);
    *least += files[task.file]->size();
    task.rank = static_cast<int>(least - load.begin());
  }
  return tasks;
}

FileDescriptor open_file(const std::string& target, const std::string& packed) {
  FileDescriptor file(::open(target.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() >= 0) return file;
  ErrorReport report =
      system_error(packed, ("is unpacked to " + target + ", which cannot be opened").c_str(), errno).report();
  report.hint = needs_room;
  throw_error(std::move(report));
}

}  // namespace

std::vector<const InputFile*> file_pointers(const InputFiles& files) {
  std::vector<const InputFile*> pointers;
  for (const auto& file : files) pointers.push_back(file.get());
  return pointers;
}

std::vector<fs::path> files_matching(const fs::path& pattern) {
  const std::vector<std::string> names = expand_pattern(pattern.string());
  std::vector<fs::path> paths(names.begin(), names.end());
  if (paths.empty()) paths.push_back(pattern);
  return paths;
}

std::vector<fs::path> files_of_pattern(const Communicator& comm, const fs::path& pattern) {
  std::vector<std::string> names;
  GuardedWork work;
  if (comm.rank() == 0) work([&] { names = expand_pattern(pattern.string()); });
  broadcast_value(comm, names, 0, work);
  std::vector<fs::path> paths;
  work([&] {
    paths.assign(names.begin(), names.end());
    if (paths.empty()) paths.push_back(pattern);
  });
  work.agree(comm);
  return paths;
}

std::vector<fs::path> files_of_source(const Communicator& comm, const SourceSettings& settings) {
  const std::vector<fs::path> patterns = run_together(comm, [&] { return settings.paths(); });
  std::vector<fs::path> all;
  for (const fs::path& pattern : patterns) {
    const std::vector<fs::path> files = files_of_pattern(comm, pattern);
    run_together(comm, [&] {
      for (const fs::path& file : files) {
        if (std::ranges::find(all, file) != all.end()) {
          throw InputError(file.string(), "is named twice by the paths of one source",
                           "Name each file once, and check which files the patterns match");
        }
        all.push_back(file);
      }
    });
  }
  return all;
}

InputFiles open_files(const Communicator& comm, const std::vector<fs::path>& paths) {
  InputFiles files = run_together(comm, [&] {
    InputFiles opened;
    for (const fs::path& path : paths) opened.push_back(std::make_unique<const InputFile>(path));
    return opened;
  });
  require_same_contents(comm, run_together(comm, [&] { return file_pointers(files); }));
  return files;
}

SourceFingerprint fingerprint_of(const Communicator& comm, std::span<const InputFile* const> files,
                                 const std::string& name, std::int64_t samples, bool whole) {
  const auto digest = [&](bool of_all) {
    std::uint64_t sum = 0;
    for (const InputFile* file : files) {
      const std::uint64_t of_file =
          of_all ? content_digest(comm, *file) : run_together(comm, [&] { return file->sampled_digest(); });
      // With several files, the digest depends on their order. The digest of a single file depends only on
      // its content.
      sum = files.size() == 1 ? of_file : mix_64(sum + of_file) + 1;
    }
    return sum;
  };
  std::int64_t bytes = 0;
  for (const InputFile* file : files) bytes += file->size();
  const std::uint64_t told = digest(whole);
  std::optional<std::uint64_t> beside;
  if (!whole && bytes <= max_bytes_compared_whole) beside = digest(true);
  return run_together(comm, [&] { return SourceFingerprint{name, samples, bytes, told, beside}; });
}

std::unique_ptr<const InputFile> unpack_file(std::unique_ptr<const InputFile> file) {
  if (detect_packing(*file) == Packing::none) return file;
  DecompressedFile target(file->path());
  FileDescriptor text = open_file(target.name(), file->path());
  target.unlink_file();
  target.write_decompressed(*file);
  return std::make_unique<const InputFile>(file->path(), text.release());
}

void unpack_on_nodes(const Communicator& comm, InputFiles& files) {
  const bool any = run_together(comm, [&] { return !assign_files_to_ranks(files, 1).empty(); });
  if (!any) return;  // all ranks return here, since the files are the same on all ranks
  const Communicator node = comm.split_by_node();
  std::vector<Task> tasks;
  std::vector<DecompressedFile> unpacked;
  std::vector<std::string> names;  // names of this rank's temporary files, in the order of its tasks
  run_together(comm, [&] {
    tasks = assign_files_to_ranks(files, node.size());
    for (const Task& task : tasks) {
      if (task.rank != node.rank()) continue;
      unpacked.emplace_back(files[task.file]->path());
      names.push_back(unpacked.back().name());
    }
  });
  GuardedWork work;
  std::vector<std::vector<std::string>> of_ranks;
  work.run_always([&] {
    GuardedWork inner;
    of_ranks = all_gather_values(node, names, inner, "names of unpacked files");
    inner.agree(node);
  });
  std::vector<FileDescriptor> texts;
  work([&] {
    std::vector<std::size_t> next(of_ranks.size());
    for (const Task& task : tasks) {
      const auto rank = static_cast<std::size_t>(task.rank);
      texts.push_back(open_file(of_ranks[rank][next[rank]++], files[task.file]->path()));
    }
  });
  work.agree(comm);
  for (DecompressedFile& target : unpacked) target.unlink_file();
  work([&] {
    auto target = unpacked.begin();
    for (const Task& task : tasks) {
      if (task.rank == node.rank()) (target++)->write_decompressed(*files[task.file]);
    }
  });
  work.agree(comm);
  work([&] {
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      auto& file = files[tasks[t].file];
      file = std::make_unique<const InputFile>(file->path(), texts[t].release());
    }
  });
  work.agree(comm);
}

}  // namespace evenkeel
