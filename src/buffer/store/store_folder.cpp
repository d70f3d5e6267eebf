#include "buffer/store/store_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "io/files/output_file.hpp"
#include "io/files/system_error.hpp"

namespace evenkeel {
namespace {

constexpr const char* description_name = "buffer.json";
constexpr const char* format_name = "evenkeel-buffer";
constexpr int format_version = 2;

/// Returns whether the folder is empty, or contains only the empty data file `data`. A process that is killed
/// before it writes anything leaves such a file behind.
bool is_empty_except(const std::filesystem::path& folder, const std::filesystem::path& data) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path() != data || entry->file_size(error) > 0) return false;
  }
  if (error) throw system_error(folder.string(), "cannot be read", error.value());
  return true;
}

}  // namespace

StoreFolder::StoreFolder(std::filesystem::path path, Access access)
    : path_(std::move(path)), access_(access) {
  std::error_code error;
  if (access_ == Access::write) std::filesystem::create_directories(path_, error);
  if (error) throw system_error(path_.string(), "cannot be created", error.value());
  read_description();  // before any file is created, since the folder may not belong to a store
  do open_and_lock_data();
  while (!is_data_at_its_path());
  read_description();
}

// Opens and locks the data file. The system releases the lock when the process ends for any reason.
void StoreFolder::open_and_lock_data() {
  data_ = FileDescriptor();
  const std::string name = data().string();
  const bool is_new = file_bytes_ == 0 && access_ == Access::write;
  data_ = FileDescriptor(
      ::open(name.c_str(),
             (access_ == Access::write ? O_RDWR : O_RDONLY) | (is_new ? O_CREAT : 0) | O_CLOEXEC, 0644));
  if (data_.get() < 0) throw system_error(name, "cannot be opened", errno);
  if (::flock(data_.get(), (access_ == Access::write ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0) return;
  if (errno != EWOULDBLOCK) throw system_error(name, "cannot be locked", errno);
  throw IoError(path_.string(), "is in use by another process",
                access_ == Access::write ? "Stop it first, or use another folder"
                                         : "Query it at its address, or stop it first");
}

// Returns false if the data file was replaced by another file before it was locked.
bool StoreFolder::is_data_at_its_path() const {
  struct stat opened {};
  struct stat named {};
  if (::fstat(data_.get(), &opened) != 0) throw system_error(data().string(), "cannot be read", errno);
  return ::stat(data().c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

bool StoreFolder::is_removed() const noexcept {
  struct stat status {};
  return ::fstat(data_.get(), &status) != 0 || status.st_nlink == 0;
}

void StoreFolder::read_description() {
  const std::filesystem::path name = path_ / description_name;
  std::error_code error;
  if (!std::filesystem::exists(name, error)) {
    if (is_empty_except(path_, data())) return;
    throw IoError(path_.string(),
                  "is not empty, and has no " + std::string(description_name) +
                      ": it is not the folder of a buffer or store",
                  "Use a new folder");
  }
  std::ostringstream text;
  text << std::ifstream(name, std::ios::binary).rdbuf();
  const auto description = nlohmann::json::parse(text.str(), nullptr, false);
  if (!description.is_object() || description.value("format", nlohmann::json()) != format_name ||
      !description.contains("version") || !description["version"].is_number_integer() ||
      !description.contains("file_bytes") || !description["file_bytes"].is_number_integer()) {
    throw IoError(name.string(), "is damaged: it does not describe the folder's contents",
                  "Restore the folder from a backup");
  }
  if (description["version"] != format_version) {
    throw IoError(name.string(),
                  "has version " + description["version"].dump() +
                      "; this program reads and writes version " + std::to_string(format_version),
                  "Use the program that wrote it");
  }
  file_bytes_ = description["file_bytes"].get<std::int64_t>();
}

void StoreFolder::record_file_bytes(std::int64_t bytes) {
  const nlohmann::ordered_json description{
      {"format", format_name}, {"version", format_version}, {"store", "lmdb"}, {"file_bytes", bytes}};
  write_text_file_durably(path_ / description_name, description.dump() + "\n");
  file_bytes_ = bytes;
}

}  // namespace evenkeel
