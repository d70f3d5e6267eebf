#include "io/samples/lengths_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "evenkeel/batch/ragged_batch.hpp"
#include "io/temporary_file.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::report_of;
using testing_support::TemporaryFile;

std::vector<FileLengths> read(const std::string& text, const std::string& ending) {
  const TemporaryFile file(text, ending);
  return read_length_table(InputFile(file.path()));
}

/// Returns the error from reading this file; it must be reported for this line.
ErrorReport lengths_error(const std::string& text, const std::string& ending, int line) {
  const TemporaryFile file(text, ending);
  ErrorReport report = report_of<InputError>([&] { (void)read_length_table(InputFile(file.path())); });
  EXPECT_EQ(report.where, file.line(line));
  return report;
}

TEST(LengthTable, a_csv_gives_prompt_and_response_lengths) {
  EXPECT_THAT(read("prompt_length,response_length\n6758,500\n7322,490\n", ".csv"),
              ElementsAre(FileLengths{6758, 500, own_group(1)}, FileLengths{7322, 490, own_group(2)}));
}

TEST(LengthTable, columns_may_come_in_any_order_with_others_between) {
  EXPECT_THAT(read("response_length,time,uid,prompt_length\n1,0.5,a,2\n3,,\"b,\"\"c\",4\n", ".csv"),
              ElementsAre(FileLengths{2, 1, group_of_uid(std::string_view("a"))},
                          FileLengths{4, 3, group_of_uid(std::string_view("b,\"c"))}));
}

TEST(LengthTable, length_alone_is_all_response) {
  EXPECT_THAT(read("length\n12\n0\n", ".csv"),
              ElementsAre(FileLengths{0, 12, own_group(1)}, FileLengths{0, 0, own_group(2)}));
  EXPECT_THAT(read("{\"length\": 12}\n", ".jsonl"), ElementsAre(FileLengths{0, 12, own_group(0)}));
}

TEST(LengthTable, one_number_per_line_is_a_length_and_needs_no_header) {
  EXPECT_THAT(read("12\n0\n7\n", ".csv"),
              ElementsAre(FileLengths{0, 12, own_group(0)}, FileLengths{0, 0, own_group(1)},
                          FileLengths{0, 7, own_group(2)}));
  EXPECT_EQ(lengths_error("12\nmany\n", ".csv", 2).message,
            "length is 'many'; a length must be an integer from 0 to 1099511627776");
  EXPECT_EQ(lengths_error("12,5\n7,8\n", ".csv", 1).message,
            "does not have the required columns; it has '12, 5'");
}

TEST(LengthTable, spreadsheets_csv_is_read) {
  EXPECT_THAT(read("\xef\xbb\xbf\"prompt_length\", \"response_length\"\r\n 1 ,\"2\"\r\n\r\n3,4", ".csv"),
              ElementsAre(FileLengths{1, 2, own_group(1)}, FileLengths{3, 4, own_group(3)}));
}

TEST(LengthTable, a_row_without_a_uid_is_a_group_of_its_own) {
  const std::vector<FileLengths> rows = read("uid,length\n,1\n,1\nu,1\nu,1\n", ".csv");
  EXPECT_NE(rows[0].group, rows[1].group);
  EXPECT_EQ(rows[2].group, rows[3].group);
}

TEST(LengthTable, uids_are_read_from_the_rows) {
  const auto uids = [](const std::string& text, const std::string& ending) {
    const TemporaryFile file(text, ending);
    return read_uids_of_table(InputFile(file.path()));
  };
  const Uid none = std::monostate{};
  EXPECT_THAT(uids("uid,length\n,1\n7,1\n\" a \",1\n", ".csv"),
              ElementsAre(none, Uid(std::string("7")), Uid(std::string("a"))));
  EXPECT_THAT(uids("length\n1\n", ".csv"), ElementsAre(none));
  EXPECT_THAT(uids("{\"length\":1}\n{\"uid\":-7,\"prompt_ids\":[],\"response_ids\":[]}\n", ".jsonl"),
              ElementsAre(none, Uid(std::int64_t{-7})));
}

TEST(LengthTable, integers_of_a_further_column_are_in_every_row_or_in_none) {
  const auto versions = [](const std::string& text, const std::string& ending) {
    const TemporaryFile file(text, ending);
    return read_integers_of_table(InputFile(file.path()), "version");
  };
  EXPECT_THAT(versions("length,version\n1,7\n1,8\n", ".csv"), ElementsAre(7, 8));
  EXPECT_THAT(versions("length\n1\n", ".csv"), IsEmpty());
  EXPECT_THAT(versions("{\"length\":1,\"version\":7}\n{\"version\":8,\"length\":1}\n", ".jsonl"),
              ElementsAre(7, 8));
  EXPECT_THAT(versions("{\"length\":1}\n", ".jsonl"), IsEmpty());
  const auto why = [&](const std::string& text, const std::string& ending) {
    return report_of<InputError>([&] { (void)versions(text, ending); }).message;
  };
  EXPECT_EQ(why("length,version\n1,-7\n", ".csv"), "version is '-7'; it must be an integer from 0 to 2^62");
  EXPECT_EQ(why("{\"length\":1,\"version\":1.5}\n", ".jsonl"),
            "version is 1.5; it must be an integer from 0 to 2^62");
  EXPECT_EQ(why("{\"length\":1,\"version\":7}\n{\"length\":1}\n", ".jsonl"),
            "has no 'version', but earlier lines do");
  EXPECT_EQ(why("{\"length\":1}\n{\"length\":1,\"version\":7}\n", ".jsonl"),
            "has 'version', but earlier lines do not");
}

