#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_descriptor.hpp"
#include "buffer/http/answers.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Header that names the client's answer file; docs/formats.md describes the protocol.
inline constexpr const char* answer_file_header = "Evenkeel-Answer-File";
/// Header with the number of bytes of an answer that were written to the file.
inline constexpr const char* answer_bytes_header = "Evenkeel-Answer-Bytes";
/// Minimum size in bytes of an answer that is written to a file. Smaller answers are sent through the socket,
/// which is faster.
inline constexpr std::int64_t min_file_answer = std::int64_t{64} << 10;

/// Thrown if a client's answer file cannot be used. The request was not executed.
class AnswerFileError : public InputError {
 public:
  AnswerFileError(int status, const std::string& message, const std::string& hint = {})
      : InputError(answer_file_header, message, hint), status_(status) {}
  /// HTTP status: 400 if the request is wrong, 424 if the same request without the file may succeed.
  [[nodiscard]] int status() const noexcept { return status_; }

 private:
  int status_;
};

/// A memory file of a client on the same machine. The server writes answers to this file instead of sending
/// them through the socket. The server never maps the file, so a client that truncates it cannot crash the
/// server.
class AnswerFile {
 public:
  /// Opens the file that the request names; returns nullopt if it does not name a file. Throws
  /// AnswerFileError unless `connection` uses a UNIX socket, and the file is a memory file that was created
  /// for this purpose and belongs to the client's process and user.
  [[nodiscard]] static std::optional<AnswerFile> open(const httplib::Request& request,
                                                      const Connection& connection);

  /// Appends bytes. Returns false if they cannot be written.
  [[nodiscard]] bool write(std::string_view bytes);
  /// Appends zeros up to a multiple of 64 bytes. Returns false if they cannot be written.
  [[nodiscard]] bool pad_to_alignment();
  /// Writes all pending bytes to the file. Returns the size of the answer, or -1 if writing fails.
  [[nodiscard]] std::int64_t flush();

 private:
  explicit AnswerFile(FileDescriptor file) : file_(std::move(file)) {}
  [[nodiscard]] bool write_all(std::string_view bytes);

  FileDescriptor file_;
  std::int64_t at_ = 0;        // offset in the file at which the next write begins
  std::vector<char> pending_;  // bytes of the answer that have not been written to the file yet
};

}  // namespace evenkeel
