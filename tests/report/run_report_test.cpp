#include "report/run_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Returns a step with 10 * number samples.
StepFigures step_of(std::int64_t number, const std::string& profile = {}) {
  StepFigures figures;
  figures.step = number;
  figures.profile = profile;
  figures.samples = 10 * number;
  figures.widest = 100 - number;
  figures.balance.dp_max_over_mean = 1 + 0.25 * static_cast<double>(number);
  figures.sent_bytes = 1024 * number;
  figures.peak_bytes = 2048 * number;
  figures.seconds[4] = 0.5;
  return figures;
}

TEST(RunReport, sums_counts_and_names_the_worst_step) {
  RunReport report;
  for (const std::int64_t number : {1, 3, 2}) report.add(step_of(number));
  const std::string text = to_text(report);
  EXPECT_THAT(text, HasSubstr("60 in 3 steps"));
  EXPECT_THAT(text, HasSubstr("DP ranks, balanced                1.5000   worst step 1.7500"));
  EXPECT_THAT(text, HasSubstr("bytes between ranks                 6.0 KiB"));
  EXPECT_THAT(text, HasSubstr("most memory of tensors on a rank    6.0 KiB"));
  EXPECT_THAT(text, HasSubstr("widest micro-batch                  99 of"));
  EXPECT_THAT(text, HasSubstr("1.500 (read 0.000"));
}

TEST(RunReport, of_one_step_is_in_the_singular) {
  RunReport report;
  report.add(step_of(1));
  EXPECT_THAT(to_text(report), HasSubstr("DP ranks, balanced                1.2500\n"));
  EXPECT_THAT(to_text(report), Not(HasSubstr("all steps")));
  report.add(step_of(2));
  EXPECT_THAT(to_text(report), HasSubstr("over all steps"));
}

TEST(RunReport, names_its_job_its_sources_and_its_date) {
  const RunReport report{.job = "jobs/sft.yaml",
                         .started = "2026-11-22T02:17:08Z",
                         .sources = {{"chat", "data/chat.jsonl", {}}, {"a<b.jsonl", "a<b.jsonl", {}}}};
  EXPECT_THAT(to_text(report), HasSubstr("  job                                 jobs/sft.yaml\n"
                                         "  source                              chat: data/chat.jsonl\n"
                                         "  source                              a<b.jsonl\n"
                                         "  started                             2026-11-22T02:17:08Z\n"));
  const nlohmann::json json = to_json(report);
  EXPECT_EQ(json.at("job"), "jobs/sft.yaml");
  EXPECT_EQ(json.at("started"), "2026-11-22T02:17:08Z");
  EXPECT_EQ(json.at("sources").at(0).at("path"), "data/chat.jsonl");
  const std::string page = to_html(report);
  EXPECT_THAT(page,
              HasSubstr("<title>Report of a run: jobs/sft.yaml, 2026-11-22T02:17:08Z | Evenkeel</title>"));
  EXPECT_THAT(page, HasSubstr("a&lt;b.jsonl"));
}

TEST(RunReport, has_a_table_for_each_profile_in_the_order_in_which_they_ran) {
  RunReport report;
  for (const std::int64_t number : {1, 2}) {
    report.add(step_of(number, "log_prob"));
    report.add(step_of(number + 4, "update"));
  }
  const std::string text = to_text(report);
  EXPECT_LT(text.find("profile log_prob"), text.find("30 in 2 steps"));
  EXPECT_LT(text.find("30 in 2 steps"), text.find("profile update"));
  EXPECT_LT(text.find("profile update"), text.find("110 in 2 steps"));
}

TEST(RunReport, shows_traffic_between_nodes_only_if_there_is_any) {
  RunReport report;
  report.add(step_of(1));
  EXPECT_THAT(to_text(report), Not(HasSubstr("between nodes")));
  StepFigures over_nodes = step_of(2);
  over_nodes.node_bytes = 4096;
  over_nodes.node_messages = 12;
  report.add(over_nodes);
  EXPECT_THAT(to_text(report), HasSubstr("4.0 KiB in 12 messages"));
}

