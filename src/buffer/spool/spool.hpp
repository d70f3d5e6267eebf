#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/file_descriptor.hpp"
#include "buffer/job_client.hpp"

namespace evenkeel {

/// Folder into which producers move finished files of samples, for clusters in which producers cannot reach
/// the buffer over the network. Sends each file to a buffer's server, in ascending order of names, and
/// removes it after the buffer has acknowledged it. If the process is killed between these two steps, the
/// file is sent again, and the buffer recognizes the samples that it already has. While the buffer is full,
/// files wait.
///
/// Takes files whose names end in .jsonl, .jsonl.gz, .jsonl.zst or .safetensors, in upper or lower case, and
/// do not begin with a dot. Other files are ignored; the first 20 of them are reported, except hidden files.
/// A file that cannot be read, or that the server refuses, is renamed to NAME.refused (NAME.refused-2 if that
/// exists, and so on), and NAME.refused.txt gives the reason. A file named `end` ends the stream, after all
/// other files have been taken.
///
/// The folder is listed twice per second, because the kernel does not report files that other machines
/// create.
class Spool {
 public:
  using LogLine = std::function<void(const std::string& line)>;

  /// Locks the folder against other processes until destruction. `say` receives lines for the log. Throws
  /// IoError if the folder does not exist or cannot be written, or if another process has locked it. If the
  /// file system does not support locks, only logs a message.
  Spool(std::filesystem::path folder, LogLine say);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  /// Starts sending files to `server`. Call this once. The server must keep running until the spool is
  /// destroyed.
  void start_sending(JobClient server);

 private:
  void lock_folder();
  void process_until_stopped();
  void process_folder();
  [[nodiscard]] std::vector<std::string> list_files();
  void report_ignored(const std::string& name);
  /// Sends or rejects a file. Returns false if the file must wait and be sent again later.
  bool process_file(const std::string& name);
  bool send_file(const std::string& name);
  void reject_file(const std::string& name, const std::string& why);
  void end_stream_if_requested();
  bool remove_file(const std::string& name);
  void log_once(const std::string& line);
  [[nodiscard]] bool is_stopping() const;

  const std::filesystem::path folder_;
  std::optional<JobClient> server_;
  const LogLine log_;
  FileDescriptor lock_;
  std::set<std::string> done_;     // files that were sent or refused but could not be removed or renamed
  std::set<std::string> ignored_;  // names of ignored files that were already reported
  std::string last_logged_;        // last line logged by log_once(), which is not repeated
  mutable std::mutex mutex_;       // guards `is_stopping_`
  std::condition_variable stopped_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace evenkeel
