#include "buffer/store/store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "buffer/store/record.hpp"
#include "evenkeel/base/error.hpp"
#include "support/report_of.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing_support::read_text;
using testing_support::report_of;
using testing_support::ScratchFolder;
using testing_support::write_text;

constexpr std::int64_t capacity = least_lmdb_capacity;

std::string body_of(const Store& store, std::int64_t number) {
  std::string body;
  store.read_body(number, [&](std::string_view bytes) { body = bytes; });
  return body;
}

std::map<std::int64_t, std::string> events_of(const Store& store) {
  std::map<std::int64_t, std::string> events;
  store.read_events([&](std::int64_t number, std::string_view event) { events[number] = event; });
  return events;
}

void put_body(Store& store, std::int64_t number, std::string_view bytes) {
  StoreChange change;
  change.bodies.push_back({number, bytes});
  store.commit(change);
}

class AnyStore : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] std::unique_ptr<Store> open() const {
    return GetParam() ? open_lmdb_store(folder_ / "store", capacity) : make_memory_store(capacity);
  }

 private:
  ScratchFolder folder_;
};

TEST_P(AnyStore, gives_back_what_was_committed) {
  const auto store = open();
  StoreChange change;
  change.bodies = {{3, "three"}, {7, "seven"}};
  change.events = {{3, "third"}, {5, std::string("\0fifth", 6)}};
  change.seen = {{{1, 2}, 5}, {{1, 3}, 9}, {{1, 2}, 6}};
  change.notes = {{"totals", "{}"}};
  store->commit(change);
  EXPECT_EQ(body_of(*store, 3), "three");
  EXPECT_EQ(body_of(*store, 7), "seven");
  EXPECT_THAT(events_of(*store), ElementsAre(Pair(3, "third"), Pair(5, std::string("\0fifth", 6))));
  EXPECT_THAT(store->seen(),
              testing::UnorderedElementsAre(stream::SeenSlot{{1, 2}, 6}, stream::SeenSlot{{1, 3}, 9}));
  EXPECT_EQ(store->note("totals"), "{}");
  EXPECT_EQ(store->note("other"), std::nullopt);
}

TEST_P(AnyStore, erases_an_event_with_its_body) {
  const auto store = open();
  StoreChange change;
  change.bodies = {{1, "one"}, {2, "two"}};
  change.events = {{1, "a"}, {2, "b"}};
  store->commit(change);
  change = {};
  change.erased = {1, 17};
  store->commit(change);
  EXPECT_THAT(events_of(*store), ElementsAre(Pair(2, "b")));
  EXPECT_EQ(body_of(*store, 2), "two");
  EXPECT_THAT(report_of<InputError>([&] { return body_of(*store, 1); }).message, HasSubstr("no sample 1"));
}

TEST_P(AnyStore, refuses_what_has_no_room_and_goes_on_once_there_is_some) {
  const auto store = open();
  const std::string body(1'000'000, 'x');
  std::int64_t number = 0;
  const auto fill = [&] {
    while (store->used() + store->cost_of(std::ssize(body)) <= capacity) put_body(*store, ++number, body);
  };
  fill();
  EXPECT_GT(number, 10);
  EXPECT_THAT(report_of<LimitError>([&] { put_body(*store, number + 1, body); }).message,
              HasSubstr("no room"));
  for (std::int64_t round = 0; round < 5; ++round) {
    StoreChange change;
    for (std::int64_t old = number - 9; old <= number; ++old) change.erased.push_back(old);
    store->commit(change);
    fill();
    EXPECT_EQ(body_of(*store, number), body);
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, AnyStore, testing::Bool(),
                         [](const auto& of) { return of.param ? "lmdb" : "memory"; });

class LmdbFolder : public testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<Store> open() const { return open_lmdb_store(path(), capacity); }
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "store"; }
  [[nodiscard]] std::filesystem::path data() const { return path() / "data.mdb"; }

 private:
  ScratchFolder folder_;
};

TEST_F(LmdbFolder, has_everything_after_it_was_opened_again) {
  {
    const auto store = open();
    StoreChange change;
    change.bodies = {{1, "one"}};
    change.events = {{1, "a"}};
    change.seen = {{{1, 2}, 5}};
    change.notes = {{"totals", "{}"}};
    store->commit(change);
  }
  const auto store = open();
  EXPECT_EQ(body_of(*store, 1), "one");
  EXPECT_THAT(events_of(*store), ElementsAre(Pair(1, "a")));
  EXPECT_THAT(store->seen(), ElementsAre(stream::SeenSlot{{1, 2}, 5}));
  EXPECT_EQ(store->note("totals"), "{}");
}

