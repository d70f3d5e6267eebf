#include "base/hash.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <set>
#include <span>
#include <vector>

namespace evenkeel {
namespace {

TEST(Hash, fnv1a_matches_published_values) {
  EXPECT_EQ(fnv1a_64(""), 0xcbf29ce484222325U);
  EXPECT_EQ(fnv1a_64("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(fnv1a_64("foobar"), 0x85944171f73967e8U);
}

TEST(Hash, fnv1a_takes_bytes_in_any_number_of_pieces) {
  Fnv1a hash;
  hash.add("foo");
  hash.add("bar");
  EXPECT_EQ(hash.value(), fnv1a_64("foobar"));
}

TEST(Hash, fnv1a_of_a_number_is_that_of_its_eight_bytes_from_the_least_significant_one) {
  Fnv1a hash;
  hash.add(std::int64_t{0x7261626f6f66});  // "foobar"
  EXPECT_EQ(hash.value(), fnv1a_64(std::string_view("foobar\0\0", 8)));
}

TEST(Hash, mixing_keeps_different_numbers_apart_and_changes_about_half_the_bits) {
  std::set<std::uint64_t> mixed;
  int changed = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    mixed.insert(mix_64(i));
    changed += std::popcount(mix_64(i) ^ mix_64(i + 1));
  }
  EXPECT_EQ(mixed.size(), 1000U);
  EXPECT_NEAR(changed / 1000.0, 32, 1);
}

TEST(ByteHash, changes_with_every_byte_and_with_how_many_there_are) {
  std::vector<std::byte> bytes(71,
                               std::byte{3});  // not a multiple of the word size or of the number of lanes
  std::set<std::uint64_t> hashes{hash_of_bytes(bytes)};
  for (std::byte& byte : bytes) {
    byte = std::byte{4};
    hashes.insert(hash_of_bytes(bytes));
  }
  EXPECT_EQ(hashes.size(), 72U);
  const std::vector<std::byte> zeros(100);
  for (std::size_t size = 0; size <= zeros.size(); ++size)
    hashes.insert(hash_of_bytes(std::span(zeros).first(size)));
  EXPECT_EQ(hashes.size(), 72U + 101U);
  EXPECT_EQ(hash_of_bytes(bytes), hash_of_bytes(std::vector(bytes)));
}

}  // namespace
}  // namespace evenkeel
