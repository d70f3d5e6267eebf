#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "buffer/buffer.hpp"
#include "buffer/store/store.hpp"
#include "buffer/value_frames.hpp"
#include "buffer/values/value_store.hpp"
#include "evenkeel/base/error.hpp"
#include "support/report_of.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::read_text;
using testing_support::received_frame;
using testing_support::report_of;
using testing_support::ScratchFolder;
using testing_support::write_text;

/// Puts text values, which are BYTES of one field.
void put_texts(ValueStore& store, const std::vector<std::int64_t>& indexes, const std::string& field,
               const std::vector<std::string>& texts) {
  ordered_json shapes = ordered_json::array();
  std::string bytes;
  for (const std::string& text : texts) {
    shapes.push_back({text.size()});
    bytes += text;
  }
  const ordered_json head{{"indexes", indexes},
                          {"fields", {{field, {{"dtype", "BYTES"}, {"shapes", shapes}}}}}};
  store.put(*received_frame(head.dump(), bytes));
}

std::string bytes_of_answer(const FoundValues& values) {
  std::string bytes;
  values.for_each_run([&](std::string_view run) {
    bytes += run;
    return true;
  });
  return bytes;
}

/// Returns all bytes that the answer to a query has.
std::string get(const ValueStore& store, const std::string& query) {
  return bytes_of_answer(store.get(parse_query(query)));
}

std::unique_ptr<Store> memory(std::int64_t capacity = 1 << 20) {
  return make_memory_store(capacity);
}

ErrorReport refusal_of_frame(const std::string& head, const std::string& bytes = "") {
  return report_of<InputError>([&] { static_cast<void>(received_frame(head, bytes)); });
}

TEST(ReceivedValues, keep_each_sample_in_one_block_however_the_bytes_arrive) {
  const std::string head =
      R"({"indexes":[7,9],"fields":{"a":{"dtype":"U8","shapes":[[2],[0]]},"b":{"dtype":"U16","shape":[]}}})";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, std::size_t{1000}}) {
    const auto received = received_frame(head, "xyAABB", piece);
    const std::vector<NewRecord> records = received->records();
    ASSERT_EQ(records.size(), 2U);
    EXPECT_EQ(std::string_view(records[0].body.get(), 4), "xyAA");
    EXPECT_EQ(std::string_view(records[1].body.get(), 2), "BB");
    EXPECT_EQ(records[0].event.values[1].offset, 2);
    EXPECT_EQ(received->bytes_of_values(), 6);
  }
}

TEST(ReceivedValues, are_refused_unless_the_frame_is_as_it_says) {
  const auto message = [](const std::string& head, const std::string& bytes = "") {
    return refusal_of_frame(head, bytes).message;
  };
  const auto field = [](const std::string& about) {
    return R"({"indexes":[0,1],"fields":{"a":)" + about + "}}";
  };
  EXPECT_THAT(message(R"({"indexes":[1,1],"fields":{}})"), HasSubstr("index 1 twice"));
  EXPECT_THAT(message(R"({"indexes":[-1],"fields":{}})"), HasSubstr("-1 as an index"));
  EXPECT_THAT(message(R"({"indexes":[1.5],"fields":{}})"), HasSubstr("1.5 as an index"));
  EXPECT_THAT(message(R"({"indexes":[18446744073709551615],"fields":{}})"), HasSubstr("as an index"));
  EXPECT_THAT(message(R"({"indexes":[],"fields":{"":{"dtype":"U8","shape":[]}}})"),
              HasSubstr("name has 0 bytes"));
  EXPECT_THAT(
      message(R"({"indexes":[],"fields":{")" + std::string(257, 'a') + R"(":{"dtype":"U8","shape":[]}}})"),
      HasSubstr("from 1 to 256"));
  EXPECT_THAT(message(field(R"({"dtype":"U7","shape":[1]})")), HasSubstr(R"("U7" in field 'a')"));
  EXPECT_THAT(message(field(R"({"dtype":"BYTES","shape":[]})")),
              HasSubstr("a shape with 0 axes for the dtype BYTES"));
  EXPECT_THAT(message(field(R"({"dtype":"U8","shapes":[[1]]})")), HasSubstr("a list of 2, one per index"));
  EXPECT_THAT(message(field(R"({"dtype":"U8","shape":[1],"shapes":[[1],[1]]})")), HasSubstr("but not both"));
  EXPECT_THAT(message(field(R"({"dtype":"U8","shape":[1],"color":1})")), HasSubstr("'color'"));
  EXPECT_THAT(message(field(R"({"dtype":"U8","shape":[4294967296,4294967296]})")), HasSubstr("more bytes"));
  EXPECT_THAT(message(field(R"({"dtype":"U8","shape":[-1]})")), HasSubstr("-1 as a size"));
  EXPECT_THAT(message(field(R"({"dtype":"U8","shape":[1]})"), "abc"), HasSubstr("more bytes than its JSON"));
  EXPECT_THAT(message(field(R"({"dtype":"U8","shape":[1]})"), "a"), HasSubstr("in the middle of a frame"));
  EXPECT_THAT(message("[1"), HasSubstr("malformed JSON"));
  EXPECT_THAT(message("[1]"), HasSubstr("JSON that is not an object"));
}

