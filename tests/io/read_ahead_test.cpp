#include "io/files/input_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "io/temporary_file.hpp"

namespace evenkeel {
namespace {

using testing_support::TemporaryFile;

const std::int64_t page = ::sysconf(_SC_PAGESIZE);
constexpr std::int64_t read_unit = std::int64_t{1} << 20;

/// A file on disk that is not in the page cache, as far as the system can evict it.
class UncachedFile {
 public:
  explicit UncachedFile(std::int64_t bytes)
      : file_(std::string(static_cast<std::size_t>(bytes), 'x'), ".bin"),
        descriptor_(::open(file_.path().c_str(), O_RDWR | O_CLOEXEC)),
        input_(file_.path()) {
    ::fsync(descriptor_);
    ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
    map_ = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ, MAP_SHARED, descriptor_, 0);
  }
  ~UncachedFile() {
    ::munmap(map_, static_cast<std::size_t>(input_.size()));
    ::close(descriptor_);
  }
  UncachedFile(const UncachedFile&) = delete;
  UncachedFile& operator=(const UncachedFile&) = delete;

  [[nodiscard]] const InputFile& input() const noexcept { return input_; }

  /// Returns which pages of the range are in the cache, without loading them.
  [[nodiscard]] std::int64_t pages_cached(ByteRange range) const {
    const std::int64_t first = range.begin / page;
    std::vector<unsigned char> pages(static_cast<std::size_t>((range.end + page - 1) / page - first));
    ::mincore(static_cast<char*>(map_) + first * page, static_cast<std::size_t>(range.end - first * page),
              pages.data());
    return std::ranges::count_if(pages, [](unsigned char state) { return (state & 1) != 0; });
  }
  [[nodiscard]] bool is_cached_in_the_end(ByteRange range) const {
    const std::int64_t pages = (range.end + page - 1) / page - range.begin / page;
    for (int i = 0; i < 200 && pages_cached(range) < pages; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return pages_cached(range) == pages;
  }

 private:
  TemporaryFile file_;
  int descriptor_;
  InputFile input_;
  void* map_ = MAP_FAILED;
};

/// Returns whether the file system of this folder evicts and prefetches pages on request.
bool follows_hints() {
  const UncachedFile file(page);
  if (file.pages_cached({0, page}) != 0) return false;
  file.input().prefetch({0, page});
  return file.is_cached_in_the_end({0, page});
}

TEST(ReadAhead, records_ranges_up_to_its_limit) {
  const UncachedFile file(1);  // its size does not matter, because nothing is requested
  ReadAhead ahead;
  ahead.add(file.input(), {0, ReadAhead::max_bytes - 10});
  EXPECT_EQ(ahead.bytes(), ReadAhead::max_bytes - 10);
  ahead.add(file.input(), {0, 11});
  EXPECT_EQ(ahead.bytes(), ReadAhead::max_bytes - 10);
  ahead.add(file.input(), {0, 10});
  EXPECT_EQ(ahead.bytes(), ReadAhead::max_bytes);
}

TEST(ReadAhead, ignores_empty_ranges) {
  const UncachedFile file(page);
  ReadAhead ahead;
  ahead.add(file.input(), {100, 100});
  EXPECT_EQ(ahead.bytes(), 0);
  ahead.start();
}

TEST(ReadAhead, is_empty_after_each_start) {
  const UncachedFile file(page);
  ReadAhead ahead;
  ahead.start();
  for (int i = 0; i < 2; ++i) {
    ahead.add(file.input(), {0, page});
    EXPECT_EQ(ahead.bytes(), page);
    ahead.start();
    EXPECT_EQ(ahead.bytes(), 0);
  }
}

/// Returns whether the condition holds within a few attempts: a busy system may ignore a hint.
bool comes_true(const std::function<bool()>& attempt) {
  for (int i = 0; i < 5; ++i)
    if (attempt()) return true;
  return false;
}

TEST(ReadAhead, reads_ranges_of_several_files_in_any_order) {
  if (!follows_hints())
    GTEST_SKIP() << "files of this folder are always in the cache, or never before a read";
  EXPECT_TRUE(comes_true([] {
    const UncachedFile first(4 * read_unit);
    const UncachedFile second(4 * read_unit);
    const ByteRange late{3 * read_unit + 5, 3 * read_unit + 5000};
    const ByteRange early{10, 200};
    const ByteRange end{4 * read_unit - 7, 4 * read_unit};
    ReadAhead ahead;
    ahead.add(first.input(), late);
    ahead.add(second.input(), end);
    ahead.add(first.input(), early);
    ahead.add(second.input(), early);
    ahead.start();
    return first.is_cached_in_the_end(late) && first.is_cached_in_the_end(early) &&
           second.is_cached_in_the_end(end) && second.is_cached_in_the_end(early);
  }));
}

TEST(ReadAhead, also_reads_small_gaps_between_ranges) {
  if (!follows_hints())
    GTEST_SKIP() << "files of this folder are always in the cache, or never before a read";
  constexpr std::int64_t size = 4096;
  constexpr std::int64_t apart = std::int64_t{64} << 10;
  EXPECT_TRUE(comes_true([&] {
    const UncachedFile file(4 * read_unit);
    ReadAhead ahead;
    for (std::int64_t begin = read_unit; begin < 2 * read_unit; begin += apart)
      ahead.add(file.input(), {begin, begin + size});
    ahead.add(file.input(), {read_unit, read_unit + 2 * size});  // the same range again, then a longer one
    ahead.start();
    return file.is_cached_in_the_end({read_unit, 2 * read_unit - apart + size});
  }));
}

}  // namespace
}  // namespace evenkeel