TEST(LengthTable, jsonl_may_hold_rollouts_or_lengths) {
  EXPECT_THAT(read("{\"uid\": \"a\", \"prompt_ids\": [1, 2], \"response_ids\": [3]}\n"
                   "\n"
                   "{\"uid\": 9, \"response_length\": 5, \"prompt_length\": 4}\n",
                   ".jsonl"),
              ElementsAre(FileLengths{2, 1, group_of_uid(std::string_view("a"))}, FileLengths{4, 5, 9}));
}

TEST(LengthTable, a_header_alone_or_an_empty_jsonl_gives_no_rows) {
  EXPECT_THAT(read("length\n", ".csv"), IsEmpty());
  EXPECT_THAT(read("", ".jsonl"), IsEmpty());
}

TEST(LengthTable, a_csv_without_the_columns_is_an_error_that_lists_them) {
  const ErrorReport report = lengths_error("uid,tokens\n1,2\n", ".csv", 1);
  EXPECT_EQ(report.message, "does not have the required columns; it has 'uid, tokens'");
  EXPECT_THAT(report.hint, HasSubstr("prompt_length and response_length, or length"));
}

TEST(LengthTable, a_prompt_length_needs_a_response_length_and_vice_versa) {
  const ErrorReport one = lengths_error("prompt_length,tokens\n1,2\n", ".csv", 1);
  EXPECT_EQ(one.message, "has 'prompt_length' but not 'response_length'");
  EXPECT_EQ(one.hint, "Name the columns prompt_length and response_length, or length");
  const ErrorReport prompt = lengths_error("prompt_length,length\n2,5\n", ".csv", 1);
  EXPECT_EQ(prompt.message, "has 'prompt_length' but not 'response_length'");
  EXPECT_EQ(prompt.hint, "Add it, or remove 'prompt_length'");
  const ErrorReport response = lengths_error("{\"length\": 5, \"response_length\": 4}", ".jsonl", 1);
  EXPECT_EQ(response.message, "has 'response_length' but not 'prompt_length'");
  EXPECT_EQ(response.hint, "Add it, or remove 'response_length'");
}

TEST(LengthTable, a_duplicate_column_or_key_is_an_error) {
  EXPECT_EQ(lengths_error("length,uid,length\n1,a,2\n", ".csv", 1).message, "has the column 'length' twice");
  EXPECT_EQ(lengths_error("length,note,note\n1,a,2\n", ".csv", 1).message, "has the column 'note' twice");
  EXPECT_EQ(lengths_error("{\"length\": 1, \"length\": 2}\n", ".jsonl", 1).message,
            "has the key 'length' twice");
  EXPECT_THAT(read("length,,\n1,,\n", ".csv"), ElementsAre(FileLengths{0, 1, own_group(1)}))
      << "spreadsheets write columns without any content";
}

TEST(LengthTable, a_value_that_runs_over_several_lines_is_an_error_on_its_first) {
  EXPECT_THAT(lengths_error("length,uid\n1,a\n5,\"b\nc\"\n", ".csv", 3).message,
              HasSubstr("ends inside a quoted value"));
  EXPECT_THAT(lengths_error("uid,length\n\"b\n\nc\",4\n", ".csv", 2).message,
              HasSubstr("ends inside a quoted value"));
  EXPECT_THAT(lengths_error("length,\"a\nb\"\n1,2\n", ".csv", 1).message,
              HasSubstr("ends inside a quoted value"));
}

TEST(LengthTable, quotation_marks_enclose_whole_values) {
  EXPECT_EQ(lengths_error("length\n\"12\"3\n", ".csv", 2).message, "has '3' after the quoted value '12'");
  EXPECT_THAT(lengths_error("length\n1\"2\"\n", ".csv", 2).message, HasSubstr("length is '1\"2\"'"));
  EXPECT_THAT(read("length,uid\n \"7\" ,\"\"\n", ".csv"), ElementsAre(FileLengths{0, 7, own_group(1)}));
}

TEST(LengthTable, other_separators_than_commas_are_refused_with_the_remedy) {
  for (const std::string header :
       {"prompt_length;response_length\n1;2\n", "uid\tlength\na\t2\n", "length\r1\r2"}) {
    EXPECT_THAT(lengths_error(header, ".csv", 1).hint, HasSubstr("by commas"));
  }
}