TEST_F(LmdbFolder, is_for_one_buffer_at_a_time) {
  const auto store = open();
  const ErrorReport report = report_of<IoError>([&] { return open(); });
  EXPECT_EQ(report.where, path().string());
  EXPECT_THAT(report.message, HasSubstr("in use by another buffer"));
}

TEST_F(LmdbFolder, with_something_else_in_it_is_left_alone) {
  std::filesystem::create_directory(path());
  write_text(path() / "thesis.txt", "years of work");
  EXPECT_THAT(report_of<IoError>([&] { return open(); }).message, HasSubstr("not a buffer's folder"));
  EXPECT_FALSE(std::filesystem::exists(data()));
}

TEST_F(LmdbFolder, of_a_later_version_is_refused) {
  static_cast<void>(open());
  std::string text = read_text(path() / "buffer.json");
  text.replace(text.find("\"version\":1"), 11, "\"version\":2");
  write_text(path() / "buffer.json", text);
  EXPECT_THAT(report_of<IoError>([&] { return open(); }).message, HasSubstr("is of version 2"));
}

TEST_F(LmdbFolder, that_cannot_be_made_is_an_error) {
  write_text(path(), "a file");
  EXPECT_EQ(report_of<IoError>([&] { return open(); }).where, path().string());
}

TEST_F(LmdbFolder, tells_that_its_file_was_cut_off) {
  static_cast<void>(open());
  std::filesystem::resize_file(data(), 8192);
  EXPECT_THAT(report_of<IoError>([&] { return open(); }).message,
              HasSubstr("has been cut off: it has 8192 bytes"));
}

TEST_F(LmdbFolder, tells_flipped_bytes_of_a_sample_and_never_gives_them) {
  const std::string body(100'000, 'q');
  put_body(*open(), 1, body);
  const std::string content = read_text(data());
  const std::size_t place = content.find(std::string(5000, 'q'));
  ASSERT_NE(place, std::string::npos);
  std::fstream file(data(), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(place + 2000)).put('Q');
  file.close();
  const auto store = open();
  EXPECT_THAT(report_of<InputError>([&] { return body_of(*store, 1); }).message,
              HasSubstr("sample 1 of 100004 bytes is damaged"));
}

TEST_F(LmdbFolder, keeps_what_it_has_when_the_disk_is_full_and_goes_on_afterwards) {
  const auto store = open();
  put_body(*store, 1, "one");
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto on_signal = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 1 << 16, before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string body(1'000'000, 'x');
  const ErrorReport report = report_of<IoError>([&] { put_body(*store, 2, body); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, on_signal);
  EXPECT_THAT(report.message, HasSubstr("cannot be written"));
  EXPECT_EQ(body_of(*store, 1), "one");
  put_body(*store, 2, body);
  EXPECT_EQ(body_of(*store, 2), body);
}

TEST_F(LmdbFolder, takes_no_more_of_the_disk_than_its_capacity_and_a_twentieth) {
  const auto store = open();
  const std::string body(3000, 'x');
  std::int64_t number = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<StoreChange::Record> bodies;
    for (int i = 0; i < 500; ++i) bodies.push_back({++number, body});
    StoreChange change;
    change.bodies = bodies;
    try {
      store->commit(change);
    } catch (const LimitError&) {
      change = {};
      for (std::int64_t old = std::max<std::int64_t>(1, number - 4000); old <= number; ++old)
        change.erased.push_back(old);
      store->commit(change);
    }
  }
  EXPECT_LE(std::filesystem::file_size(data()), capacity / 20 * 21);
}

TEST(Record, in_the_place_of_another_is_damaged) {
  const std::string record = record_header(RecordKind::event, 7, "text") + "text";
  EXPECT_EQ(record_content(RecordKind::event, 7, record, "store"), "text");
  EXPECT_THROW(static_cast<void>(record_content(RecordKind::event, 8, record, "store")), InputError);
  EXPECT_THROW(static_cast<void>(record_content(RecordKind::body, 7, record, "store")), InputError);
  EXPECT_THROW(static_cast<void>(record_content(RecordKind::event, 7, "abc", "store")), InputError);
}

}  // namespace
}  // namespace evenkeel
