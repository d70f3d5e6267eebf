#pragma once

#include <cstdint>
#include <vector>

#include "io/files/input_file.hpp"

namespace evenkeel {

/// Ranges of files that are about to be read, in whatever order. Asked for all at once, in the order of the
/// files, they keep a disk busy; read one after the other, a shuffled share waits for the disk at each
/// sample. Ranges that lie within 64 KiB of each other are asked for with what lies between. What comes stays
/// in the system's cache and takes no memory of the process. Only a hint: what could not be asked for is read
/// when its time comes. The files must live until start() returns.
class ReadAhead {
 public:
  /// Asked for at most, with what lies between, so that what comes early is not thrown out by what comes
  /// late.
  static constexpr std::int64_t max_bytes = std::int64_t{256} << 20;

  /// Takes note of a range, until there are max_bytes of them. Precondition: it is within the file.
  void add(const InputFile& file, ByteRange range);
  /// Of all ranges that it took note of.
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }
  /// Asks the system for all of them and does not wait until they are there. O(ranges log ranges).
  void start();

 private:
  struct Piece {
    const InputFile* file = nullptr;
    ByteRange range;
  };

  std::vector<Piece> pieces_;
  std::int64_t bytes_ = 0;
};

}  // namespace evenkeel