TEST(ReceivedValues, are_refused_if_their_descriptions_would_take_too_much_memory) {
  ordered_json head{{"indexes", std::vector<int>(2000)}, {"fields", ordered_json::object()}};
  for (int i = 0; i < 2000; ++i) {
    head["indexes"][static_cast<std::size_t>(i)] = i;
    head["fields"][std::to_string(i)] = {{"dtype", "U8"}, {"shape", {0}}};
  }
  EXPECT_THAT(report_of<LimitError>([&] { static_cast<void>(received_frame(head.dump(), "")); }).message,
              HasSubstr("2000 indexes and 2000 fields"));
  ValueStore store(memory());
  put_texts(store, {0}, "a", {"x"});
  ordered_json query{{"indexes", std::vector<int>(3000)}, {"fields", {"a"}}};
  query["slices"]["a"] = {{"axis", 0}, {"ranges", std::vector<std::vector<int>>(2000, {0, 0})}};
  EXPECT_THAT(report_of<LimitError>([&] { static_cast<void>(get(store, query.dump())); }).message,
              HasSubstr("ranges of values"));
}

TEST(ValueStore, returns_values_in_the_order_that_is_asked_for_with_their_forms) {
  ValueStore store(memory());
  store.put(*received_frame(
      R"({"indexes":[7,9],"fields":{"ids":{"dtype":"U8","shapes":[[3],[1]]},"reward":{"dtype":"F32","shape":[]}}})",
      "abcdRRRRSSSS"));
  const FoundValues values = store.get(parse_query(R"({"indexes":[9,7,9],"fields":["reward","ids"]})"));
  EXPECT_EQ(bytes_of_answer(values), "SSSSRRRRSSSSdabcd");
  const std::string start = encode_frame_start(values.head());
  EXPECT_EQ(start.size() % 64, 0U);
  EXPECT_EQ(decode_size(start), start.size() - 8);
  EXPECT_EQ(
      ordered_json::parse(start.substr(8)),
      ordered_json::parse(
          R"({"indexes":[9,7,9],"fields":{"reward":{"dtype":"F32","shape":[]},"ids":{"dtype":"U8","shapes":[[1],[3],[1]]}}})"));
}

TEST(ValueStore, keeps_the_dtype_of_each_value) {
  ValueStore store(memory());
  store.put(
      *received_frame(R"({"indexes":[0,1],"fields":{"a":{"dtypes":["U8","I16"],"shape":[1]}}})", "xyy"));
  const FoundValues values = store.get(parse_query(R"({"indexes":[1,0],"fields":["a"]})"));
  EXPECT_EQ(bytes_of_answer(values), "yyx");
  EXPECT_THAT(encode_frame_start(values.head()), HasSubstr(R"("a":{"dtypes":["I16","U8"],"shape":[1]})"));
}

TEST(ValueStore, a_put_replaces_values_and_leaves_the_other_fields) {
  ValueStore store(memory());
  put_texts(store, {1, 2}, "a", {"one", "two"});
  put_texts(store, {1, 2}, "b", {"ONE", "TWO"});
  put_texts(store, {2}, "a", {"another"});
  EXPECT_EQ(get(store, R"({"indexes":[1,2],"fields":["a","b"]})"), "oneanotherONETWO");
  EXPECT_EQ(store.status().values, 4);
  EXPECT_EQ(store.status().bytes, 3 + 7 + 6);
}

TEST(ValueStore, names_the_first_missing_value_and_counts_all) {
  ValueStore store(memory());
  put_texts(store, {1}, "a", {"x"});
  try {
    static_cast<void>(store.get(parse_query(R"({"indexes":[1,2],"fields":["a","b"]})")));
    FAIL();
  } catch (const MissingValuesError& error) {
    EXPECT_EQ(error.report().where, "index 2, field 'a'");
    EXPECT_EQ(error.count(), 3);
  }
}

