#include <zip.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <new>
#include <set>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "io/numpy/npz.hpp"

namespace evenkeel {
namespace {

constexpr std::string_view ending = ".npy";
constexpr std::int64_t least_zip_bytes = 22;
constexpr std::uint64_t most_per_packed_byte = 1032;  // of deflate: 258 bytes take two bits at least
constexpr const char* is_whole = "Is this a complete .npz file? numpy.savez writes one";

/// Throws what libzip says about `where`: files that cannot be read, or are not what they were when they were
/// opened, are told from files that are damaged.
[[noreturn]] void fail(const InputFile& file, const std::string& where, const std::string& what,
                       zip_error_t* error) {
  const int code = zip_error_code_zip(error);
  if (code == ZIP_ER_MEMORY) throw std::bad_alloc();
  file.read({}, 0);  // an error where it has changed
  const std::string message = what + ": " + zip_error_strerror(error);
  if (code == ZIP_ER_OPEN || code == ZIP_ER_READ || code == ZIP_ER_SEEK || code == ZIP_ER_NOENT) {
    throw IoError(where, message);
  }
  throw InputError(where, message, is_whole);
}

::zip* opened(const InputFile& file) {
  if (file.size() < least_zip_bytes) {
    throw InputError(file.path(),
                     "has " + std::to_string(file.size()) + " bytes; a zip file has " +
                         std::to_string(least_zip_bytes) + " at least",
                     is_whole);
  }
  int code = 0;
  ::zip* const archive = zip_open(file.path().c_str(), ZIP_RDONLY, &code);
  if (archive != nullptr) return archive;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::unique_ptr<zip_error_t, decltype(&zip_error_fini)> keeps_its_text(&error, zip_error_fini);
  fail(file, file.path(), "cannot be opened as a zip file", &error);
}

struct CloseMember {
  void operator()(zip_file_t* member) const noexcept {
    if (member != nullptr) zip_fclose(member);
  }
};

/// Up to `out.size()` bytes; fewer where the member ends.
std::size_t read_up_to(const InputFile& file, zip_file_t* member, std::span<char> out,
                       const std::string& where) {
  std::size_t done = 0;
  while (done < out.size()) {
    const zip_int64_t got = zip_fread(member, out.data() + done, out.size() - done);
    if (got < 0) fail(file, where, "cannot be decompressed", zip_file_get_error(member));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

std::vector<char> unpack(const InputFile& file, ::zip* archive, std::uint64_t index, std::int64_t size,
                         const std::string& where) {
  const std::unique_ptr<zip_file_t, CloseMember> member(zip_fopen_index(archive, index, 0));
  if (!member) fail(file, where, "cannot be decompressed", zip_get_error(archive));
  std::vector<char> bytes(static_cast<std::size_t>(size));
  const std::size_t done = read_up_to(file, member.get(), bytes, where);
  char more = 0;  // the checksum is compared where the member ends, which only the next read finds
  const bool ends = read_up_to(file, member.get(), {&more, 1}, where) == 0;
  if (ends && done == bytes.size()) return bytes;
  throw InputError(where,
                   (ends ? "ends after " + std::to_string(done) : "has more than " + std::to_string(size)) +
                       " bytes; the directory says " + std::to_string(size),
                   is_whole);
}

}  // namespace

void NpzFile::Discard::operator()(::zip* archive) const noexcept {
  zip_discard(archive);
}

NpzFile::NpzFile(const std::filesystem::path& path) : file_(path), archive_(opened(file_)) {
  read_names();
}

void NpzFile::read_names() {
  const auto count = static_cast<std::uint64_t>(zip_get_num_entries(archive_.get(), 0));
  std::set<std::string_view> seen;
  for (std::uint64_t i = 0; i < count; ++i) {
    const char* const name = zip_get_name(archive_.get(), i, ZIP_FL_ENC_RAW);
    if (name == nullptr)
      fail(file_, file_.path(), "has a member without a name", zip_get_error(archive_.get()));
    const std::string_view member(name);
    if (!member.ends_with(ending)) continue;
    if (!seen.insert(member).second) {
      throw InputError(file_.path(), "has two members '" + std::string(member) + "'", is_whole);
    }
    names_.emplace_back(member.substr(0, member.size() - ending.size()));
    members_.push_back(i);
  }
}

std::size_t NpzFile::find(std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  if (found != names_.end()) return static_cast<std::size_t>(found - names_.begin());
  std::string known;
  for (const std::string& other : names_) known += (known.empty() ? "" : ", ") + other;
  throw InputError(file_.path(), "has no array '" + std::string(name) + "'; its arrays are: " + known);
}

std::int64_t NpzFile::checked_size(std::uint64_t member, const std::string& where,
                                   std::int64_t max_bytes) const {
  zip_stat_t stat;
  zip_stat_init(&stat);
  constexpr zip_uint64_t needed =
      ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if (zip_stat_index(archive_.get(), member, 0, &stat) != 0 || (stat.valid & needed) != needed) {
    fail(file_, where, "cannot be examined", zip_get_error(archive_.get()));
  }
  constexpr const char* write_anew = "Write it with numpy.savez or numpy.savez_compressed";
  if (stat.encryption_method != ZIP_EM_NONE) throw InputError(where, "is encrypted", write_anew);
  const bool is_stored = stat.comp_method == ZIP_CM_STORE;
  if (!is_stored && stat.comp_method != ZIP_CM_DEFLATE) {
    throw InputError(where,
                     "is compressed with method " + std::to_string(stat.comp_method) +
                         "; supported are stored (0) and deflated (8)",
                     write_anew);
  }
  if (stat.comp_size > static_cast<std::uint64_t>(file_.size())) {
    throw InputError(where,
                     "has " + std::to_string(stat.comp_size) + " packed bytes; the whole file has " +
                         std::to_string(file_.size()),
                     is_whole);
  }
  if (is_stored ? stat.size != stat.comp_size : stat.size / most_per_packed_byte > stat.comp_size) {
    throw InputError(where,
                     "has " + std::to_string(stat.size) + " bytes, says the directory; its " +
                         std::to_string(stat.comp_size) + " packed bytes cannot hold them",
                     is_whole);
  }
  if (std::cmp_greater(stat.size, max_bytes)) {
    throw LimitError(where,
                     "has " + std::to_string(stat.size) + " bytes; at most " + std::to_string(max_bytes) +
                         " are decompressed into memory",
                     "Save large arrays with numpy.save: these are read in pieces");
  }
  return static_cast<std::int64_t>(stat.size);
}

NpyArray NpzFile::read(std::string_view name, std::int64_t max_bytes) {
  const std::size_t i = find(name);
  const std::string where = file_.path() + ":" + names_[i] + std::string(ending);
  const std::int64_t size = checked_size(members_[i], where, max_bytes);
  std::vector<char> bytes = unpack(file_, archive_.get(), members_[i], size, where);
  file_.read({}, 0);  // an error where the file has changed since it was opened
  return NpyArray(NpyBytes(where, std::move(bytes)));
}

bool NpzFile::is_stored(std::string_view name) const {
  zip_stat_t stat;
  zip_stat_init(&stat);
  const bool is_known = zip_stat_index(archive_.get(), members_[find(name)], 0, &stat) == 0;
  return is_known && (stat.valid & ZIP_STAT_COMP_METHOD) != 0 && stat.comp_method == ZIP_CM_STORE;
}

NpyArray NpzFile::open(std::string_view name, std::int64_t max_bytes) {
  if (!is_stored(name)) return read(name, max_bytes);
  const std::size_t i = find(name);
  const std::string where = file_.path() + ":" + names_[i] + std::string(ending);
  const std::int64_t size = checked_size(members_[i], where, std::numeric_limits<std::int64_t>::max());
  const std::shared_ptr<zip_file_t> member(zip_fopen_index(archive_.get(), members_[i], 0), CloseMember());
  if (!member) fail(file_, where, "cannot be read", zip_get_error(archive_.get()));
  return NpyArray(NpyBytes(where, size, [this, member, where](std::span<char> out, std::int64_t offset) {
    const std::lock_guard lock(in_use_);
    if (zip_fseek(member.get(), offset, SEEK_SET) != 0)
      fail(file_, where, "cannot be read at byte " + std::to_string(offset),
           zip_file_get_error(member.get()));
    const std::size_t done = read_up_to(file_, member.get(), out, where);
    file_.read({}, 0);  // an error where the file has changed since it was opened
    if (done < out.size()) {
      throw InputError(where,
                       "ends at byte " + std::to_string(offset + static_cast<std::int64_t>(done)) +
                           ", before what its header says",
                       is_whole);
    }
  }));
}

}  // namespace evenkeel
