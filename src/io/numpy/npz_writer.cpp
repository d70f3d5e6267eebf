#include <zlib.h>

#include <bit>
#include <set>
#include <string>
#include <type_traits>

#include "evenkeel/base/error.hpp"
#include "io/files/atomic_file.hpp"
#include "io/numpy/npy_header.hpp"
#include "io/samples/tensor_stream.hpp"

// A zip file of stored members, by PKWARE's APPNOTE 6.3.9: a local header and the bytes of each, then the
// directory. Sizes stand in fields of 64 bits (zip64), as NumPy writes them.
namespace evenkeel {
namespace {

constexpr std::uint16_t version_with_zip64 = 45;
constexpr std::uint16_t date_of_1980 =
    0x21;  // the first day there is, so that equal content gives equal files
constexpr std::uint32_t in_zip64 = 0xffffffff;
constexpr std::int64_t crc_at = 14;  // in a local header

struct Member {
  std::string name;
  std::uint32_t crc = 0;
  std::uint64_t bytes = 0;
  std::uint64_t begin = 0;  ///< of the local header
};

template <typename T>
void put(std::string& text, T number) {
  for (std::size_t byte = 0; byte < sizeof(T); ++byte)
    text += static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * byte) & 0xff);
}

/// What local headers and entries of the directory have in common.
void put_common(std::string& text, const Member& member, std::uint16_t extra) {
  put<std::uint16_t>(text, version_with_zip64);
  put<std::uint16_t>(text, 0);  // flags
  put<std::uint16_t>(text, 0);  // stored
  put<std::uint16_t>(text, 0);  // midnight
  put<std::uint16_t>(text, date_of_1980);
  put<std::uint32_t>(text, member.crc);
  put<std::uint32_t>(text, in_zip64);
  put<std::uint32_t>(text, in_zip64);
  put<std::uint16_t>(text, static_cast<std::uint16_t>(member.name.size()));
  put<std::uint16_t>(text, extra);
}

std::string local_header(const Member& member) {
  std::string text;
  put<std::uint32_t>(text, 0x04034b50);
  put_common(text, member, 20);
  text += member.name;
  put<std::uint16_t>(text, 1);
  put<std::uint16_t>(text, 16);
  put<std::uint64_t>(text, member.bytes);
  put<std::uint64_t>(text, member.bytes);
  return text;
}

std::string directory_entry(const Member& member) {
  std::string text;
  put<std::uint32_t>(text, 0x02014b50);
  put<std::uint16_t>(text, version_with_zip64 | 3U << 8U);  // made on a system like Unix
  put_common(text, member, 28);
  put<std::uint16_t>(text, 0);  // comment
  put<std::uint16_t>(text, 0);  // disk
  put<std::uint16_t>(text, 0);  // internal attributes
  put<std::uint32_t>(text, 0600U << 16U);
  put<std::uint32_t>(text, in_zip64);
  text += member.name;
  put<std::uint16_t>(text, 1);
  put<std::uint16_t>(text, 24);
  put<std::uint64_t>(text, member.bytes);
  put<std::uint64_t>(text, member.bytes);
  put<std::uint64_t>(text, member.begin);
  return text;
}

std::string end_of_directory(std::uint64_t members, std::uint64_t begin, std::uint64_t bytes) {
  std::string text;
  put<std::uint32_t>(text, 0x06064b50);
  put<std::uint64_t>(text, 44);
  put<std::uint16_t>(text, version_with_zip64 | 3U << 8U);
  put<std::uint16_t>(text, version_with_zip64);
  put<std::uint32_t>(text, 0);
  put<std::uint32_t>(text, 0);
  put<std::uint64_t>(text, members);
  put<std::uint64_t>(text, members);
  put<std::uint64_t>(text, bytes);
  put<std::uint64_t>(text, begin);
  put<std::uint32_t>(text, 0x07064b50);  // where that is
  put<std::uint32_t>(text, 0);
  put<std::uint64_t>(text, begin + bytes);
  put<std::uint32_t>(text, 1);
  put<std::uint32_t>(text, 0x06054b50);  // the end that old readers look for
  put<std::uint16_t>(text, 0xffff);
  put<std::uint16_t>(text, 0xffff);
  put<std::uint16_t>(text, 0xffff);
  put<std::uint16_t>(text, 0xffff);
  put<std::uint32_t>(text, in_zip64);
  put<std::uint32_t>(text, in_zip64);
  put<std::uint16_t>(text, 0);
  return text;
}

/// A file of which it is known how much was written.
class CountedFile {
 public:
  explicit CountedFile(const std::filesystem::path& path) : file_(path) {}

  void write(std::span<const std::byte> bytes) {
    file_.write(bytes);
    written_ += bytes.size();
  }
  void write(const std::string& text) { write(std::as_bytes(std::span(text))); }
  [[nodiscard]] std::uint64_t written() const noexcept { return written_; }
  AtomicFile& file() noexcept { return file_; }

 private:
  AtomicFile file_;
  std::uint64_t written_ = 0;
};

Member write_member(CountedFile& file, const TensorStream& tensor, const std::string& path) {
  const std::string where = path + ":" + tensor.name;
  const npy::Preamble preamble = npy::preamble_for(tensor.dtype, tensor.shape, where);
  Member member{tensor.name + ".npy", 0, preamble.text.size() + preamble.data_bytes, file.written()};
  if (member.name.size() > 0xffff) throw InputError(where, "has a name of more than 65535 bytes");
  file.write(local_header(member));
  const auto add = [&](std::span<const std::byte> bytes) {
    member.crc = static_cast<std::uint32_t>(
        crc32_z(member.crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
    file.write(bytes);
  };
  add(std::as_bytes(std::span(preamble.text)));
  std::size_t data_bytes = 0;
  tensor.write([&](std::span<const std::byte> bytes) {
    if (bytes.empty()) return;  // zlib would begin anew
    add(bytes);
    data_bytes += bytes.size();
  });
  npy::require_bytes(tensor.dtype, tensor.shape, data_bytes, preamble.data_bytes, where);
  std::string crc;
  put<std::uint32_t>(crc, member.crc);
  file.file().rewrite(std::as_bytes(std::span(crc)), static_cast<std::int64_t>(member.begin) + crc_at);
  return member;
}

}  // namespace

void write_npz(const std::filesystem::path& path, std::span<const TensorStream> tensors) {
  CountedFile file(path);
  std::set<std::string> names;
  std::string directory;
  for (const TensorStream& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      throw InputError(path.string(), "should hold '" + tensor.name + "' twice");
    directory += directory_entry(write_member(file, tensor, path.string()));
  }
  const std::uint64_t begin = file.written();
  file.write(directory);
  file.write(end_of_directory(tensors.size(), begin, directory.size()));
  file.file().commit();
}

}  // namespace evenkeel
