#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "evenkeel/base/error.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel::fuzz {

using Bytes = std::span<const std::uint8_t>;

/// One fuzz target: processes an arbitrary input. It may return or throw an Error. Any other exception, a
/// crash or a hang is a bug.
void run(Bytes input);

/// The number of inputs accepted so far, not rejected.
inline std::int64_t num_read = 0;

/// Ends the program if an invariant does not hold, as a crash that a fuzzer detects.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

inline std::string text_of(Bytes input) {
  return {input.begin(), input.end()};
}

/// Writes a file with this content, replacing that of the previous input.
inline std::filesystem::path file_with(std::string_view content, const std::string& name) {
  static const testing_support::ScratchFolder folder;
  const std::filesystem::path path = folder / name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

/// Reads numbers from an input; returns zeros once it is used up.
class Numbers {
 public:
  explicit Numbers(Bytes input) : input_(input) {}

  [[nodiscard]] bool empty() const noexcept { return input_.empty(); }
  std::uint8_t byte() noexcept {
    if (input_.empty()) return 0;
    const std::uint8_t first = input_.front();
    input_ = input_.subspan(1);
    return first;
  }
  /// Returns a number from 0 to below `end`, from two bytes.
  std::int64_t below(std::int64_t end) noexcept {
    const std::int64_t high = byte();
    return (high << 8 | byte()) % end;
  }
  bool flag() noexcept { return (byte() & 1) != 0; }

 private:
  Bytes input_;
};

}  // namespace evenkeel::fuzz
