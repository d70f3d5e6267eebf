#include "buffer/store/store_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "io/files/atomic_file.hpp"
#include "io/files/system_error.hpp"

namespace evenkeel {
namespace {

constexpr const char* description_name = "buffer.json";
constexpr const char* lock_name = "buffer.lock";
constexpr const char* format_name = "evenkeel-buffer";
constexpr int format_version = 1;

bool has_nothing_else(const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename() != lock_name) return false;
  }
  if (error) throw system_error(folder.string(), "cannot be read", error.value());
  return true;
}

}  // namespace

StoreFolder::StoreFolder(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) throw system_error(path_.string(), "cannot be made", error.value());
  lock();
  try {
    read_description();
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

StoreFolder::~StoreFolder() {
  ::close(lock_);
}

// The lock belongs to the open file: it is gone when the process is, however it ends.
void StoreFolder::lock() {
  const std::string name = (path_ / lock_name).string();
  lock_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) throw system_error(name, "cannot be written", errno);
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  const int reason = errno;
  ::close(lock_);
  if (reason != EWOULDBLOCK) throw system_error(name, "cannot be locked", reason);
  throw IoError(path_.string(), "is in use by another buffer", "Stop that one first, or use another folder");
}

void StoreFolder::read_description() {
  const std::filesystem::path name = path_ / description_name;
  std::error_code error;
  if (!std::filesystem::exists(name, error)) {
    if (has_nothing_else(path_)) return;
    throw IoError(
        path_.string(),
        "is not empty, and has no " + std::string(description_name) + ": it is not a buffer's folder",
        "Use a new folder");
  }
  std::ostringstream text;
  text << std::ifstream(name, std::ios::binary).rdbuf();
  const auto description = nlohmann::json::parse(text.str(), nullptr, false);
  if (!description.is_object() || description.value("format", nlohmann::json()) != format_name ||
      !description.contains("version") || !description["version"].is_number_integer() ||
      !description.contains("file_bytes") || !description["file_bytes"].is_number_integer()) {
    throw IoError(name.string(), "is damaged: it does not say what is in the folder",
                  "Put back a copy of the folder");
  }
  if (description["version"] != format_version) {
    throw IoError(name.string(),
                  "is of version " + description["version"].dump() +
                      "; this program reads and writes version " + std::to_string(format_version),
                  "Use the program that wrote it");
  }
  file_bytes_ = description["file_bytes"].get<std::int64_t>();
}

void StoreFolder::set_file_bytes(std::int64_t bytes) {
  const nlohmann::ordered_json description{
      {"format", format_name}, {"version", format_version}, {"store", "lmdb"}, {"file_bytes", bytes}};
  write_text_to_disk(path_ / description_name, description.dump() + "\n");
  file_bytes_ = bytes;
}

}  // namespace evenkeel
