#include "evenkeel/io/length_table.hpp"

#include "evenkeel/base/hash.hpp"
#include "io/temporary_file.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::report_of;
using testing_support::TemporaryFile;

std::vector<LengthRow> read(const std::string& text, const std::string& ending) {
  const TemporaryFile file(text, ending);
  return read_length_table(file.path());
}

/// What reading this file throws; the error must be at this line.
ErrorReport reading_fails(const std::string& text, const std::string& ending, int line) {
  const TemporaryFile file(text, ending);
  ErrorReport report = report_of<InputError>([&] { (void)read_length_table(file.path()); });
  EXPECT_EQ(report.where, file.line(line));
  return report;
}

TEST(LengthTable, a_csv_gives_prompt_and_response_lengths) {
  EXPECT_THAT(read("prompt_length,response_length\n6758,500\n7322,490\n", ".csv"),
              ElementsAre(LengthRow{6758, 500, mix_64(1)}, LengthRow{7322, 490, mix_64(2)}));
}

TEST(LengthTable, columns_may_come_in_any_order_with_others_between) {
  EXPECT_THAT(read("response_length,time,uid,prompt_length\n1,0.5,a,2\n3,,\"b,\"\"c\",4\n", ".csv"),
              ElementsAre(LengthRow{2, 1, fnv1a_64("a")}, LengthRow{4, 3, fnv1a_64("b,\"c")}));
}

TEST(LengthTable, length_alone_is_all_response) {
  EXPECT_THAT(read("length\n12\n0\n", ".csv"),
              ElementsAre(LengthRow{0, 12, mix_64(1)}, LengthRow{0, 0, mix_64(2)}));
  EXPECT_THAT(read("{\"length\": 12}\n", ".jsonl"), ElementsAre(LengthRow{0, 12, mix_64(0)}));
}

TEST(LengthTable, spreadsheets_csv_is_read) {
  EXPECT_THAT(read("\xef\xbb\xbf\"prompt_length\", \"response_length\"\r\n 1 ,\"2\"\r\n\r\n3,4", ".csv"),
              ElementsAre(LengthRow{1, 2, mix_64(1)}, LengthRow{3, 4, mix_64(3)}));
}

TEST(LengthTable, a_row_without_a_uid_is_a_group_of_its_own) {
  const std::vector<LengthRow> rows = read("uid,length\n,1\n,1\nu,1\nu,1\n", ".csv");
  EXPECT_NE(rows[0].group, rows[1].group);
  EXPECT_EQ(rows[2].group, rows[3].group);
}

TEST(LengthTable, jsonl_may_hold_rollouts_or_lengths) {
  EXPECT_THAT(read("{\"uid\": \"a\", \"prompt_ids\": [1, 2], \"response_ids\": [3]}\n"
                   "\n"
                   "{\"uid\": 9, \"response_length\": 5, \"prompt_length\": 4}\n",
                   ".jsonl"),
              ElementsAre(LengthRow{2, 1, fnv1a_64("a")}, LengthRow{4, 5, 9}));
}

TEST(LengthTable, a_header_alone_or_an_empty_jsonl_gives_no_rows) {
  EXPECT_THAT(read("length\n", ".csv"), IsEmpty());
  EXPECT_THAT(read("", ".jsonl"), IsEmpty());
}

TEST(LengthTable, a_csv_without_the_columns_is_an_error_that_lists_them) {
  const ErrorReport report = reading_fails("prompt_length,tokens\n1,2\n", ".csv", 1);
  EXPECT_EQ(report.message, "has the columns 'prompt_length, tokens'");
  EXPECT_THAT(report.hint, HasSubstr("prompt_length and response_length, or length"));
}

TEST(LengthTable, an_empty_csv_is_an_error) {
  const TemporaryFile file("\n", ".csv");
  EXPECT_EQ(report_of<InputError>([&] { (void)read_length_table(file.path()); }).message, "is empty");
}

TEST(LengthTable, a_row_with_other_columns_than_the_header_is_an_error) {
  EXPECT_EQ(reading_fails("prompt_length,response_length\n1,2\n3\n", ".csv", 3).message,
            "has 1 values; the header names 2 columns");
}

TEST(LengthTable, a_length_that_is_none_is_an_error_with_its_value) {
  for (const std::string value :
       {"-1", "1.5", "", "x", "0x10", "1 2", "1099511627777", "99999999999999999999"}) {
    EXPECT_EQ(reading_fails("length\n5\n" + value + (value.empty() ? "\"\"\n" : "\n"), ".csv", 3).message,
              "length is '" + value + "'; a length is an integer from 0 to 1099511627776");
  }
  for (const std::string value : {"-1", "1.5", "null", "\"7\"", "1099511627777"}) {
    EXPECT_EQ(
        reading_fails("{\"prompt_length\": 1, \"response_length\": " + value + "}", ".jsonl", 1).message,
        "response_length is " + value + "; a length is an integer from 0 to 1099511627776");
  }
}

TEST(LengthTable, a_jsonl_line_without_lengths_is_an_error) {
  EXPECT_EQ(reading_fails("\n{\"prompt_length\": 3}\n", ".jsonl", 2).message, "tells no length");
  EXPECT_EQ(reading_fails("{\"prompt_ids\": [3]}\n", ".jsonl", 1).message, "has no response_ids");
  EXPECT_THAT(reading_fails("{\"length\": 1,}\n", ".jsonl", 1).message, HasSubstr("not valid JSON"));
}

TEST(LengthTable, another_ending_or_a_missing_file_is_an_error) {
  const TemporaryFile file("length\n1\n", ".txt");
  EXPECT_THAT(report_of<InputError>([&] { (void)read_length_table(file.path()); }).message,
              HasSubstr("'.txt'"));
  const TemporaryFile missing(".csv");
  EXPECT_THROW((void)read_length_table(missing.path()), IoError);
}

}  // namespace
}  // namespace evenkeel
