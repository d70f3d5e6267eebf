#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/numpy/npy.hpp"

struct zip;

namespace evenkeel {

/// A .npz file, open for reading: a zip file whose members are arrays, stored (`numpy.savez`) or deflated
/// (`numpy.savez_compressed`). Members whose names do not end in ".npy" are left alone. Calls must not come
/// from several threads at once.
class NpzFile {
 public:
  /// Reads the directory. Throws IoError when the file cannot be read, and InputError when it is no zip file,
  /// or has two arrays of one name.
  explicit NpzFile(const std::filesystem::path& path);

  /// Names of arrays in the order of the directory, without ".npy".
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }

  /// Unpacks an array into memory. What the directory says is checked before memory is taken: an array that
  /// has more than `max_bytes`, header included, is a LimitError. Throws InputError that lists the names
  /// there are when there is no such array; one at "PATH:MEMBER" for a member that is encrypted, packed in
  /// another way, cut off, longer or shorter than the directory says or than its packed bytes can hold, or
  /// whose checksum is wrong, and what NpyArray refuses. Throws IoError.
  [[nodiscard]] NpyArray read(std::string_view name, std::int64_t max_bytes);
  /// The same of a deflated array. One that is stored stays where it is: its elements are read when they are
  /// asked for, from any thread, while this object lives, and its checksum is nobody's matter.
  [[nodiscard]] NpyArray open(std::string_view name, std::int64_t max_bytes);
  /// Whether the array is stored as it is.
  [[nodiscard]] bool is_stored(std::string_view name) const;

  [[nodiscard]] const InputFile& file() const noexcept { return file_; }

 private:
  struct Discard {
    void operator()(::zip* archive) const noexcept;
  };

  void read_names();
  [[nodiscard]] std::size_t find(std::string_view name) const;
  [[nodiscard]] std::int64_t checked_size(std::uint64_t member, const std::string& where,
                                          std::int64_t max_bytes) const;

  InputFile file_;
  std::unique_ptr<::zip, Discard> archive_;
  std::vector<std::string> names_;
  std::vector<std::uint64_t> members_;  // of names_: places in the directory
  std::mutex in_use_;                   // libzip's state
};

}  // namespace evenkeel