TEST(ValueStore, clears_fields_samples_or_all) {
  ValueStore store(memory());
  put_texts(store, {1, 2, 3}, "a", {"x", "y", "z"});
  put_texts(store, {1, 2, 3}, "b", {"X", "Y", "Z"});
  EXPECT_EQ(store.clear(parse_selection(R"({"indexes":[1,99],"fields":["a","no"]})")), 1);
  EXPECT_EQ(store.clear(parse_selection(R"({"indexes":[2]})")), 2);
  EXPECT_EQ(get(store, R"({"indexes":[1,3],"fields":["b"]})"), "XZ");
  EXPECT_EQ(store.status().values, 3);
  EXPECT_EQ(store.clear(parse_selection(R"({"all":true})")), 3);
  EXPECT_EQ(store.status().used, ValueStore(memory()).status().used);
  EXPECT_THAT(report_of<InputError>([] {
                static_cast<void>(parse_selection(R"({"all":true,"fields":["a"]})"));
              }).message,
              HasSubstr("'all'"));
}

/// Returns a store with one value `a` of this shape, whose bytes are 0, 1, 2, ...
std::unique_ptr<ValueStore> store_of_grid(const std::vector<std::int64_t>& shape) {
  auto store = std::make_unique<ValueStore>(memory());
  std::string bytes(static_cast<std::size_t>(
                        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies())),
                    '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  const ordered_json head{{"indexes", {0}}, {"fields", {{"a", {{"dtype", "U8"}, {"shape", shape}}}}}};
  store->put(*received_frame(head.dump(), bytes));
  return store;
}

std::vector<int> slice_of(const ValueStore& store, const std::string& slices) {
  const std::string bytes = get(store, R"({"indexes":[0],"fields":["a"],"slices":{"a":)" + slices + "}}");
  return {bytes.begin(), bytes.end()};
}

TEST(ValueStore, sends_only_the_ranges_that_are_asked_for_along_any_axis) {
  const auto store = store_of_grid({3, 2, 4});
  EXPECT_THAT(slice_of(*store, R"({"axis":0,"ranges":[[0,1],[2,3]]})"),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23));
  EXPECT_THAT(slice_of(*store, R"({"axis":1,"ranges":[[1,2]]})"),
              ElementsAre(4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23));
  EXPECT_THAT(slice_of(*store, R"({"axis":2,"ranges":[[0,1],[3,4]]})"),
              ElementsAre(0, 3, 4, 7, 8, 11, 12, 15, 16, 19, 20, 23));
  EXPECT_THAT(slice_of(*store, R"([{"axis":2,"ranges":[[1,2]]},{"axis":0,"ranges":[[1,3]]}])"),
              ElementsAre(9, 13, 17, 21));
  EXPECT_THAT(slice_of(*store, R"({"axis":1,"ranges":[]})"), ElementsAre());
  const FoundValues values = store->get(
      parse_query(R"({"indexes":[0],"fields":["a"],"slices":{"a":{"axis":2,"ranges":[[0,1],[3,4]]}}})"));
  EXPECT_THAT(values.head().fields[0].forms[0].shape, ElementsAre(3, 2, 2));
}

TEST(ValueStore, takes_ranges_per_index) {
  ValueStore store(memory());
  put_texts(store, {1, 2}, "a", {"abcdef", "uvwxyz"});
  EXPECT_EQ(
      get(store,
          R"({"indexes":[2,1],"fields":["a"],"slices":{"a":{"axis":0,"ranges_per_index":[[[0,2]],[[1,2],[4,6]]]}}})"),
      "uvbef");
}