TEST(RunReport, shows_the_bytes_of_fields_sent_in_another_form) {
  RunReport report{.keeps = RunReport::Steps::each};
  StepFigures figures = step_of(1);
  figures.fields = {{"input_ids", false, 8192, 0, 4096}, {"experts", true, 2048, 1024, 512}};
  report.add(figures);
  figures.fields = {{"experts", true, 1024, 0, 1024}};
  report.add(figures);
  const std::string text = to_text(report);
  EXPECT_THAT(text, HasSubstr("bytes of experts"));
  EXPECT_THAT(text, HasSubstr("3.0 KiB received, 1.0 KiB copied; at most"));
  EXPECT_THAT(text, HasSubstr("1.0 KiB by a rank in a step"));
  EXPECT_THAT(text, Not(HasSubstr("bytes of input_ids")));
  const nlohmann::json fields = to_json(report).at("steps").at(0).at("fields");
  ASSERT_EQ(fields.size(), 2U);
  EXPECT_EQ(fields.at(0).at("name"), "input_ids");
  EXPECT_EQ(fields.at(0).at("received"), 8192);
  EXPECT_EQ(fields.at(1).at("copied"), 1024);
  EXPECT_EQ(fields.at(1).at("max_received"), 512);
}

TEST(RunReport, keeps_single_steps_only_on_request) {
  RunReport totals;
  RunReport each{.keeps = RunReport::Steps::each};
  for (std::int64_t number = 0; number < 100; ++number) {
    totals.add(step_of(number));
    each.add(step_of(number));
  }
  EXPECT_TRUE(to_json(totals).at("steps").empty());
  EXPECT_EQ(to_json(each).at("steps").size(), 100u);
  EXPECT_EQ(to_json(each).at("steps").at(7).at("samples"), 70);
  EXPECT_EQ(to_text(totals), to_text(each));
}

TEST(RunReport, counts_alignment_relative_to_delivered_rows_with_shared_prefixes) {
  StepFigures figures = step_of(1);
  figures.tokens = 1000;
  figures.padded_rows = 2000;
  figures.rows = 500;  // once
  figures.filled = 480;
  figures.unshared_rows = 1100;
  figures.sharing = SharingSavings{480, 1000, 10, 30};
  RunReport report;
  report.add(figures);
  const std::string text = to_text(report);
  EXPECT_THAT(text, HasSubstr("rows delivered                      500 (4.0 % alignment)"));
  EXPECT_THAT(text, HasSubstr("padding removed                     900 rows, 45.0 % of the padded batch"));
  EXPECT_THAT(text, HasSubstr("rows saved by sharing               600 of 1,100 (54.5 %)"));
}

TEST(RunReport, shows_repeated_tokens_and_the_limits_that_forced_splits) {
  StepFigures figures = step_of(1);
  figures.sharing = SharingSavings{480, 1000, 10, 30};
  RunReport report{.keeps = RunReport::Steps::each};
  report.add(figures);
  EXPECT_THAT(to_text(report), HasSubstr("tokens repeated by splits           0\n"));
  figures.repeated = {1500, 0, 20};
  report.add(figures);
  const std::string text = to_text(report);
  EXPECT_THAT(text, HasSubstr("tokens repeated by splits           1,520: 1,500 to keep"));
  EXPECT_THAT(text, HasSubstr("micro_batch.max_rows"));
  EXPECT_THAT(text, Not(HasSubstr("micro_batch.max_samples")));
  const nlohmann::json sharing = to_json(report).at("steps").at(1).at("sharing");
  EXPECT_EQ(sharing.at("tokens_repeated"), 1520);
  EXPECT_EQ(sharing.at("repeated_by_reason"), (nlohmann::json{{"max_tokens", 1500},
                                                              {"max_samples", 0},
                                                              {"max_rows", 20},
                                                              {"predict_ahead", 0},
                                                              {"equal_work", 0}}));
}

