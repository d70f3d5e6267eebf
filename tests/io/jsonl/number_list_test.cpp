#include "io/jsonl/number_list.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace evenkeel {
namespace {

using nlohmann::json;

/// Returns what is found in a list that is written this way, followed by other text. If another bracket ends
/// the list, `list` is truncated there.
std::optional<NumberList> scanned(std::string list, char behind, std::string* cut = nullptr) {
  std::string text = list + std::string(15, behind);
  text.resize(list.size() + number_list_padding);  // with zeros
  const std::optional<NumberList> found = scan_number_list(text.data() + 1);
  if (!found) return found;
  list.resize(static_cast<std::size_t>(found->end - text.data()));
  EXPECT_TRUE(text.starts_with(list) && list.back() == ']') << text;
  if (cut != nullptr) *cut = list;
  return found;
}

TEST(NumberList, counts_whole_numbers) {
  for (const char* list : {"[1,20,300]", "[1, 20, 300]"}) {
    const auto found = scanned(list, ',');
    ASSERT_TRUE(found) << list;
    EXPECT_EQ(found->count, 3);
    EXPECT_FALSE(found->has_reals);
    EXPECT_FALSE(found->has_negatives);
  }
  EXPECT_EQ(scanned("[]", '1')->count, 0);
}

TEST(NumberList, detects_real_and_negative_numbers) {
  EXPECT_TRUE(scanned("[1, 0.5]", '1')->has_reals);
  EXPECT_TRUE(scanned("[1, 2e-05]", '1')->has_reals);
  EXPECT_FALSE(scanned("[1, 2e-05]", '1')->has_negatives);
  EXPECT_TRUE(scanned("[1, -2]", '1')->has_negatives);
}

TEST(NumberList, finds_numbers_that_float32_may_round) {
  for (const char* list : {"[1, 9999999]", "[0.123456789, 1234567.5]", "[-1234567]"})
    EXPECT_FALSE(scanned(list, '1')->has_wide) << list;
  std::string across_blocks = "[";
  while (across_blocks.size() < 60) across_blocks += "1,";
  for (const std::string& list : {std::string("[1, 12345678]"), std::string("[0.5, -12345678]"),
                                  across_blocks + "12345678]", across_blocks + "12345678.25]"})
    EXPECT_TRUE(scanned(list, '9')->has_wide) << list;
}

TEST(NumberList, is_limited_to_the_maximum_length) {
  std::string list = "[";
  for (int i = 0; i < 10'000; ++i) list += std::to_string(i * 37) + (i % 3 == 0 ? ".25," : ", ");
  list += "7]";
  EXPECT_EQ(scanned(list, '9')->count, 10'001);
}

/// Lists that are valid or almost valid, independent of block boundaries.
class MadeUpLists {
 public:
  std::string next() {
    std::string list = "[";
    for (std::size_t i = 0, size = below(30); i < size; ++i) {
      if (i > 0) list += below(3) == 0 ? ", " : ",";
      list += number();
    }
    list += ']';
    if (below(2) == 0) return list;
    constexpr std::string_view letters = "0123456789,,. --eE+]1";
    list[1 + below(list.size() - 1)] = letters[below(letters.size())];
    return list;
  }

 private:
  std::size_t below(std::size_t end) { return random_() % end; }

  std::string number() {
    const std::string whole = (below(5) == 0 ? "-" : "") + std::to_string(random_() >> below(64));
    switch (below(4)) {
      case 0:
        return "0." + std::to_string(random_());
      case 1:
        return whole + "." + std::to_string(below(1000)) + "e-" + std::to_string(below(100));
      default:
        return whole;
    }
  }

  std::mt19937_64 random_{1};
};

TEST(NumberList, matches_a_parser_or_is_null) {
  MadeUpLists lists;
  int plain = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string list;
    const auto found = scanned(lists.next(), '7', &list);
    if (!found) continue;
    ++plain;
    const json parsed = json::parse(list, nullptr, false);
    ASSERT_TRUE(parsed.is_array()) << list;
    EXPECT_EQ(std::ssize(parsed), found->count) << list;
    bool has_reals = false;
    for (const json& number : parsed) {
      has_reals = has_reals || number.is_number_float();
      const bool fits = !number.is_number_unsigned() ||
                        number.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max();
      EXPECT_TRUE(fits) << list;
      EXPECT_LE(std::abs(number.get<double>()), std::numeric_limits<float>::max()) << list;
      EXPECT_TRUE(found->has_negatives || number.get<double>() >= 0) << list;
    }
    EXPECT_EQ(has_reals, found->has_reals) << list;
  }
  EXPECT_GT(plain, 1000);
}

}  // namespace
}  // namespace evenkeel
