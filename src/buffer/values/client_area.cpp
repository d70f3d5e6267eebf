#include "buffer/values/client_area.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
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
constexpr std::int64_t max_pieces = 65'536;
constexpr std::uint64_t max_piece = std::uint64_t{1} << 40;
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

std::int64_t parse_number_header(const httplib::Request& request, const char* header, std::int64_t most) {
  const std::string text = request.get_header_value(header);
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0 || number > most) {
    throw AreaError(wrong_request,
                    fmt::format("needs a number in the header {}, not '{}'", header, text.substr(0, 40)));
  }
  return number;
}

/// Opens a new reference to a file descriptor of another process, without access to the file's content.
int open_reference(pid_t process, std::int64_t descriptor) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, descriptor);
  const int file = ::open(path.c_str(), O_PATH | O_CLOEXEC);
  if (file < 0)
    throw AreaError(not_usable,
                    fmt::format("cannot be opened at {}: {}", path, std::generic_category().message(errno)));
  return file;
}

/// Returns whether this user created the file with memfd_create() for this purpose.
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

std::unique_ptr<ClientArea> ClientArea::open(const httplib::Request& request, const BodyReader& connection) {
  if (!request.has_header(area_header)) return nullptr;
  const std::int64_t descriptor = parse_number_header(request, area_header, std::numeric_limits<int>::max());
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
  std::unique_ptr<ClientArea> area(new ClientArea(file, client.pid));
  if (request.has_header(pieces_header))
    area->read_pieces(parse_number_header(request, pieces_header, max_pieces));
  return area;
}

ClientArea::~ClientArea() {
  ::close(file_);
}

void ClientArea::read_pieces(std::int64_t count) {
  pieces_.resize(static_cast<std::size_t>(count));
  const std::size_t bytes = pieces_.size() * sizeof(Piece);
  if (::pread(file_, pieces_.data(), bytes, 0) != static_cast<ssize_t>(bytes))
    throw AreaError(wrong_request, fmt::format("ends before it has listed {} pieces", count));
  for (const Piece& piece : pieces_) {
    if (piece.bytes == 0 || piece.bytes > max_piece)
      throw AreaError(wrong_request, fmt::format("lists a piece of {} bytes", piece.bytes));
    body_ += static_cast<std::int64_t>(piece.bytes);
  }
}

/// Reads up to out.size() bytes of the next pieces. Returns their number; 0 at the end.
std::size_t ClientArea::read_some(std::span<char> out) {
  std::array<iovec, 64> remote{};
  std::size_t count = 0;
  std::uint64_t wanted = out.size();
  for (std::size_t i = next_; wanted > 0 && i < pieces_.size() && count < remote.size(); ++i) {
    const std::uint64_t bytes = std::min(wanted, pieces_[i].bytes);
    remote[count++] = {reinterpret_cast<void*>(pieces_[i].address), bytes};
    wanted -= bytes;
  }
  if (count == 0) return 0;
  const iovec local{out.data(), out.size()};
  const ssize_t read = ::process_vm_readv(client_, &local, 1, remote.data(), count, 0);
  if (read <= 0) {
    throw AreaError(not_usable, fmt::format("lists memory of process {} that cannot be read: {}", client_,
                                            std::generic_category().message(read < 0 ? errno : EFAULT)));
  }
  for (auto left = static_cast<std::uint64_t>(read); left > 0;) {
    const std::uint64_t bytes = std::min(left, pieces_[next_].bytes);
    pieces_[next_].address += bytes;
    pieces_[next_].bytes -= bytes;
    left -= bytes;
    if (pieces_[next_].bytes == 0) ++next_;
  }
  return static_cast<std::size_t>(read);
}

/// Reads ahead if the caller wants only a few bytes, because each access costs a system call.
ssize_t ClientArea::read_body(std::span<char> out) {
  if (used_ == pending_.size()) {
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
