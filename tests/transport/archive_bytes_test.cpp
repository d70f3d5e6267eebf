#include "transport/archive_bytes.hpp"

#include <gtest/gtest.h>

#include <boost/serialization/map.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using Numbers = std::map<std::string, std::vector<std::int64_t>>;

const Numbers numbers{{"few", {1, 2, 3}}, {"none", {}}, {"one more", {-7}}};

template <typename T>
T read(const std::string& bytes) {
  T value;
  from_archive(bytes, value);
  return value;
}

TEST(Archive, is_read_as_it_was_written) {
  EXPECT_EQ(read<Numbers>(to_archive(numbers)), numbers);
  EXPECT_EQ(read<std::vector<bool>>(to_archive(std::vector{true, false})), (std::vector{true, false}));
}

TEST(Archive, that_is_cut_off_anywhere_is_refused) {
  const std::string whole = to_archive(numbers);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(read<Numbers>(whole.substr(0, size)), InputError) << size;
}

// Room for as many elements as are said, before the first is read, would be terabytes.
TEST(Archive, whose_sizes_are_above_the_bytes_that_are_left_is_refused) {
  const std::string whole = to_archive(std::vector<std::string>{"a name"});
  for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{6}}) {
    std::string changed = whole;
    const std::string number(reinterpret_cast<const char*>(&size), sizeof size);
    const std::size_t at = whole.find(number);
    ASSERT_NE(at, std::string::npos);
    const std::uint64_t terabytes = std::uint64_t{1} << 42;
    std::memcpy(changed.data() + at, &terabytes, sizeof terabytes);
    EXPECT_THROW(read<std::vector<std::string>>(changed), InputError);
  }
}

TEST(Archive, of_what_is_neither_true_nor_false_is_refused) {
  std::string changed = to_archive(true);
  ASSERT_EQ(changed.size(), 1U);
  changed[0] = 2;
  EXPECT_THROW(read<bool>(changed), InputError);
}

}  // namespace
}  // namespace evenkeel
