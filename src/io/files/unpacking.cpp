#include "io/files/unpacking.hpp"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t unpacked_block_bytes = std::int64_t{1} << 20;

/// Reads a compressed file block by block.
class CompressedFile {
 public:
  explicit CompressedFile(const InputFile& file)
      : file_(file), block_(static_cast<std::size_t>(std::min(unpacked_block_bytes, file.size()))) {}

  /// Returns the next block; empty at the end of the file.
  [[nodiscard]] std::span<const char> next() {
    const auto bytes = static_cast<std::size_t>(std::min(unpacked_block_bytes, file_.size() - read_));
    const std::span<char> part = std::span(block_).first(bytes);
    file_.read(part, read_);
    read_ += static_cast<std::int64_t>(bytes);
    return part;
  }

  /// Returns the number of bytes read so far.
  [[nodiscard]] std::int64_t bytes_read() const noexcept { return read_; }

  [[noreturn]] void fail(std::int64_t byte, const std::string& what, const std::string& hint) const {
    throw InputError(file_.path(), "cannot be decompressed at byte " + std::to_string(byte) + ": " + what,
                     hint);
  }

 private:
  const InputFile& file_;
  std::vector<char> block_;
  std::int64_t read_ = 0;
};

constexpr const char* check_gzip_hint = "Check with gzip -t that this is a complete gzip file";
constexpr const char* check_zstd_hint = "Check with zstd -t that this is a complete zstd file";

/// Decompression state of zlib for gzip files, including the pointers to its input and output.
class Inflation {
 public:
  Inflation() {
    constexpr int gzip_of_any_window = 15 + 16;
    if (inflateInit2(&stream_, gzip_of_any_window) != Z_OK) throw std::bad_alloc();
  }
  Inflation(const Inflation&) = delete;
  Inflation& operator=(const Inflation&) = delete;
  ~Inflation() { inflateEnd(&stream_); }

  z_stream& stream() noexcept { return stream_; }
  /// Resets the state for the next member of the gzip file. Keeps the remaining input.
  void restart() noexcept { inflateReset(&stream_); }

 private:
  z_stream stream_{};
};

void unpack_gzip(const InputFile& file, const std::function<void(std::span<const char>)>& take) {
  CompressedFile packed(file);
  Inflation inflation;
  z_stream& stream = inflation.stream();
  std::vector<char> out(unpacked_block_bytes);
  bool in_member = true;
  while (true) {
    if (stream.avail_in == 0) {
      const std::span<const char> more = packed.next();
      if (more.empty()) break;
      // zlib only reads through this pointer, but it is not const
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(more.data()));
      stream.avail_in = static_cast<uInt>(more.size());
    }
    if (!in_member) inflation.restart();
    in_member = true;
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    const int status = inflate(&stream, Z_NO_FLUSH);
    const std::int64_t place = packed.bytes_read() - static_cast<std::int64_t>(stream.avail_in);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      packed.fail(place, stream.msg != nullptr ? stream.msg : "it is damaged", check_gzip_hint);
    take(std::span(out).first(out.size() - stream.avail_out));
    in_member = status != Z_STREAM_END;
  }
  if (in_member) packed.fail(packed.bytes_read(), "it ends too early", check_gzip_hint);
}

struct FreeStream {
  void operator()(ZSTD_DStream* stream) const noexcept { ZSTD_freeDStream(stream); }
};

void unpack_zstd(const InputFile& file, const std::function<void(std::span<const char>)>& take) {
  CompressedFile packed(file);
  const std::unique_ptr<ZSTD_DStream, FreeStream> stream(ZSTD_createDStream());
  if (!stream) throw std::bad_alloc();
  std::vector<char> out(unpacked_block_bytes);
  std::size_t wanted = 1;  // result of ZSTD_decompressStream(): 0 at the end of a frame
  bool is_full = false;    // whether the decoder may have more output without more input
  ZSTD_inBuffer in{nullptr, 0, 0};
  while (true) {
    if (in.pos == in.size && !is_full) {
      const std::span<const char> more = packed.next();
      if (more.empty()) break;
      in = {more.data(), more.size(), 0};
    }
    ZSTD_outBuffer room{out.data(), out.size(), 0};
    wanted = ZSTD_decompressStream(stream.get(), &room, &in);
    if (ZSTD_isError(wanted) != 0) {
      const ZSTD_ErrorCode code = ZSTD_getErrorCode(wanted);
      if (code == ZSTD_error_memory_allocation) throw std::bad_alloc();
      const bool is_wide = code == ZSTD_error_frameParameter_windowTooLarge;
      packed.fail(
          packed.bytes_read() - static_cast<std::int64_t>(in.size - in.pos), ZSTD_getErrorName(wanted),
          is_wide ? "Compress it with zstd without --long, or with --long=27 at most" : check_zstd_hint);
    }
    take(std::span(out).first(room.pos));
    is_full = room.pos == room.size && wanted != 0;
  }
  if (wanted != 0) packed.fail(packed.bytes_read(), "it ends too early", check_zstd_hint);
}

}  // namespace

Packing detect_packing(const InputFile& file) {
  std::array<unsigned char, 4> start{};
  if (file.size() < std::ssize(start)) return Packing::none;
  file.read({reinterpret_cast<char*>(start.data()), start.size()}, 0);
  if (start[0] == 0x1f && start[1] == 0x8b) return Packing::gzip;
  const bool is_frame = start[0] == 0x28 && start[1] == 0xb5 && start[2] == 0x2f && start[3] == 0xfd;
  const bool is_skipped = start[0] >> 4U == 5 && start[1] == 0x2a && start[2] == 0x4d && start[3] == 0x18;
  return is_frame || is_skipped ? Packing::zstd : Packing::none;
}

void unpack(const InputFile& file, Packing packing, const std::function<void(std::span<const char>)>& take) {
  EVENKEEL_PRECONDITION(cheap, packing != Packing::none, file.path());
  if (packing == Packing::gzip) return unpack_gzip(file, take);
  unpack_zstd(file, take);
}

}  // namespace evenkeel
