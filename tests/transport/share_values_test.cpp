#include "transport/gather_lists.hpp"

#include <gtest/gtest.h>

#include <boost/serialization/map.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

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

TEST(Archive, round_trips) {
  EXPECT_EQ(read<Numbers>(to_archive(numbers)), numbers);
  EXPECT_EQ(read<std::vector<bool>>(to_archive(std::vector{true, false})), (std::vector{true, false}));
}

}  // namespace
}  // namespace evenkeel