TEST(ValueStore, refuses_slices_outside_of_a_value) {
  const auto store = store_of_grid({3, 2});
  const auto refusal = [&](const std::string& slices) {
    return report_of<InputError>([&] { slice_of(*store, slices); });
  };
  EXPECT_EQ(refusal(R"({"axis":0,"ranges":[[0,4]]})").where, "index 0, field 'a'");
  EXPECT_THAT(refusal(R"({"axis":0,"ranges":[[0,4]]})").message, HasSubstr("3 positions along axis 0"));
  EXPECT_THAT(refusal(R"({"axis":2,"ranges":[[0,1]]})").message, HasSubstr("has 2 axes"));
  EXPECT_THAT(refusal(R"({"axis":0,"ranges":[[1,2],[0,1]]})").message,
              HasSubstr("has range [0, 1] of field 'a', which comes before the previous range, [1, 2]"));
  EXPECT_THAT(refusal(R"({"axis":0,"ranges":[[0,2],[1,3]]})").message,
              HasSubstr("has range [1, 3] of field 'a', which overlaps the previous range, [0, 2]"));
  EXPECT_THAT(refusal(R"({"axis":0,"ranges":[[3,1]]})").message,
              HasSubstr("has range [3, 1] of field 'a', which ends before it starts"));
  EXPECT_THAT(refusal(R"({"axis":0,"ranges":[[0,1],[3,1]]})").message, HasSubstr("ends before it starts"));
  EXPECT_THAT(refusal(R"({"axis":0,"ranges_per_index":[]})").message, HasSubstr("one per index"));
  EXPECT_THAT(refusal(R"([{"axis":0,"ranges":[]},{"axis":0,"ranges":[]}])").message,
              HasSubstr("along the same axis"));
}

