#include "buffer/values/answer_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "base/text/parse_number.hpp"
#include "buffer/http/connection.hpp"

namespace evenkeel {
namespace {

constexpr int not_usable = 424;
constexpr int wrong_request = 400;
// Maximum number of bytes that are collected before they are written to the file. They fit into a core's
// cache.
constexpr std::size_t pending_bytes = std::size_t{256} << 10;
constexpr std::string_view link_of_answer_file = "/memfd:evenkeel-answer";
constexpr const char* without_file_hint = "Send the request without this header";

int parse_descriptor(const httplib::Request& request) {
  const std::string text = request.get_header_value(answer_file_header);
  const std::optional<int> number = parse_as<int>(text);
  if (!number || *number < 0) {
    throw AnswerFileError(
        wrong_request, fmt::format("is '{}'; it must be the number of a file descriptor", text.substr(0, 40)),
        "Send the descriptor of a memory file, or send the request without this header");
  }
  return *number;
}

/// Opens the file of another process's descriptor with O_PATH, that is, without access to its content.
FileDescriptor open_reference(pid_t process, int descriptor) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, descriptor);
  FileDescriptor file(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (file.get() < 0) {
    throw AnswerFileError(
        not_usable, fmt::format("cannot be opened at {}: {}", path, std::generic_category().message(errno)),
        without_file_hint);
  }
  return file;
}

/// Returns whether the file was created with memfd_create() as an answer file, and belongs to this user.
bool is_answer_file(const std::string& path, int file, uid_t user) {
  std::array<char, 64> link{};
  struct stat status {};
  struct statfs system {};
  const ssize_t length = ::readlink(path.c_str(), link.data(), link.size());
  return length > 0 &&
         std::string_view(link.data(), static_cast<std::size_t>(length)).starts_with(link_of_answer_file) &&
         ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == user &&
         ::fstatfs(file, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

}  // namespace

std::optional<AnswerFile> AnswerFile::open(const httplib::Request& request, const Connection& connection) {
  if (!request.has_header(answer_file_header)) return std::nullopt;
  const int descriptor = parse_descriptor(request);
  const ::ucred client = connection.peer_credentials();
  if (client.pid <= 0) {
    throw AnswerFileError(
        not_usable,
        "can only be used over the server's UNIX socket, by a process whose PID the server can see",
        without_file_hint);
  }
  const FileDescriptor reference = open_reference(client.pid, descriptor);
  const std::string path = fmt::format("/proc/self/fd/{}", reference.get());
  if (!is_answer_file(path, reference.get(), client.uid)) {
    throw AnswerFileError(not_usable,
                          fmt::format("is descriptor {} of process {}, which is not a memory file named "
                                      "evenkeel-answer of the same user",
                                      descriptor, client.pid),
                          without_file_hint);
  }
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() < 0) {
    throw AnswerFileError(not_usable,
                          fmt::format("cannot be opened: {}", std::generic_category().message(errno)),
                          without_file_hint);
  }
  return AnswerFile(std::move(file));
}

bool AnswerFile::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_.get(), bytes.data(), bytes.size(), at_);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at_ += written;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// Collects small parts, because each write to the file costs a system call.
bool AnswerFile::write(std::string_view bytes) {
  if (pending_.size() + bytes.size() > pending_bytes && flush() < 0) return false;
  if (bytes.size() >= pending_bytes) return write_all(bytes);
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
  return true;
}

bool AnswerFile::pad_to_alignment() {
  constexpr std::size_t alignment = 64;
  const std::size_t size = static_cast<std::size_t>(at_) + pending_.size();
  const std::string gap((alignment - size % alignment) % alignment, '\0');
  return write(gap);
}

std::int64_t AnswerFile::flush() {
  if (!write_all({pending_.data(), pending_.size()})) return -1;
  pending_.clear();
  return at_;
}

}  // namespace evenkeel
