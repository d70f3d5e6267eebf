#include "base/text_layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using testing::ElementsAre;

TEST(Wrapped, breaks_at_spaces_and_never_in_a_word) {
  EXPECT_THAT(wrapped("one two three four", 9), ElementsAre("one two", "three", "four"));
  EXPECT_THAT(wrapped("a micro_batch.max_tokens b", 5), ElementsAre("a", "micro_batch.max_tokens", "b"));
  EXPECT_THAT(wrapped("", 5), ElementsAre(""));
  EXPECT_THAT(wrapped("word", 0), ElementsAre("word"));
}

TEST(Wrapped, keeps_line_ends_and_indents_the_rest_of_an_indented_line) {
  EXPECT_THAT(wrapped("a\n\nb", 5), ElementsAre("a", "", "b"));
  EXPECT_THAT(wrapped("  ab cd ef", 7), ElementsAre("  ab cd", "  ef"));
}

TEST(Wrapped, counts_characters_not_bytes_and_keeps_what_belongs_together) {
  EXPECT_THAT(wrapped("äöü äöü x", 7), ElementsAre("äöü äöü", "x"));
  EXPECT_THAT(wrapped(kept_together("plan 0.1,") + " " + kept_together("pack 0.2"), 10),
              ElementsAre("plan 0.1,", "pack 0.2"));
}

TEST(Labelled, puts_long_texts_beside_their_label_or_below_it_where_there_is_no_room) {
  EXPECT_EQ(labelled("  steps", "8", 10, 20), "  steps   8\n");
  EXPECT_EQ(labelled("  steps", "one two three", 10, 20), "  steps   one two\n          three\n");
  EXPECT_EQ(labelled("  a longer label", "x", 10, 30), "  a longer label\n          x\n");
  EXPECT_EQ(labelled("  label", "one two three", 30, 16), "  label\n      one two\n      three\n");
  EXPECT_EQ(labelled("  label", "1", 30, 31), "  label\n      1\n");  // as its neighbours that need more
}

TEST(Counted, tells_one_from_many) {
  EXPECT_EQ(counted(0, "sample"), "0 samples");
  EXPECT_EQ(counted(1, "sample"), "1 sample");
  EXPECT_EQ(counted(1234567, "sample"), "1,234,567 samples");
  EXPECT_EQ(counted(2, "micro-batch", "micro-batches"), "2 micro-batches");
  EXPECT_EQ(number_of(1, "rank"), "1 rank");
  EXPECT_EQ(number_of(1234, "rank"), "1234 ranks");
  EXPECT_EQ(grouped(-1234), "-1,234");
  EXPECT_EQ(grouped(-123), "-123");
}

TEST(Bytes, are_told_in_the_unit_that_suits_them) {
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(std::int64_t{3} << 20), "3.0 MiB");
  EXPECT_EQ(bytes_text(std::int64_t{5} << 29), "2.50 GiB");
}

TEST(Alarm, colours_only_where_there_are_colours_and_takes_no_room) {
  EXPECT_EQ(in_alarm("broken", {}), "broken");
  const std::string red = in_alarm("broken", {.colour = true});
  EXPECT_NE(red, "broken");
  EXPECT_EQ(text_width(red), 6U);
}

TextTable ways() {
  TextTable table({{"way"}, {"micro-batches", TextTable::Align::right}, {"note"}});
  table.add({"source order", "17", "as samples come from the source"});
  table.add({"verl", "4", ""});
  return table;
}

TEST(TextTable, has_columns_as_wide_as_they_need_to_be) {
  EXPECT_EQ(ways().to_text(80),
            "way           micro-batches  note\n"
            "source order             17  as samples come from the source\n"
            "verl                      4\n");
}

TEST(TextTable, wraps_its_widest_columns_where_the_line_is_short) {
  EXPECT_EQ(ways().to_text(45),
            "way           micro-batches  note\n"
            "source order             17  as samples come\n"
            "                             from the source\n"
            "verl                      4\n");
}

TEST(TextTable, becomes_a_list_where_not_even_words_have_room) {
  EXPECT_EQ(ways().to_text(24),
            "way\n"
            "source order\n"
            "  micro-batches: 17\n"
            "  note: as samples come\n"
            "  from the source\n"
            "verl\n"
            "  micro-batches: 4\n");
}

TEST(TextTable, never_writes_past_the_width_while_words_fit) {
  for (std::size_t width = 13; width < 80; ++width) {
    const std::string text = ways().to_text(width);
    std::size_t begin = 0;
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
      // "micro-batches: 17" is one word and the indent and cell that follow it.
      EXPECT_LE(end - begin, std::max<std::size_t>(width, 16)) << text;
      begin = end + 1;
    }
  }
}

TEST(TextTable, joins_headings_of_several_lines_in_a_list) {
  TextTable table({{"way"}, {"micro-\nbatches"}, {"a\nb"}});
  table.add({"verl", "4", "5"});
  EXPECT_EQ(table.to_text(10), "way\nverl\n  micro-batches:\n  4\n  a b: 5\n");
  EXPECT_EQ(table.to_text(80), "way   micro-   a\n      batches  b\nverl  4        5\n");
}

TEST(TextTable, leaves_out_columns_without_content) {
  TextTable table({{"a"}, {""}, {"b"}});
  table.add({"1", "", "2"});
  EXPECT_EQ(table.to_text(80), "a  b\n1  2\n");
}

}  // namespace
}  // namespace evenkeel