TEST(RunReport, distinguishes_padding_from_alignment) {
  StepFigures figures = step_of(1);
  figures.tokens = figures.filled = 75;
  figures.rows = 100;
  figures.pads_micro_batches = true;
  RunReport report;
  report.add(figures);
  EXPECT_THAT(to_text(report), HasSubstr("100 (25.0 % padding and alignment)"));
}

TEST(RunReport, shows_the_cost_and_number_of_shapes) {
  RunReport report{.keeps = RunReport::Steps::each};
  for (const std::int64_t rows : {60, 80}) {
    StepFigures figures = step_of(1);
    figures.rows = 1000;
    figures.shapes = ShapeFigures{8, 3, {{rows, 4, rows}, {100, 4, 100}}, 15};
    report.add(figures);
  }
  const std::string text = to_text(report);
  EXPECT_THAT(text, HasSubstr("padding to few shapes               30 rows, 1.5 % of the rows delivered"));
  EXPECT_THAT(text, HasSubstr("shapes                              3 of 8 used, 3 chosen"));
  const nlohmann::json shapes = to_json(report).at("steps").at(1).at("shapes");
  EXPECT_EQ(shapes.at("padding"), 15);
  EXPECT_EQ(shapes.at("used").at(0).at("rows"), 80);
  EXPECT_TRUE(to_json(step_of(1)).at("shapes").is_null());
}

TEST(RunReport, uses_singular_and_plural) {
  StepFigures figures = step_of(1);
  figures.cap = 1;
  figures.above_cap = 1;
  RunReport report;
  report.add(figures);
  EXPECT_THAT(to_text(report), HasSubstr("in 1 step\n"));
  EXPECT_THAT(to_text(report), HasSubstr("of 1 token, aligned to 1; 1 MICRO-BATCH ABOVE THE CAP\n"));
}

TEST(RunReport, colors_broken_caps_only_on_terminals_with_colors) {
  StepFigures figures = step_of(1);
  figures.above_cap = 3;
  RunReport report;
  report.add(figures);
  EXPECT_THAT(to_text(report), Not(HasSubstr("\033")));
  EXPECT_THAT(to_text(report, true), HasSubstr("\033[1;31m3 MICRO-BATCHES ABOVE THE CAP\033[0m"));
}

TEST(RunReport, has_pictures_of_steps_and_advice) {
  StepPicture picture;
  picture.profile = "update";
  picture.micro_batches = picture.lower_bound = 1;
  picture.samples = 100;
  picture.loss_tokens = 100;
  picture.dp_ranks = {{.micro_batches = {{1, 1, 1, 100, 1, 0}}}, {.micro_batches = {{1, 1, 1, 200, 1, 0}}}};
  StepFigures figures = step_of(1, "update");
  RunReport report{.keeps = RunReport::Steps::each};
  report.add(figures);
  EXPECT_THAT(to_text(report), Not(HasSubstr("what to change")));
  figures.picture = std::make_shared<const StepPicture>(picture);
  report.add(figures);
  EXPECT_EQ(report.steps.back().picture, nullptr);
  ASSERT_EQ(report.pictures.size(), 1U);
  EXPECT_THAT(to_text(report), HasSubstr("  what to change\n     - dp 0 waits 50.0 %"));
  EXPECT_THAT(to_html(report), HasSubstr("dp 0 waits 50.0 %"));
}

TEST(RunReport, of_no_steps_is_a_heading) {
  EXPECT_EQ(to_text({.mesh = {{2, 1, 3, 1}}, .seconds = 1.5}),
            "Evenkeel on tp 2 x cp 1 x dp 3 x pp 1: 1.500 seconds\n");
  const RunReport flexible{.mesh = {{2, 1, 3, 1}, true}, .seconds = 1.5};
  EXPECT_EQ(to_text(flexible), "Evenkeel on tp 2 x cp flexible x dp 3 x pp 1: 1.500 seconds\n");
  EXPECT_EQ(to_json(flexible).at("mesh").at("cp"), "flexible");
}

}  // namespace
}  // namespace evenkeel
