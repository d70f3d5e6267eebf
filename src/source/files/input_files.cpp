#include "source/files/input_files.hpp"

#include <glob.h>

#include <algorithm>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "base/hash.hpp"
#include "evenkeel/base/error.hpp"
#include "mesh/fail_together.hpp"
#include "source/files/file_agreement.hpp"
#include "transport/share_values.hpp"

namespace evenkeel {
namespace {

namespace fs = std::filesystem;

/// What glob(3) found, freed with this object.
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

/// The files that match, sorted by bytes, whatever the locale. Empty for a name without a pattern.
std::vector<std::string> expand(const std::string& pattern) {
  std::error_code unknown;  // a name that cannot be looked at is told when it is opened
  if (pattern.find_first_of("*?[") == std::string::npos || fs::exists(pattern, unknown)) return {};
  std::vector<std::string> names = Matches(pattern).names();
  std::erase_if(names, [&](const std::string& name) { return fs::is_directory(name, unknown); });
  if (names.empty()) {
    throw IoError(pattern, "matches no file",
                  "Patterns have *, ? and [...]; rank 0 expands them in the folder where the job is started");
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::vector<const InputFile*> pointers_to(const InputFiles& files) {
  std::vector<const InputFile*> pointers;
  for (const auto& file : files) pointers.push_back(file.get());
  return pointers;
}

std::vector<fs::path> files_matching(const fs::path& pattern) {
  const std::vector<std::string> names = expand(pattern.string());
  std::vector<fs::path> paths(names.begin(), names.end());
  if (paths.empty()) paths.push_back(pattern);
  return paths;
}

std::vector<fs::path> files_of_pattern(const Communicator& comm, const fs::path& pattern) {
  std::vector<std::string> names;
  GuardedWork work;
  if (comm.rank() == 0) work([&] { names = expand(pattern.string()); });
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
  const std::vector<fs::path> patterns = together(comm, [&] { return settings.paths(); });
  std::vector<fs::path> all;
  for (const fs::path& pattern : patterns) {
    const std::vector<fs::path> files = files_of_pattern(comm, pattern);
    together(comm, [&] {
      for (const fs::path& file : files) {
        if (std::ranges::find(all, file) != all.end()) {
          throw InputError(file.string(), "is named twice by the paths of one source",
                           "Name each file once; a pattern may have it, too");
        }
        all.push_back(file);
      }
    });
  }
  return all;
}

InputFiles open_files(const Communicator& comm, const std::vector<fs::path>& paths) {
  InputFiles files = together(comm, [&] {
    InputFiles opened;
    for (const fs::path& path : paths) opened.push_back(std::make_unique<const InputFile>(path));
    return opened;
  });
  require_same_contents(comm, together(comm, [&] { return pointers_to(files); }));
  return files;
}

SourceFingerprint fingerprint_of(const Communicator& comm, std::span<const InputFile* const> files,
                                 const std::string& name, std::int64_t samples, bool whole) {
  const auto digest = [&](bool of_all) {
    std::uint64_t sum = 0;
    for (const InputFile* file : files) {
      const std::uint64_t of_file =
          of_all ? content_digest(comm, *file) : together(comm, [&] { return file->sampled_digest(); });
      // One file is known by its content alone; of several, their order counts, too.
      sum = files.size() == 1 ? of_file : mix_64(sum + of_file) + 1;
    }
    return sum;
  };
  std::int64_t bytes = 0;
  for (const InputFile* file : files) bytes += file->size();
  const std::uint64_t told = digest(whole);
  std::optional<std::uint64_t> beside;
  if (!whole && bytes <= most_bytes_compared_whole) beside = digest(true);
  return together(comm, [&] { return SourceFingerprint{name, samples, bytes, told, beside}; });
}

}  // namespace evenkeel
