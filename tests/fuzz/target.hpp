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

/// One fuzz target: what it does with an input that nobody chose. Returning is fine, and so is throwing an
/// Error. Any other exception, a crash and a hang are defects.
void run(Bytes input);

/// Inputs that were read rather than refused, so far.
inline std::int64_t num_read = 0;

/// Ends the program when what must hold does not, as a crash that a fuzzer sees.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

inline std::string text_of(Bytes input) {
  return {input.begin(), input.end()};
}

/// A file of this content, over the one of the input before.
inline std::filesystem::path file_with(std::string_view content, const std::string& name) {
  static const testing_support::ScratchFolder folder;
  const std::filesystem::path path = folder / name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

/// Takes an input apart into numbers: zeros once it is used up.
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
  /// From 0 to below `end`, of two bytes.
  std::int64_t below(std::int64_t end) noexcept {
    const std::int64_t high = byte();
    return (high << 8 | byte()) % end;
  }
  bool flag() noexcept { return (byte() & 1) != 0; }

 private:
  Bytes input_;
};

}  // namespace evenkeel::fuzz
