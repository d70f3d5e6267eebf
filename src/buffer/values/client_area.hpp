#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "buffer/http/answers.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Header that names the client's area; docs/formats.md describes the protocol.
inline constexpr const char* area_header = "Evenkeel-Area";
/// Header with the number of pieces of the client's memory that form the request's body. The area lists the
/// pieces.
inline constexpr const char* pieces_header = "Evenkeel-Pieces";
/// Header with the size in bytes of an answer that is in the area.
inline constexpr const char* area_body_header = "Evenkeel-Body";
/// Minimum size of an answer that is written to the area. Smaller answers go through the socket, which is
/// faster for them.
inline constexpr std::int64_t least_area_bytes = std::int64_t{64} << 10;

/// The client's area cannot be used, so the request has not been carried out.
class AreaError : public InputError {
 public:
  AreaError(int status, const std::string& message, const std::string& hint = {})
      : InputError(area_header, message, hint), status_(status) {}
  /// HTTP status: 400 if the request is wrong, 424 if the same request without an area may succeed.
  [[nodiscard]] int status() const noexcept { return status_; }

 private:
  int status_;
};

/// A memory file that belongs to a client on the same machine. The server writes answers to it, and the file
/// lists the places in the client's memory that hold the body of a request, so neither goes through the
/// socket. The server reads and writes the file but never maps it, so a client that truncates the file cannot
/// crash the server.
class ClientArea final : public BodyReader {
 public:
  /// Opens the area that the request names; returns null if it does not name one. Accepts only memory files
  /// that were created for this purpose by the process and user at the other end of a UNIX socket. Throws
  /// AreaError.
  [[nodiscard]] static std::unique_ptr<ClientArea> open(const httplib::Request& request,
                                                        const BodyReader& connection);
  ~ClientArea() override;

  /// Reads the client's memory. Throws AreaError if that is not possible. The bytes are valid if the client
  /// is still connected after the last one has been read, since a client keeps its memory until it has the
  /// answer or gives up.
  ssize_t read_body(std::span<char> out) override;
  [[nodiscard]] std::int64_t announced() const noexcept override { return body_; }

  /// Appends bytes of an answer. Returns false if they cannot be written.
  [[nodiscard]] bool write(std::string_view bytes);
  /// Appends zeros up to a multiple of 64 bytes.
  [[nodiscard]] bool align();
  /// Writes the pending bytes. Returns the size of the answer, or -1 if it cannot be written.
  [[nodiscard]] std::int64_t finish();

 private:
  struct Piece {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
  };

  ClientArea(int file, pid_t client) : file_(file), client_(client) {}
  void read_pieces(std::int64_t count);
  [[nodiscard]] std::size_t read_some(std::span<char> out);
  [[nodiscard]] bool write_all(std::string_view bytes);

  const int file_;
  const pid_t client_;
  std::vector<Piece> pieces_;  // pieces of the request's body
  std::size_t next_ = 0;       // piece to read next; its beginning is dropped as it is read
  std::int64_t body_ = 0;      // size of the request's body
  std::int64_t at_ = 0;        // position in the file at which to write next
  std::vector<char> pending_;  // bytes that were read ahead, or that have not been written yet
  std::size_t used_ = 0;       // number of bytes that were read ahead and then used
};

}  // namespace evenkeel
