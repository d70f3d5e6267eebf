#include "base/text_layout.hpp"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

TEST(Counted, uses_singular_and_plural) {
  EXPECT_EQ(format_count(0, "sample"), "0 samples");
  EXPECT_EQ(format_count(1, "sample"), "1 sample");
  EXPECT_EQ(format_count(1234567, "sample"), "1,234,567 samples");
  EXPECT_EQ(format_count(2, "micro-batch", "micro-batches"), "2 micro-batches");
  EXPECT_EQ(format_plain_count(1, "rank"), "1 rank");
  EXPECT_EQ(format_plain_count(1234, "rank"), "1234 ranks");
  EXPECT_EQ(format_with_commas(-1234), "-1,234");
  EXPECT_EQ(format_with_commas(-123), "-123");
}

TEST(Bytes, are_printed_in_a_suitable_unit) {
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(std::int64_t{3} << 20), "3.0 MiB");
  EXPECT_EQ(bytes_text(std::int64_t{5} << 29), "2.50 GiB");
}

TEST(Alarm, is_colored_only_on_terminals_with_colors) {
  EXPECT_EQ(format_bold_red("broken", false), "broken");
  EXPECT_EQ(format_bold_red("broken", true), "\033[1;31mbroken\033[0m");
}

TextTable ways() {
  TextTable table({{"way"}, {"micro-batches", TextTable::Align::right}, {"note"}});
  table.add({"source order", "17", "as samples come from the source"});
  table.add({"verl", "4", ""});
  return table;
}

TEST(TextTable, has_columns_as_wide_as_they_need_to_be) {
  EXPECT_EQ(ways().to_text(),
            "way           micro-batches  note\n"
            "source order             17  as samples come from the source\n"
            "verl                      4\n");
}

TEST(TextTable, has_headings_of_several_lines) {
  TextTable table({{"way"}, {"micro-\nbatches"}, {"a\nb"}});
  table.add({"verl", "4", "5"});
  EXPECT_EQ(table.to_text(), "way   micro-   a\n      batches  b\nverl  4        5\n");
}

TEST(TextTable, leaves_out_columns_without_content) {
  TextTable table({{"a"}, {""}, {"b"}});
  table.add({"1", "", "2"});
  EXPECT_EQ(table.to_text(), "a  b\n1  2\n");
}

}  // namespace
}  // namespace evenkeel
