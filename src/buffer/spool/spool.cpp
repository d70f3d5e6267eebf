#include "buffer/spool/spool.hpp"

#include <fcntl.h>
#include <strings.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/utf8.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/input_file.hpp"
#include "io/files/system_error.hpp"

namespace evenkeel {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds between_looks{500};
// Maximum size in bytes of a file. It equals the server's limit on the body of a request.
constexpr std::int64_t max_file_bytes = std::int64_t{64} << 20;
constexpr const char* spool_lock = ".evenkeel-spool";
constexpr const char* spool_end = "end";
constexpr const char* spool_refused = ".refused";
constexpr std::size_t max_ignored_names = 20;  // maximum number of ignored names to report

/// A suffix of file names, and the format and compression of files with this suffix.
struct SpoolSuffix {
  std::string_view text;
  SampleForm form;
  const char* packing;
};

constexpr std::array<SpoolSuffix, 4> spool_suffixes{{{".jsonl", SampleForm::lines, ""},
                                                     {".jsonl.gz", SampleForm::lines, "gzip"},
                                                     {".jsonl.zst", SampleForm::lines, "zstd"},
                                                     {".safetensors", SampleForm::tensors, ""}}};

/// Returns the entry for a file's suffix, or null if the spool does not take files with this name. Suffixes
/// are case-insensitive.
const SpoolSuffix* find_spool_suffix(const std::string& name) {
  if (name.starts_with('.')) return nullptr;
  for (const SpoolSuffix& suffix : spool_suffixes) {
    if (name.size() > suffix.text.size() &&
        ::strcasecmp(name.c_str() + name.size() - suffix.text.size(), suffix.text.data()) == 0)
      return &suffix;
  }
  return nullptr;
}

/// Returns whether the spool uses this name itself or ignores it silently.
bool is_reserved_name(const std::string& name) {
  return name.starts_with('.') || name == spool_end || name.find(spool_refused) != std::string::npos;
}

}  // namespace

Spool::Spool(fs::path folder, LogLine say) : folder_(std::move(folder)), log_(std::move(say)) {
  lock_folder();
}

void Spool::start_sending(JobClient server) {
  server_.emplace(std::move(server));
  thread_ = std::thread([this] { process_until_stopped(); });
}

Spool::~Spool() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// Locks the folder so that two processes cannot send the same file to different buffers.
void Spool::lock_folder() {
  if (!fs::is_directory(folder_))
    throw IoError(folder_.string(), "is not a folder",
                  "Create it before the job starts; the address of a buffer begins with http:// or https://");
  const fs::path path = folder_ / spool_lock;
  lock_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (lock_.get() < 0) throw system_error(path.string(), "cannot be created", errno);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  if (error == EWOULDBLOCK)
    throw IoError(folder_.string(), "is a spool from which another process takes files",
                  "Give each job its own folder");
  log_(folder_.string() + " cannot be locked (" + std::generic_category().message(error) +
       "): make sure that no other job takes files from it");
}

bool Spool::is_stopping() const {
  const std::lock_guard lock(mutex_);
  return is_stopping_;
}

void Spool::process_until_stopped() {
  while (!is_stopping()) {
    try {
      process_folder();
    } catch (const std::exception& error) {
      log_once(error.what());
    }
    std::unique_lock lock(mutex_);
    stopped_.wait_for(lock, between_looks, [&] { return is_stopping_; });
  }
}

std::vector<std::string> Spool::list_files() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    std::string name = entry.path().filename().string();
    if (done_.contains(name)) continue;
    if (find_spool_suffix(name) != nullptr)
      names.push_back(std::move(name));
    else if (!is_reserved_name(name))
      report_ignored(name);
  }
  std::ranges::sort(names);
  return names;
}

void Spool::report_ignored(const std::string& name) {
  if (ignored_.size() >= max_ignored_names || !ignored_.insert(name).second) return;
  log_((folder_ / printable(name)).string() +
       " is ignored: only files with these endings are taken: .jsonl, .jsonl.gz, .jsonl.zst or .safetensors");
}

void Spool::process_folder() {
  for (const std::string& name : list_files()) {
    if (is_stopping() || !process_file(name)) return;
  }
  end_stream_if_requested();
}

bool Spool::process_file(const std::string& name) {
  try {
    if (!send_file(name)) return true;
    last_logged_.clear();
  } catch (const InputError& error) {
    reject_file(name, error.what());
    return true;
  } catch (const LimitError& error) {
    reject_file(name, error.what());
    return true;
  } catch (const Error& error) {  // the buffer is full, or is being taken over
    log_once(printable(name) + " waits: " + error.what());
    return false;
  }
  if (!remove_file(name)) done_.insert(name);
  return true;
}

/// Sends a file to the server. Returns false if the file no longer exists. If the file cannot be read, throws
/// InputError instead of IoError, so that it is rejected: trying again would delay all later files and the
/// end of the stream.
bool Spool::send_file(const std::string& name) {
  const fs::path path = folder_ / name;
  std::error_code failure;
  if (fs::symlink_status(path, failure).type() == fs::file_type::not_found) return false;
  std::string body;
  try {
    const InputFile file(path);
    if (file.size() > max_file_bytes) {
      throw LimitError(
          name,
          "has " + std::to_string(file.size()) + " bytes; the limit is " + std::to_string(max_file_bytes),
          "Write several files");
    }
    body.resize(static_cast<std::size_t>(file.size()));
    file.read(body, 0);
  } catch (const IoError& error) {
    throw InputError(error.report());
  }
  const SpoolSuffix& suffix = *find_spool_suffix(name);
  server_->send(body, suffix.form, suffix.packing);
  return true;
}

void Spool::reject_file(const std::string& name, const std::string& why) {
  const fs::path path = folder_ / name;
  fs::path aside = path.string() + spool_refused;
  for (int times = 2; fs::exists(aside); ++times)
    aside = path.string() + spool_refused + "-" + std::to_string(times);
  std::ofstream(aside.string() + ".txt") << why << '\n';
  std::error_code failure;
  fs::rename(path, aside, failure);
  if (!failure) {
    log_(path.string() + " is rejected, and was renamed to " + aside.filename().string() + ": " + why);
    return;
  }
  log_(path.string() + " is rejected, but cannot be renamed (" + failure.message() + "): " + why);
  done_.insert(name);
}

// Ends the stream if the folder contains `end` and no file that must still be sent. Lists the files once
// more, since a listing may miss a file that was moved into the folder before `end`.
void Spool::end_stream_if_requested() {
  if (!fs::exists(folder_ / spool_end) || !list_files().empty()) return;
  server_->end_stream();
  remove_file(spool_end);
}

bool Spool::remove_file(const std::string& name) {
  std::error_code failure;
  fs::remove(folder_ / name, failure);
  if (failure) log_once((folder_ / name).string() + " was taken and cannot be removed: " + failure.message());
  return !failure;
}

void Spool::log_once(const std::string& line) {
  if (line != last_logged_) log_(line);
  last_logged_ = line;
}

}  // namespace evenkeel
