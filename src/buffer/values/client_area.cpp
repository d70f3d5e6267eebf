#include "buffer/values/client_area.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <system_error>

namespace evenkeel {
namespace {

constexpr int not_usable = 424;
constexpr int wrong_request = 400;
constexpr std::size_t pending_bytes = std::size_t{256} << 10;  // fits into a core's cache
constexpr std::string_view link_of_area = "/memfd:evenkeel-area";

/// Closes a file descriptor when it goes out of scope.
struct Descriptor {
  int number;
  explicit Descriptor(int opened) : number(opened) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

std::int64_t number_in(const httplib::Request& request, const char* header, std::int64_t most) {
  const std::string text = request.get_header_value(header);
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0 || number > most) {
    throw AreaError(wrong_request,
                    fmt::format("needs a number in the header {}, not '{}'", header, text.substr(0, 40)));
  }
  return number;
}

/// Opens a descriptor of another process, without access to its content.
int open_reference(pid_t process, std::int64_t descriptor) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, descriptor);
  const int file = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (file < 0)
    throw AreaError(not_usable,
                    fmt::format("cannot be opened at {}: {}", path, std::generic_category().message(errno)));
  return file;
}

/// Returns whether the file was made by memfd_create() for this purpose, by this user.
bool is_area(const std::string& path, int file, uid_t user) {
  std::array<char, 64> link{};
  struct stat status {};
  struct statfs system {};
  const ssize_t length = ::readlink(path.c_str(), link.data(), link.size());
  return length > 0 &&
         std::string_view(link.data(), static_cast<std::size_t>(length)).starts_with(link_of_area) &&
         ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == user &&
         ::fstatfs(file, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

}  // namespace

std::unique_ptr<ClientArea> ClientArea::of(const httplib::Request& request, const BodyReader& connection) {
  if (!request.has_header(area_header)) return nullptr;
  const std::int64_t descriptor = number_in(request, area_header, std::numeric_limits<int>::max());
  const bool has_body = request.has_header(area_body_header);
  const std::int64_t body =
      has_body ? number_in(request, area_body_header, std::numeric_limits<std::int64_t>::max()) : 0;
  const ::ucred client = connection.peer();
  if (client.pid <= 0) {
    throw AreaError(not_usable,
                    "can only be used over the server's UNIX socket, by a process that the server can see",
                    "Send the body with the request");
  }
  const Descriptor reference(open_reference(client.pid, descriptor));
  const std::string path = fmt::format("/proc/self/fd/{}", reference.number);
  if (!is_area(path, reference.number, client.uid)) {
    throw AreaError(not_usable, fmt::format("is descriptor {} of process {}, which is not a memory file "
                                            "named evenkeel-area of the same user",
                                            descriptor, client.pid));
  }
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0)
    throw AreaError(not_usable, fmt::format("cannot be opened: {}", std::generic_category().message(errno)));
  return std::unique_ptr<ClientArea>(new ClientArea(file, body));
}

ClientArea::~ClientArea() {
  ::close(file_);
}

std::size_t ClientArea::read_some(std::span<char> out) {
  const std::size_t most = std::min(out.size(), static_cast<std::size_t>(body_ - at_));
  ssize_t bytes = -1;
  do {
    bytes = ::pread(file_, out.data(), most, at_);
  } while (bytes < 0 && errno == EINTR);
  if (bytes <= 0) {
    throw AreaError(wrong_request,
                    fmt::format("ends after {} bytes, but {} says {}", at_, area_body_header, body_),
                    "Do not change an area before the answer has arrived");
  }
  at_ += bytes;
  return static_cast<std::size_t>(bytes);
}

/// Reads ahead if little is wanted, because each access costs a system call.
ssize_t ClientArea::read_body(std::span<char> out) {
  if (used_ == pending_.size()) {
    if (at_ == body_) return 0;
    if (out.size() >= pending_bytes) return static_cast<ssize_t>(read_some(out));
    pending_.resize(pending_bytes);
    pending_.resize(read_some(pending_));
    used_ = 0;
  }
  const std::size_t bytes = std::min(out.size(), pending_.size() - used_);
  std::memcpy(out.data(), pending_.data() + used_, bytes);
  used_ += bytes;
  return static_cast<ssize_t>(bytes);
}

bool ClientArea::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), at_);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at_ += written;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool ClientArea::write(std::string_view bytes) {
  if (pending_.size() + bytes.size() > pending_bytes && finish() < 0) return false;
  if (bytes.size() >= pending_bytes) return write_all(bytes);
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
  return true;
}

bool ClientArea::align() {
  constexpr std::size_t alignment = 64;
  const std::size_t size = static_cast<std::size_t>(at_) + pending_.size();
  const std::string gap((alignment - size % alignment) % alignment, '\0');
  return write(gap);
}

std::int64_t ClientArea::finish() {
  if (!write_all({pending_.data(), pending_.size()})) return -1;
  pending_.clear();
  return at_;
}

}  // namespace evenkeel