TEST(LengthTable, a_length_must_be_the_sum_of_its_parts) {
  EXPECT_THAT(read("length,prompt_length,response_length\n5,2,3\n", ".csv"),
              ElementsAre(FileLengths{2, 3, own_group(1)}));
  EXPECT_EQ(lengths_error("length,prompt_length,response_length\n5,2,4\n", ".csv", 2).message,
            "length is 5, but prompt_length and response_length are 2 and 4");
  EXPECT_EQ(
      lengths_error("{\"length\": 5, \"prompt_length\": 2, \"response_length\": 4}", ".jsonl", 1).message,
      "length is 5, but prompt_length and response_length are 2 and 4");
}

TEST(LengthTable, lengths_that_cannot_be_added_up_are_an_error) {
  std::string text = "length\n";
  for (int i = 0; i < (1 << 22) + 1; ++i) text += "1099511627776\n";
  const TemporaryFile file(text, ".csv");
  EXPECT_THAT(report_of<InputError>([&] { (void)read_length_table(InputFile(file.path())); }).message,
              HasSubstr("2^62"));
}

TEST(LengthTable, what_pandas_writes_is_read_or_refused_with_its_value) {
  EXPECT_THAT(read(",prompt_length,response_length\n0,3,4\n1,5,6\n", ".csv"),
              ElementsAre(FileLengths{3, 4, own_group(1)}, FileLengths{5, 6, own_group(2)}))
      << "to_csv() with its index";
  EXPECT_EQ(lengths_error("length\n3.0\n\"\"\n", ".csv", 2).message,
            "length is '3.0'; a length must be an integer from 0 to 1099511627776")
      << "a column with gaps";
  EXPECT_THAT(read("{\"prompt_length\":3,\"response_length\":4,\"uid\":null}\n", ".jsonl"),
              ElementsAre(FileLengths{3, 4, own_group(0)}))
      << "to_json(lines=True)";
  EXPECT_THAT(lengths_error("{\"length\": NaN}\n", ".jsonl", 1).message, HasSubstr("'length' holds NaN"));
}

TEST(LengthTable, an_empty_csv_is_an_error) {
  const TemporaryFile file("\n", ".csv");
  EXPECT_EQ(report_of<InputError>([&] { (void)read_length_table(InputFile(file.path())); }).message,
            "is empty");
}

TEST(LengthTable, a_row_with_other_columns_than_the_header_is_an_error) {
  EXPECT_EQ(lengths_error("prompt_length,response_length\n1,2\n3\n", ".csv", 3).message,
            "has 1 value; the first line has 2 values");
}

TEST(LengthTable, an_invalid_length_is_an_error_with_its_value) {
  for (const std::string value :
       {"-1", "1.5", "", "x", "0x10", "1 2", "1099511627777", "99999999999999999999"}) {
    EXPECT_EQ(lengths_error("length\n5\n" + value + (value.empty() ? "\"\"\n" : "\n"), ".csv", 3).message,
              "length is '" + value + "'; a length must be an integer from 0 to 1099511627776");
  }
  for (const std::string value : {"-1", "1.5", "null", "\"7\"", "1099511627777"}) {
    EXPECT_EQ(
        lengths_error("{\"prompt_length\": 1, \"response_length\": " + value + "}", ".jsonl", 1).message,
        "response_length is " + value + "; a length must be an integer from 0 to 1099511627776");
  }
}

TEST(LengthTable, a_jsonl_line_without_lengths_is_an_error) {
  EXPECT_EQ(lengths_error("\n{\"tokens\": 3}\n", ".jsonl", 2).message, "has no length");
  EXPECT_EQ(lengths_error("\n{\"prompt_length\": 3}\n", ".jsonl", 2).message,
            "has 'prompt_length' but not 'response_length'");
  EXPECT_EQ(lengths_error("{\"prompt_ids\": [3]}\n", ".jsonl", 1).message, "has no response_ids");
  EXPECT_THAT(lengths_error("{\"length\": 1,}\n", ".jsonl", 1).message, HasSubstr("not valid JSON"));
}

RC_GTEST_PROP(LengthTable, any_text_is_read_or_refused_at_a_place_in_the_file, ()) {
  const auto text = *rc::gen::container<std::string>(
      rc::gen::elementOf(std::string("\"\"\",,,,\n\n\n\r\t ;0123456789-x\xef\xff")));
  const TemporaryFile file("length,uid" + text, ".csv");
  try {
    for (const FileLengths& row : read_length_table(InputFile(file.path()))) RC_ASSERT(row.response >= 0);
  } catch (const InputError& error) {
    RC_ASSERT(error.report().where.starts_with(file.path().string()));
  }
}

TEST(LengthTable, another_ending_or_a_missing_file_is_an_error) {
  const TemporaryFile file("length\n1\n", ".txt");
  EXPECT_THAT(report_of<InputError>([&] { (void)read_length_table(InputFile(file.path())); }).message,
              HasSubstr("'.txt'"));
  const TemporaryFile missing(".csv");
  EXPECT_THROW((void)read_length_table(InputFile(missing.path())), IoError);
}

}  // namespace
}  // namespace evenkeel
