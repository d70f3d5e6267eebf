#include "job/output/run_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr mode_t for_all = 0666;

[[noreturn]] void fail(const fs::path& path, int code) {
  throw IoError(path.string(), "cannot be written: " + std::generic_category().message(code),
                "Give a folder in which this process can write files");
}

struct flock whole_file_lock() {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  return range;
}

/// Locks the open file if `take` is set; otherwise, queries the lock. If the operating system does not
/// support this kind of lock, fails like a file system without locks.
int set_or_query_lock(int descriptor, bool take, struct flock& range) {
#ifdef F_OFD_SETLK
  return ::fcntl(descriptor, take ? F_OFD_SETLK : F_OFD_GETLK, &range);
#else
  static_cast<void>(descriptor), static_cast<void>(take), static_cast<void>(range);
  errno = ENOSYS;
  return -1;
#endif
}

bool is_unsupported_error(int code) {
  return code == ENOLCK || code == ENOSYS || code == EOPNOTSUPP || code == EINVAL;
}

/// Returns whether `path` still refers to the open file, since the previous holder of the lock may have
/// removed it.
bool refers_to(const fs::path& path, int descriptor) {
  struct stat open {};
  struct stat there {};
  return ::fstat(descriptor, &open) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         open.st_dev == there.st_dev && open.st_ino == there.st_ino;
}

}  // namespace

std::optional<RunLock> RunLock::try_acquire(const fs::path& folder, const RunIdentity& run) {
  const fs::path path = folder / file_name;
  for (;;) {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, for_all);
    if (descriptor < 0) fail(path, errno);
    RunLock lock(path, descriptor);
    if (!lock.lock()) return std::nullopt;
    if (!refers_to(path, descriptor)) continue;
    lock.write(run);
    return lock;
  }
}

RunLock::RunLock(RunLock&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      held_(other.held_),
      locked_(other.locked_) {}

RunLock::~RunLock() {
  if (descriptor_ < 0) return;
  if (held_ && refers_to(path_, descriptor_)) ::unlink(path_.c_str());
  ::close(descriptor_);
}

bool RunLock::lock() {
  struct flock range = whole_file_lock();
  if (set_or_query_lock(descriptor_, true, range) == 0) {
    locked_ = true;
  } else if (!is_unsupported_error(errno)) {
    if (errno == EAGAIN || errno == EACCES) return false;
    fail(path_, errno);
  }
  held_ = true;
  return true;
}

void RunLock::write(const RunIdentity& run) const {
  const std::string text = Json{{"run", run.run},
                                {"started", run.started},
                                {"host", run.host},
                                {"pid", run.pid},
                                {"rank", run.rank}}
                               .dump(-1, ' ', false, Json::error_handler_t::replace) +
                           "\n";
  if (::ftruncate(descriptor_, 0) != 0) fail(path_, errno);
  const ssize_t written = ::pwrite(descriptor_, text.data(), text.size(), 0);
  if (written < 0) fail(path_, errno);
  if (static_cast<std::size_t>(written) != text.size()) fail(path_, ENOSPC);
  publish_to_nodes();
}

// Makes the contents of the file visible to other nodes that share the folder. A network file system shows
// them the written data when a descriptor of the file is closed. This function closes a copy of the
// descriptor, since closing the original would release the lock. It does not sync the file to the disk:
// syncing could take minutes while other processes write, and the lock does not survive a crash anyway.
void RunLock::publish_to_nodes() const {
  const int copy = ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0 || ::close(copy) != 0) fail(path_, errno);
}

std::optional<RunIdentity> read_lock_identity(const fs::path& folder) {
  const fs::path path = folder / RunLock::file_name;
  std::error_code failure;
  if (!fs::is_regular_file(fs::symlink_status(path, failure))) return std::nullopt;
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  try {
    const Json json = Json::parse(text.str());
    return RunIdentity{json.at("run"), json.at("started"), json.at("host"), json.at("pid"), json.at("rank")};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

bool is_locked(const fs::path& folder) {
  const int descriptor =
      ::open((folder / RunLock::file_name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return false;
  struct flock range = whole_file_lock();
  const bool asked = set_or_query_lock(descriptor, false, range) == 0;
  ::close(descriptor);
  return asked && range.l_type != F_UNLCK;
}

}  // namespace evenkeel
