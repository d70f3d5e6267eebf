#include "io/files/unpacking.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "io/temporary_file.hpp"
#include "support/packed_text.hpp"

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing_support::gzipped;
using testing_support::report_of;
using testing_support::TemporaryFile;
using testing_support::zstd_packed;

std::string unpacked(const TemporaryFile& file) {
  const InputFile open(file.path());
  std::string text;
  unpack(open, detect_packing(open), [&](std::span<const char> bytes) {
    EXPECT_LE(bytes.size(), std::size_t{1} << 20);
    text.append(bytes.begin(), bytes.end());
  });
  return text;
}

/// Returns a text longer than a block, both compressed and decompressed.
std::string long_text() {
  std::mt19937_64 random(7);
  std::string text;
  while (text.size() < std::size_t{5} << 20) text += std::to_string(random()) + "\n";
  return text;
}

TEST(Unpacking, returns_all_members_and_frames) {
  const std::string text = long_text();
  for (const auto& pack :
       {+[](std::string_view t) { return gzipped(t); }, +[](std::string_view t) { return zstd_packed(t); }}) {
    EXPECT_EQ(unpacked(TemporaryFile(pack(text), ".x")), text);
    EXPECT_EQ(unpacked(TemporaryFile(pack("ab") + pack("") + pack("c"), ".x")), "abc");
    EXPECT_EQ(unpacked(TemporaryFile(pack(""), ".x")), "");
    const std::string zeros(std::size_t{9} << 20, '0');
    EXPECT_EQ(unpacked(TemporaryFile(pack(zeros), ".x")), zeros);
  }
}

TEST(Unpacking, compressed_files_are_detected_by_content) {
  EXPECT_EQ(detect_packing(InputFile(TemporaryFile(gzipped("a"), ".txt").path())), Packing::gzip);
  EXPECT_EQ(detect_packing(InputFile(TemporaryFile(zstd_packed("a"), ".gz").path())), Packing::zstd);
  for (const char* text : {"", "{", "{}\n", "\xef\xbb\xbf{}"})
    EXPECT_EQ(detect_packing(InputFile(TemporaryFile(text, ".gz").path())), Packing::none);
}

TEST(Unpacking, refuses_a_file_that_is_cut_off_anywhere_with_its_name_and_place) {
  for (const std::string& packed : {gzipped("some text\n"), zstd_packed("some text\n")}) {
    for (std::size_t size = 4; size < packed.size(); ++size) {
      const TemporaryFile file(packed.substr(0, size), ".x");
      const ErrorReport report = report_of<InputError>([&] { (void)unpacked(file); });
      EXPECT_EQ(report.where, file.path());
      EXPECT_EQ(report.message,
                "cannot be decompressed at byte " + std::to_string(size) + ": it ends too early");
    }
  }
}

TEST(Unpacking, a_flipped_bit_gives_an_error_or_the_same_text) {
  const std::string text = "some text, some text\n";
  for (const std::string& packed : {gzipped(text), zstd_packed(text)}) {
    for (std::size_t bit = 0; bit < packed.size() * 8; ++bit) {
      std::string flipped = packed;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      const TemporaryFile file(flipped, ".x");
      if (detect_packing(InputFile(file.path())) == Packing::none) continue;
      try {
        EXPECT_EQ(unpacked(file), text);  // the time and the system in a gzip header are irrelevant
      } catch (const InputError& error) {
        EXPECT_EQ(error.report().where, file.path());
        EXPECT_THAT(error.report().message, HasSubstr("at byte "));
      }
    }
  }
}

TEST(Unpacking, refuses_trailing_bytes) {
  for (const std::string& packed : {gzipped("a"), zstd_packed("a")}) {
    const TemporaryFile file(packed + "rubbish", ".x");
    EXPECT_THAT(report_of<InputError>([&] { (void)unpacked(file); }).message,
                HasSubstr("cannot be decompressed"));
  }
}

TEST(Unpacking, refuses_a_frame_that_needs_more_memory_than_allowed) {
  // A frame header with the largest possible window, and an empty last block.
  const TemporaryFile file(std::string("\x28\xb5\x2f\xfd\x00\xff\x01\x00\x00", 9), ".zst");
  const ErrorReport report = report_of<InputError>([&] { (void)unpacked(file); });
  EXPECT_THAT(report.message, HasSubstr("memory"));
  EXPECT_THAT(report.hint, HasSubstr("without --long"));
}

}  // namespace
}  // namespace evenkeel
