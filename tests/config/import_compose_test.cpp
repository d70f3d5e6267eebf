#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "config/import/document.hpp"
#include "evenkeel/base/error.hpp"
#include "support/error_message.hpp"

namespace evenkeel::config_import {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::message_of;

using Files = std::map<std::string, std::string>;

ImportSettings with_files(Files files, std::vector<std::string> overrides = {}) {
  ImportSettings options;
  options.read_file =
      [files = std::move(files)](const std::filesystem::path& path) -> std::optional<std::string> {
    const auto found = files.find(path.generic_string());
    return found == files.end() ? std::nullopt : std::optional(found->second);
  };
  options.overrides = std::move(overrides);
  return options;
}

/// All keys as "path=value", in order.
std::vector<std::string> keys_of(const std::string& yaml, const ImportSettings& options) {
  std::vector<std::string> keys;
  for (const ForeignKey& key : read_document(yaml, "conf/job.yaml", options).keys)
    keys.push_back(key.path + "=" + key.text);
  return keys;
}

std::string error_of(const std::string& yaml, const ImportSettings& options) {
  return message_of([&] { static_cast<void>(keys_of(yaml, options)); });
}

TEST(Compose, a_group_option_is_a_file_in_the_folder_of_that_name) {
  EXPECT_THAT(keys_of("defaults: [{db: small}]\nx: 1", with_files({{"conf/db/small.yaml", "size: 3"}})),
              ElementsAre("db.size=3", "x=1"));
}

TEST(Compose, a_package_says_where_the_keys_go) {
  const Files files{{"conf/db/small.yaml", "size: 3"}};
  EXPECT_THAT(keys_of("defaults: [{db@a.b: small}]", with_files(files)), ElementsAre("a.b.size=3"));
  EXPECT_THAT(keys_of("defaults: [{db@_global_: small}]", with_files(files)), ElementsAre("size=3"));
  EXPECT_THAT(keys_of("defaults: [db/small@_here_]", with_files(files)), ElementsAre("size=3"));
  EXPECT_THAT(keys_of("defaults: [db/small]", with_files(files)), ElementsAre("db.size=3"));
}

TEST(Compose, a_file_may_name_its_package_at_its_top) {
  EXPECT_THAT(
      keys_of("defaults: [{engine: dp}]",
              with_files({{"conf/engine/dp.yaml", "# made by hand\n# @package _global_\nengine: dp"}})),
      ElementsAre("engine=dp"));
  EXPECT_THAT(
      keys_of("defaults: [{db: small}]", with_files({{"conf/db/small.yaml", "# @package _group_\nsize: 3"}})),
      ElementsAre("db.size=3"));
}

TEST(Compose, groups_are_relative_to_the_file_that_names_them) {
  const Files files{{"conf/actor/dp.yaml", "defaults: [../engine@engine: fsdp, actor, _self_]\nstrategy: dp"},
                    {"conf/actor/actor.yaml", "strategy: ???\nbatch: 8"},
                    {"conf/engine/fsdp.yaml", "size: 2"}};
  EXPECT_THAT(keys_of("defaults: [{actor@model.actor: dp}]", with_files(files)),
              ElementsAre("model.actor.engine.size=2", "model.actor.strategy=dp", "model.actor.batch=8"));
}

TEST(Compose, a_group_may_be_named_from_the_root) {
  EXPECT_THAT(keys_of("defaults: [{actor: dp}]",
                      with_files({{"conf/actor/dp.yaml", "defaults: [{/optim@optim: sgd}]"},
                                  {"conf/optim/sgd.yaml", "lr: 1"}})),
              ElementsAre("actor.optim.lr=1"));
}

TEST(Compose, a_file_says_last_what_its_defaults_say_too_unless_self_stands_before_them) {
  const Files files{{"conf/db/small.yaml", "size: 3"}};
  EXPECT_THAT(keys_of("defaults: [{db: small}]\ndb: {size: 5}", with_files(files)), ElementsAre("db.size=5"));
  EXPECT_THAT(keys_of("defaults: [{db: small}, _self_]\ndb: {size: 5}", with_files(files)),
              ElementsAre("db.size=5"));
  EXPECT_THAT(keys_of("defaults: [_self_, {db: small}]\ndb: {size: 5}", with_files(files)),
              ElementsAre("db.size=3"));
}

TEST(Compose, an_option_may_be_a_list_null_or_another_group) {
  const Files files{
      {"conf/db/a.yaml", "a: 1"}, {"conf/db/b.yaml", "b: 2"}, {"conf/actor/dp_actor.yaml", "x: 3"}};
  EXPECT_THAT(keys_of("defaults: [{db: [a, b]}]", with_files(files)), ElementsAre("db.a=1", "db.b=2"));
  EXPECT_THAT(keys_of("defaults: [{db: null}]\nx: 1", with_files(files)), ElementsAre("x=1"));
  EXPECT_THAT(keys_of("defaults: [{engine: null}, {optional engine: dp}, {actor@m: \"${engine}_actor\"}]",
                      with_files(files)),
              ElementsAre("m.x=3"));
}

TEST(Compose, override_changes_an_option_that_another_file_chose) {
  const Files files{{"conf/base.yaml", "defaults: [{db: small}]"},
                    {"conf/db/small.yaml", "size: 3"},
                    {"conf/db/large.yaml", "size: 9"}};
  EXPECT_THAT(keys_of("defaults: [base, {override db: large}]", with_files(files)), ElementsAre("db.size=9"));
}

TEST(Compose, files_are_looked_for_in_the_search_path_too) {
  EXPECT_THAT(keys_of("hydra: {searchpath: [\"file://lib/conf\"]}\ndefaults: [base]",
                      with_files({{"lib/conf/base.yaml", "x: 1"}})),
              ElementsAre("x=1", "hydra.searchpath=[file://lib/conf]"));
}

TEST(Compose, a_file_that_is_not_found_is_told_with_what_it_would_fill) {
  const Document document =
      read_document("defaults: [{actor@m.actor: dp}, {optional db: none}]\nx: 1", "conf/job.yaml", {});
  ASSERT_EQ(document.lost.size(), 1U) << "an optional one may be absent";
  EXPECT_EQ(document.lost[0].package, (Path{"m", "actor"}));
  EXPECT_EQ(document.lost[0].file, "actor/dp.yaml");
  EXPECT_EQ(document.lost[0].entry, "actor@m.actor: dp");
}

TEST(Compose, what_a_lost_file_may_say_has_no_default) {
  const Document document = read_document(
      "defaults: [{actor@m.actor: dp}]\nx: \"${oc.select:m.actor.cap,16384}\"\ny: \"${oc.select:m.other,1}\"",
      "conf/job.yaml", {});
  EXPECT_THAT(document.keys[0].value.missing,
              HasSubstr("which actor/dp.yaml may say, and that file is not found"));
  EXPECT_EQ(document.keys[1].text, "1");
}

TEST(Compose, lists_that_lead_in_a_circle_or_cannot_be_read_are_refused) {
  EXPECT_THAT(error_of("defaults: [a]", with_files({{"conf/a.yaml", "defaults: [a]"}})),
              HasSubstr("in a circle"));
  EXPECT_THAT(error_of("defaults: [[a]]", {}), HasSubstr("job.yaml:1: an entry of defaults is"));
  EXPECT_THAT(error_of("defaults: [{actor: \"${engine}_actor\"}]", {}), HasSubstr("no group engine"));
  EXPECT_THAT(error_of("defaults: [a]", with_files({{"conf/a.yaml", "x: [1"}})), HasSubstr("conf/a.yaml"));
  EXPECT_THAT(error_of("defaults: [a]", with_files({{"conf/a.yaml", "- 1"}})), HasSubstr("expected a map"));
}

TEST(Compose, a_defaults_key_that_is_no_list_is_a_key_like_others) {
  EXPECT_THAT(keys_of("defaults: {x: 1}", {}), ElementsAre("defaults.x=1"));
}

TEST(Overrides, change_add_force_and_remove) {
  const std::string yaml = "a: {b: 1, c: 2}";
  EXPECT_THAT(keys_of(yaml, with_files({}, {"a.b=7", "+a.d=3", "++a.e=4", "++a.b=8", "~a.c"})),
              ElementsAre("a.b=8", "a.d=3", "a.e=4"));
}

TEST(Overrides, are_read_as_hydra_reads_them) {
  const auto value = [](const std::string& text) {
    return keys_of("x: 0\ny: 5", with_files({}, {"x=" + text}))[0];
  };
  EXPECT_EQ(value("'a,b'"), "x=a,b");
  EXPECT_EQ(value("[1,2]"), "x=[1, 2]");
  EXPECT_EQ(value("{a:1}"), "x.a=1");
  EXPECT_EQ(value("null"), "x=null");
  EXPECT_EQ(value(""), "x=");
  EXPECT_EQ(value("~/data/a=b.parquet"), "x=~/data/a=b.parquet");
  EXPECT_EQ(value("${y}"), "x=5");
}

TEST(Overrides, are_laid_on_before_references_are_followed) {
  EXPECT_THAT(keys_of("a: 1\nb: ${a}", with_files({}, {"a=2"})), ElementsAre("a=2", "b=2"));
}

TEST(Overrides, choose_the_files_of_a_group) {
  const Files files{
      {"conf/db/small.yaml", "size: 3"}, {"conf/db/large.yaml", "size: 9"}, {"conf/log/on.yaml", "x: 1"}};
  EXPECT_THAT(keys_of("defaults: [{db: small}]", with_files(files, {"db=large"})), ElementsAre("db.size=9"));
  EXPECT_THAT(keys_of("defaults: [{db@a.b: small}]", with_files(files, {"db@a.b=large"})),
              ElementsAre("a.b.size=9"));
  EXPECT_THAT(keys_of("defaults: [{db: small}]\ny: 1", with_files(files, {"~db"})), ElementsAre("y=1"));
  EXPECT_THAT(keys_of("defaults: [{db: small}]", with_files(files, {"+log=on"})),
              ElementsAre("db.size=3", "log.x=1"));
}

TEST(Overrides, that_hydra_refuses_are_refused_here) {
  const auto error = [](const std::string& override_text) {
    return error_of("a: {b: 1}", with_files({}, {override_text}));
  };
  EXPECT_THAT(error("a.c=1"),
              HasSubstr("--override a.c=1: the configuration has no key a.c. To add it, write +a.c="));
  EXPECT_THAT(error("+a.b=1"), HasSubstr("has a.b already"));
  EXPECT_THAT(error("~a.c"), HasSubstr("no key a.c to remove"));
  EXPECT_THAT(error("db@x=small"), HasSubstr("no defaults list has the group db@x"));
  EXPECT_THAT(error("a.b=1,2"), HasSubstr("gives several values"));
  EXPECT_THAT(error("a.b='x"), HasSubstr("a quote is not closed"));
  EXPECT_THAT(error("a.b=[1"), HasSubstr("--override a.b=[1"));
  EXPECT_THAT(error("++a.b.c=1"), HasSubstr("below no section"));
  for (const char* text : {"", "a.b", "=1", "+", "a..b=1", "~"})
    EXPECT_THAT(error(text), HasSubstr("KEY=VALUE")) << text;
}

TEST(Overrides, may_change_what_a_lost_file_has) {
  EXPECT_THAT(keys_of("defaults: [{actor@m.actor: dp}]\nx: 1", with_files({}, {"m.actor.cap=4096"})),
              ElementsAre("x=1", "m.actor.cap=4096"));
}

}  // namespace
}  // namespace evenkeel::config_import