TEST(ValueStore, that_is_full_refuses_values_until_others_are_cleared) {
  ValueStore store(memory(100'000));
  put_texts(store, {1}, "a", {std::string(60'000, 'x')});
  EXPECT_THAT(report_of<FullError>([&] { put_texts(store, {2}, "a", {std::string(60'000, 'y')}); }).message,
              HasSubstr("bytes of 100000 are in use"));
  EXPECT_EQ(store.status().values, 1);
  store.clear(parse_selection(R"({"indexes":[1]})"));
  EXPECT_NO_THROW(put_texts(store, {2}, "a", {std::string(60'000, 'y')}));
  EXPECT_THROW(put_texts(store, {3}, "a", {std::string(200'000, 'z')}), LimitError);
}

TEST(ValueStore, keeps_what_is_being_sent_while_it_is_replaced) {
  ValueStore store(memory());
  put_texts(store, {1}, "a", {"before"});
  const FoundValues values = store.get(parse_query(R"({"indexes":[1],"fields":["a"]})"));
  put_texts(store, {1}, "a", {"after"});
  store.clear(parse_selection(R"({"all":true})"));
  EXPECT_EQ(bytes_of_answer(values), "before");
}

/// Stores of values in a folder and in memory.
class ValuesIn : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] std::unique_ptr<Store> open() const {
    return GetParam() ? open_lmdb_store(folder_.path() / "values", least_lmdb_capacity)
                      : memory(least_lmdb_capacity);
  }

 private:
  ScratchFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Stores, ValuesIn, testing::Bool(),
                         [](const auto& of_test) { return of_test.param ? "lmdb" : "memory"; });

TEST_P(ValuesIn, requests_become_visible_as_a_whole) {
  constexpr int samples = 8;
  ValueStore store(open());
  std::vector<std::int64_t> indexes(samples);
  std::iota(indexes.begin(), indexes.end(), 0);
  const auto put = [&](char letter) {
    put_texts(store, indexes, "a", std::vector<std::string>(samples, std::string(5000, letter)));
  };
  put('a');
  std::atomic<bool> is_done = false;
  std::thread writer([&] {
    for (int round = 0; round < 200; ++round) put(static_cast<char>('a' + round % 26));
    is_done = true;
  });
  const std::string query = ordered_json{{"indexes", indexes}, {"fields", {"a"}}}.dump();
  while (!is_done) {
    const std::string bytes = get(store, query);
    ASSERT_EQ(bytes, std::string(samples * 5000, bytes[0]));
  }
  writer.join();
}

TEST_P(ValuesIn, that_are_put_and_cleared_never_fill_the_store) {
  ValueStore store(open());
  const int rounds = GetParam() ? 200 : 1000;  // a store has room for about 40
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t index = round;
    ASSERT_NO_THROW(
        put_texts(store, {index, index + 1}, "a", {std::string(300'000, 'x'), std::string(9, 'y')}))
        << round;
    ASSERT_NO_THROW(put_texts(store, {index}, "b", {std::string(100'000, 'x')})) << round;
    ASSERT_EQ(store.clear({{{index, index + 1}}, std::nullopt}), 3);
  }
  EXPECT_EQ(store.status().indexes, 0);
}

TEST(ValueStore, has_all_values_when_its_folder_is_opened_again) {
  const ScratchFolder scratch;
  const auto open = [&] { return open_lmdb_store(scratch.path() / "values", least_lmdb_capacity); };
  {
    ValueStore store(open());
    store.put(*received_frame(
        R"({"indexes":[1,2],"fields":{"a":{"dtype":"U8","shape":[1]},"b":{"dtype":"U8","shape":[1]},"c":{"dtype":"F64","shapes":[[],[2,0]]}}})",
        "pqrsDDDDDDDD"));
    put_texts(store, {1}, "a", {"newer"});
    put_texts(store, {1}, "a", {"newest"});
    store.clear(parse_selection(R"({"indexes":[1],"fields":["a"]})"));
    store.clear(parse_selection(R"({"indexes":[2],"fields":["b"]})"));
  }
  ValueStore store(open());
  EXPECT_EQ(get(store, R"({"indexes":[1],"fields":["b","c"]})"), "rDDDDDDDD");
  EXPECT_EQ(get(store, R"({"indexes":[2],"fields":["a","c"]})"), "q");
  EXPECT_EQ(store.status().values, 4)
      << "cleared values do not come back, nor do those that they had replaced";
  EXPECT_NO_THROW(put_texts(store, {3}, "a", {"more"}));
}

TEST_P(ValuesIn, are_saved_to_a_file_and_loaded_in_place_of_all_others) {
  const ScratchFolder scratch;
  const std::filesystem::path path = scratch.path() / "saved";
  {
    ValueStore store(open());
    put_texts(store, {1, 2}, "a", {"one", "two"});
    put_texts(store, {1}, "b", {std::string(10'000, 'b')});
    put_texts(store, {2}, "a", {"TWO"});
    EXPECT_EQ(store.save(path).indexes, 2);
    put_texts(store, {1, 3}, "a", {"new", "three"});
    EXPECT_EQ(store.load(path).bytes, 3 + 3 + 10'000);
    EXPECT_EQ(get(store, R"({"indexes":[1,2],"fields":["a"]})"), "oneTWO");
    EXPECT_EQ(store.status().values, 3);
  }
  ValueStore other(memory());
  EXPECT_EQ(other.load(path).indexes, 2);
  EXPECT_EQ(get(other, R"({"indexes":[1],"fields":["b"]})"), std::string(10'000, 'b'));
}

TEST(ValueStore, loads_nothing_of_a_file_that_is_damaged) {
  const ScratchFolder scratch;
  const std::filesystem::path path = scratch.path() / "saved";
  ValueStore store(memory());
  put_texts(store, {1, 2}, "a", {"one", "two"});
  store.save(path);
  const std::string saved = read_text(path);
  for (std::size_t at = 0; at < saved.size(); ++at) {
    std::string damaged = saved;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    write_text(path, damaged);
    EXPECT_THROW(store.load(path), InputError) << at;
    write_text(path, saved.substr(0, at));
    EXPECT_THROW(store.load(path), InputError) << at;
  }
  write_text(path, saved + "x");
  EXPECT_THROW(store.load(path), InputError);
  EXPECT_EQ(get(store, R"({"indexes":[1,2],"fields":["a"]})"), "onetwo");
}

TEST(ValueStore, names_both_versions_when_it_refuses_what_another_version_wrote) {
  const ScratchFolder scratch;
  const std::filesystem::path file = scratch.path() / "saved";
  write_text(file, "{\"format\":\"evenkeel-values\",\"version\":2,\"records\":0}\n");
  ValueStore values(memory());
  EXPECT_THAT(
      report_of<InputError>([&] { (void)values.load(file); }).message,
      HasSubstr("is in version 2 of its format; this version of Evenkeel reads and writes version 1"));

  const auto later = memory();
  StoreChange change;
  change.notes["content"] = "values 2";
  later->commit(change);
  EXPECT_THAT(report_of<InputError>([&] { check_or_record_content(*later, StoreContent::values); }).message,
              HasSubstr("holds content of version 'values 2'; this program reads and writes 'values 1'"));
}

TEST(ValueStore, and_a_buffer_refuse_the_folders_of_each_other) {
  const ScratchFolder scratch;
  const auto open = [&](const char* name) {
    return open_lmdb_store(scratch.path() / name, least_lmdb_capacity);
  };
  { Buffer buffer(open("buffer"), {}); }
  { ValueStore values(open("values")); }
  EXPECT_THAT(report_of<InputError>([&] { ValueStore values(open("buffer")); }).message,
              HasSubstr("holds samples of a stream"));
  EXPECT_THAT(report_of<InputError>([&] { Buffer buffer(open("values"), {}); }).message,
              HasSubstr("holds values"));
}

}  // namespace
}  // namespace evenkeel
