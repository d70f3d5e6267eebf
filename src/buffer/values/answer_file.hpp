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
/// Header with the number of bytes of an answer that is in the file.
inline constexpr const char* answer_bytes_header = "Evenkeel-Answer-Bytes";
/// Smaller answers travel through the socket, which is faster.
inline constexpr std::int64_t min_file_answer = std::int64_t{64} << 10;

/// A client's answer file cannot be used. The request has not been carried out.
class AnswerFileError : public InputError {
 public:
  AnswerFileError(int status, const std::string& message, const std::string& hint = {})
      : InputError(answer_file_header, message, hint), status_(status) {}
  /// HTTP status: 400 if the request is wrong, 424 if the same request without the file may succeed.
  [[nodiscard]] int status() const noexcept { return status_; }

 private:
  int status_;
};

/// A memory file of a client on the same machine. The server writes answers to it, so that they do not travel
/// through the socket. The server never maps the file, so a client that truncates it cannot crash the server.
class AnswerFile {
 public:
  /// Opens the file that the request names, if it names one. Accepts only memory files that were made for
  /// this purpose, from the process and user at the other end of a UNIX socket. Throws AnswerFileError.
  [[nodiscard]] static std::optional<AnswerFile> open(const httplib::Request& request,
                                                      const BodyReader& connection);

  /// Appends bytes. Returns false if they cannot be written.
  [[nodiscard]] bool write(std::string_view bytes);
  /// Appends bytes up to a multiple of 64.
  [[nodiscard]] bool align();
  /// Writes what is pending. Returns the size of the answer, or -1 if it cannot be written.
  [[nodiscard]] std::int64_t finish();

 private:
  explicit AnswerFile(FileDescriptor file) : file_(std::move(file)) {}
  [[nodiscard]] bool write_all(std::string_view bytes);

  FileDescriptor file_;
  std::int64_t at_ = 0;        // where the file is written next
  std::vector<char> pending_;  // bytes that are not written yet
};

}  // namespace evenkeel
