#include "page/html_page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing::Not;

StepPicture step_of(std::int64_t number, int dp, std::string profile = {}) {
  StepPicture step;
  step.step = number;
  step.profile = std::move(profile);
  step.planning.cap = 100;
  step.micro_batches = 2;
  step.lengths = {10, 20};
  step.dp_ranks.resize(static_cast<std::size_t>(dp),
                       {.micro_batches = {{1, 10, 10, 10, 10, 0}, {1, 20, 20, 20, 20, 0}}});
  return step;
}

std::size_t count(std::string_view text, std::string_view word) {
  std::size_t number = 0;
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) ++number;
  return number;
}

/// Returns the data that the page contains for its script.
nlohmann::json data_in(const std::string& page) {
  const std::string begin = R"(id="data">)";
  const std::size_t from = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
}

TEST(HtmlPage, escapes_names_and_texts) {
  const std::string evil = "</script><script>alert(1)</script><!-- {{script}} ]]> &amp; \xff";
  RunPicture run;
  run.add(step_of(0, 2, evil));
  const std::string page =
      html_page({.version = evil, .name = evil, .sources = {evil}, .circumstances = {}, .text = evil},
                std::span(&run, 1));
  EXPECT_EQ(count(page, "<script"), 2U);
  EXPECT_EQ(count(page, "</script>"), 2U);
  EXPECT_THAT(page, Not(HasSubstr("<!--")));
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;"));
  EXPECT_EQ(data_in(page)["profiles"][0]["name"], evil.substr(0, evil.size() - 1) + "\xef\xbf\xbd");
}

TEST(HtmlPage, references_nothing_outside_itself) {
  const std::string page = html_page({}, {});
  EXPECT_EQ(count(page, "://"), count(page, "http://www.w3.org/2000/svg"));  // a name, not an address
  for (const char* way : {" src=", " href=", "url(", "@import", "fetch("})
    EXPECT_THAT(page, Not(HasSubstr(way)));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
}

TEST(HtmlPage, of_a_comparison_has_the_plan_of_each_way) {
  PageSubject subject;
  subject.kind = PageSubject::Kind::comparison;
  subject.name = "lengths.csv";
  subject.ways = {{{"way", "grid, work"}, {"dp_max_over_mean", 1.5}}, {{"way", "cp 4"}, {"cp", 4}}};
  subject.conclusion = "cp 4 is as good";
  RunPicture run;
  run.add(step_of(0, 2, "grid, work"));
  const std::string page = html_page(subject, std::span(&run, 1));
  EXPECT_THAT(page, HasSubstr("<title>Ways to plan a step: lengths.csv | Evenkeel</title>"));
  const nlohmann::json data = data_in(page);
  EXPECT_EQ(data["kind"], "comparison");
  EXPECT_EQ(data["ways"], subject.ways);
  EXPECT_EQ(data["conclusion"], "cp 4 is as good");
  EXPECT_EQ(data["profiles"][0]["name"], "grid, work");
}

TEST(HtmlPage, stays_small_whatever_the_run) {
  RunPicture run;
  for (std::int64_t step = 0; step < 10'000; ++step) run.add(step_of(step, 4));
  const nlohmann::json data = page_json({}, std::span(&run, 1))["profiles"][0];
  EXPECT_EQ(data["points"]["group"], 10);
  EXPECT_EQ(data["points"]["step"].size(), 1000U);
  EXPECT_EQ(data["points"]["number"], 10'000);
  EXPECT_EQ(data["points"]["step"][1], 10);
  EXPECT_EQ(data["kept"].size(), RunPicture::max_kept_steps);
  EXPECT_EQ(data["totals"]["steps"], 10'000);

  RunPicture wide;
  wide.add(step_of(0, 3000));
  const nlohmann::json dp = page_json({}, std::span(&wide, 1))["profiles"][0]["dp"];
  EXPECT_EQ(dp["number"], 3000);
  EXPECT_EQ(dp["group"], 3);
  EXPECT_EQ(dp["tokens"].size(), 1000U);
  EXPECT_EQ(dp["tokens"][0], 30);
}

TEST(HtmlPage, says_how_many_dp_ranks_of_a_step_it_leaves_out) {
  StepPicture step = step_of(0, 11'000);
  RunPicture run;
  run.add(step);
  const nlohmann::json kept = page_json({}, std::span(&run, 1))["profiles"][0]["kept"][0];
  EXPECT_EQ(kept["number"], 11'000);
  EXPECT_EQ(kept["ranks"].size(), RunPicture::max_kept_micro_batches / 2);
}

TEST(HtmlPage, says_which_dp_ranks_run_a_micro_batch_together) {
  StepPicture step = step_of(0, 4);
  for (DpRankPicture& rank : step.dp_ranks) rank.micro_batches.front() = {1, 10, 10, 10, 40, 0, 0, 4};
  RunPicture run;
  run.add(step);
  PageSubject subject;
  subject.mesh = {{1, 1, 4, 1}, true};
  const nlohmann::json page = page_json(subject, std::span(&run, 1));
  EXPECT_EQ(page["mesh"]["cp"], "flexible");
  const nlohmann::json of_rank = page["profiles"][0]["kept"][0]["ranks"][2]["micro_batches"];
  EXPECT_EQ(of_rank[0], (nlohmann::json{1, 10, 10, 10, 40, 0, 0, 4}));
}

}  // namespace
}  // namespace evenkeel
