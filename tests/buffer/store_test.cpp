#include "buffer/store/store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "buffer/ledger_notes.hpp"
#include "buffer/redis/redis_store.hpp"
#include "buffer/redis_server.hpp"
#include "buffer/server_json.hpp"
#include "evenkeel/base/error.hpp"
#include "support/report_of.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing_support::no_redis;
using testing_support::read_text;
using testing_support::RedisServer;
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

enum class Kind { memory, lmdb, redis };

class AnyStore : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() != Kind::redis) return;
    if (const std::string why = no_redis(); !why.empty()) GTEST_SKIP() << why;
    redis_ = std::make_unique<RedisServer>();
    lease_ = std::make_unique<Lease>(redis_->address(), "test", "http://here");
  }
  [[nodiscard]] std::unique_ptr<Store> open() const {
    if (GetParam() == Kind::memory) return make_memory_store(capacity);
    if (GetParam() == Kind::lmdb) return open_lmdb_store(folder_ / "store", capacity);
    return open_redis_store({.address = redis_->address(), .name = "test", .capacity = capacity},
                            lease_->state().value);
  }

 private:
  ScratchFolder folder_;
  std::unique_ptr<RedisServer> redis_;
  std::unique_ptr<Lease> lease_;
};

TEST_P(AnyStore, returns_committed_content) {
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
  EXPECT_THAT(store->seen_slots(),
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

TEST_P(AnyStore, refuses_commits_above_its_capacity_and_continues_once_there_is_space) {
  const auto store = open();
  const std::string body(1'000'000, 'x');
  std::int64_t number = 0;
  const auto fill = [&] {
    while (store->bytes_in_use() + store->cost_of(std::ssize(body)) <= capacity)
      put_body(*store, ++number, body);
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

TEST_P(AnyStore, counts_events_and_the_records_of_finished_samples) {
  const auto store = open();
  constexpr std::int64_t samples = 1000;
  const std::string event(500, 'e');
  StoreChange come;
  StoreChange over;
  for (std::int64_t number = 1; number <= samples; ++number) {
    come.events.emplace_back(number, event);
    over.erased.push_back(number);
    const auto group = static_cast<std::uint64_t>(number) * 1'000'003;
    for (const std::uint64_t slot : {1, 2}) over.seen.push_back({{group, slot}, slot});
  }
  store->commit(come);
  const std::int64_t waiting = store->bytes_in_use();
  EXPECT_GE(waiting, samples * std::ssize(event));
  EXPECT_LE(waiting, samples * store->cost_of_event(std::ssize(event)) * 21 / 20);
  store->commit(over);
  EXPECT_GE(store->bytes_in_use(), samples * 2 * 24) << "keys are kept for good";
  EXPECT_LE(store->bytes_in_use(), samples * store->cost_of_event(0));
  const std::int64_t left = store->bytes_in_use();
  StoreChange again;
  again.seen = over.seen;
  store->commit(again);
  EXPECT_EQ(store->bytes_in_use(), left);
}

INSTANTIATE_TEST_SUITE_P(Stores, AnyStore, testing::Values(Kind::memory, Kind::lmdb, Kind::redis),
                         [](const auto& of) {
                           return of.param == Kind::memory ? "memory"
                                  : of.param == Kind::lmdb ? "lmdb"
                                                           : "redis";
                         });

class LmdbFolder : public testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<Store> open() const { return open_lmdb_store(path(), capacity); }
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "store"; }
  [[nodiscard]] std::filesystem::path data() const { return path() / "data.mdb"; }

 private:
  ScratchFolder folder_;
};

/// The outcome of opening a folder in a separate process: LMDB may crash if its pages are damaged.
enum class Fate { as_it_was, told, crashed, wrong };

Fate fate_of(const std::function<bool()>& is_as_it_was) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      ::_exit(is_as_it_was() ? 0 : 2);
    } catch (const Error&) {
      ::_exit(1);
    } catch (...) {
      ::_exit(3);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) > 2) return Fate::crashed;
  return WEXITSTATUS(status) == 0 ? Fate::as_it_was : WEXITSTATUS(status) == 1 ? Fate::told : Fate::wrong;
}

TEST_F(LmdbFolder, has_all_content_after_being_reopened) {
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
  EXPECT_THAT(store->seen_slots(), ElementsAre(stream::SeenSlot{{1, 2}, 5}));
  EXPECT_EQ(store->note("totals"), "{}");
}

TEST_F(LmdbFolder, can_be_used_by_one_buffer_at_a_time) {
  const auto store = open();
  const ErrorReport report = report_of<IoError>([&] { return open(); });
  EXPECT_EQ(report.where, path().string());
  EXPECT_THAT(report.message, HasSubstr("in use by another process"));
}

TEST_F(LmdbFolder, can_be_used_by_one_buffer_at_a_time_after_its_files_were_removed) {
  const auto store = open();
  std::filesystem::remove(path() / "lock.mdb");
  EXPECT_THAT(report_of<IoError>([&] { return open(); }).message, HasSubstr("in use by another process"));
  EXPECT_THAT(report_of<IoError>([&] { return open_lmdb_store_read_only(path()); }).message,
              HasSubstr("in use by another process"));
}

TEST_F(LmdbFolder, reports_that_it_stores_nothing_once_it_was_removed) {
  const auto store = open();
  put_body(*store, 1, "one");
  std::filesystem::remove_all(path());
  EXPECT_THAT(report_of<IoError>([&] { put_body(*store, 2, "two"); }).message, HasSubstr("was removed"));
  EXPECT_THROW(store->make_durable(), IoError);
  EXPECT_THAT(store->data_loss_risk(), HasSubstr("folder was removed"));
  put_body(*open(), 1, "another");
}

TEST_F(LmdbFolder, can_be_inspected_on_a_read_only_file_system) {
  EXPECT_THROW(static_cast<void>(open_lmdb_store_read_only(path())), IoError);
  const std::string body(10'000, 'b');
  put_body(*open(), 1, body);
  const Fate fate = fate_of([&] {
    std::filesystem::permissions(path().parent_path(), std::filesystem::perms(0755));
    std::filesystem::permissions(path(), std::filesystem::perms(0555));
    std::filesystem::permissions(data(), std::filesystem::perms(0444));
    std::filesystem::remove(path() / "lock.mdb");
    if (::geteuid() == 0 && ::setuid(65534) != 0) return false;
    const auto first = open_lmdb_store_read_only(path());
    const auto second = open_lmdb_store_read_only(path());
    return body_of(*first, 1) == body && body_of(*second, 1) == body;
  });
  EXPECT_EQ(fate, Fate::as_it_was);
  std::filesystem::permissions(path(), std::filesystem::perms(0755));
  std::filesystem::permissions(data(), std::filesystem::perms(0644));
  put_body(*open(), 2, "two");
}

TEST_F(LmdbFolder, stores_a_large_sample_wherever_pages_are_free) {
  const auto store = open();
  const std::string small(5000, 's');
  std::int64_t number = 0;
  while (store->bytes_in_use() + 8 * store->cost_of(std::ssize(small)) <= capacity)
    put_body(*store, ++number, small);
  StoreChange change;
  for (std::int64_t old = 1; old <= number; ++old)
    if (old % 3 != 0) change.erased.push_back(old);
  store->commit(change);
  const std::string large(1'000'000, 'l');
  put_body(*store, number + 1, large);
  EXPECT_EQ(body_of(*store, number + 1), large);
  EXPECT_EQ(body_of(*store, 3), small);
}

TEST_F(LmdbFolder, is_not_modified_if_it_contains_other_files) {
  std::filesystem::create_directory(path());
  write_text(path() / "thesis.txt", "years of work");
  EXPECT_THAT(report_of<IoError>([&] { return open(); }).message,
              HasSubstr("not the folder of a buffer or store"));
  EXPECT_FALSE(std::filesystem::exists(data()));
}

TEST_F(LmdbFolder, is_refused_if_it_has_a_later_version) {
  static_cast<void>(open());
  std::string text = read_text(path() / "buffer.json");
  text.replace(text.find("\"version\":2"), 11, "\"version\":3");
  write_text(path() / "buffer.json", text);
  EXPECT_THAT(report_of<IoError>([&] { return open(); }).message, HasSubstr("has version 3"));
}

TEST_F(LmdbFolder, is_an_error_if_it_cannot_be_created) {
  write_text(path(), "a file");
  EXPECT_EQ(report_of<IoError>([&] { return open(); }).where, path().string());
}

TEST_F(LmdbFolder, reports_that_its_file_was_truncated) {
  static_cast<void>(open());
  std::filesystem::resize_file(data(), 8192);
  EXPECT_THAT(report_of<IoError>([&] { return open(); }).message, HasSubstr("was truncated: it has 8192 of"));
}

TEST_F(LmdbFolder, reports_flipped_bytes_of_a_sample_and_never_returns_them) {
  const std::string body(100'000, 'q');
  put_body(*open(), 1, body);
  const std::string content = read_text(data());
  const std::size_t place = content.find(std::string(3000, 'q'));
  ASSERT_NE(place, std::string::npos);
  std::fstream file(data(), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(place + 2000)).put('Q');
  file.close();
  const auto store = open();
  EXPECT_THAT(report_of<InputError>([&] { return body_of(*store, 1); }).message,
              HasSubstr("sample 1 is damaged: a record of 4080 bytes"));
}

TEST_F(LmdbFolder, detects_every_relevant_bit_flip_without_crashing) {
  const auto body_for = [](std::int64_t number) {
    return std::string(static_cast<std::size_t>(number % 7 == 0 ? 9000 : number % 90 + 1),
                       static_cast<char>('a' + number % 26));
  };
  constexpr std::int64_t last = 300;
  {
    const auto store = open();
    for (std::int64_t number = 1; number < last; number += 5) {
      StoreChange change;
      std::vector<std::string> bodies;
      for (std::int64_t n = number; n < number + 5; ++n) {
        bodies.push_back(body_for(n));
        change.events.emplace_back(n, "event " + std::to_string(n));
        change.seen.push_back({{static_cast<std::uint64_t>(n), 7}, 5});
      }
      for (std::int64_t n = 0; n < 5; ++n)
        change.bodies.push_back({number + n, bodies[static_cast<std::size_t>(n)]});
      change.notes = {{"totals", std::to_string(number + 4)}};
      if (number > 5) change.erased = {number - 2};
      store->commit(change);
    }
  }
  const auto is_as_it_was = [&] {
    const auto store = open();
    bool is_right = store->note("totals") == std::to_string(last) && store->seen_slots().size() == last;
    std::int64_t events = 0;
    store->read_events([&](std::int64_t number, std::string_view event) {
      ++events;
      is_right = is_right && event == "event " + std::to_string(number) &&
                 body_of(*store, number) == body_for(number);
    });
    put_body(*store, last + 1, "more");
    return is_right && events == last - (last / 5 - 1) && body_of(*store, last + 1) == "more";
  };
  const std::string sound = read_text(data()).substr(0, std::size_t{1} << 20);
  std::size_t pages = sound.size() / 4096;
  while (sound.find_first_not_of('\0', (pages - 1) * 4096) == std::string::npos) --pages;
  ASSERT_LT(pages, sound.size() / 4096) << "all of it is looked at";
  const auto restore = [&] {
    std::fstream(data(), std::ios::binary | std::ios::in | std::ios::out)
        .write(sound.data(), std::ssize(sound));
  };
  std::mt19937_64 random(7);
  std::map<Fate, int> fates;
  for (int round = 0; round < 150; ++round) {
    // Half of these bytes are where pages describe their contents.
    const std::size_t page = random() % pages;
    const std::size_t place =
        page * 4096 + (page < 2 ? random() % 152 : random() % (round % 2 == 0 ? 64 : 4096));
    const char flipped = static_cast<char>(sound[place] ^ (1 << random() % 8));
    std::fstream(data(), std::ios::binary | std::ios::in | std::ios::out)
        .seekp(static_cast<std::streamoff>(place))
        .put(flipped);
    const Fate fate = fate_of(is_as_it_was);
    ++fates[fate];
    EXPECT_TRUE(fate == Fate::as_it_was || fate == Fate::told)
        << "byte " << place % 4096 << " of page " << page << ": "
        << (fate == Fate::wrong ? "wrong" : "crashed");
    restore();
  }
  EXPECT_GT(fates[Fate::told], 40);
  EXPECT_GT(fates[Fate::as_it_was], 5) << "pages that nothing refers to";
  EXPECT_EQ(fate_of(is_as_it_was), Fate::as_it_was);
}

TEST_F(LmdbFolder, is_an_error_if_it_is_read_only) {
  static_cast<void>(open());
  if (::geteuid() == 0) {
    // Root may write anywhere, so another user tries.
    const Fate fate = fate_of([&] {
      std::filesystem::permissions(path().parent_path(), std::filesystem::perms(0755));
      std::filesystem::permissions(path(), std::filesystem::perms(0555));
      if (::setuid(65534) != 0) return false;
      return open() != nullptr;
    });
    EXPECT_EQ(fate, Fate::told);
    return;
  }
  std::filesystem::permissions(path(), std::filesystem::perms(0555));
  std::filesystem::permissions(data(), std::filesystem::perms(0444));
  EXPECT_THROW(open(), IoError);
  std::filesystem::permissions(path(), std::filesystem::perms(0755));
}

TEST_F(LmdbFolder, is_an_error_without_file_descriptors_and_can_be_opened_later) {
  const Fate fate = fate_of([&] {
    const struct rlimit none { 3, 3 };
    ::setrlimit(RLIMIT_NOFILE, &none);
    return open() != nullptr;
  });
  EXPECT_EQ(fate, Fate::told);
  put_body(*open(), 1, "one");
}

TEST_F(LmdbFolder, starts_over_if_its_first_start_was_killed_halfway) {
  static_cast<void>(open());
  std::string text = read_text(path() / "buffer.json");
  const std::size_t at = text.find("\"file_bytes\":") + 13;
  text.replace(at, text.find_first_of(",}", at) - at, "0");
  write_text(path() / "buffer.json", text);
  write_text(data(), "half of a page");
  put_body(*open(), 1, "one");
}

TEST_F(LmdbFolder, keeps_its_content_when_the_disk_is_full_and_continues_afterwards) {
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

TEST_F(LmdbFolder, uses_at_most_5_percent_more_disk_than_its_capacity) {
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

TEST(Record, is_damaged_if_it_is_stored_under_another_number) {
  const std::string record = record_header(RecordKind::event, 7, "text") + "text";
  EXPECT_EQ(record_content(RecordKind::event, 7, record, "store"), "text");
  EXPECT_THROW(static_cast<void>(record_content(RecordKind::event, 8, record, "store")), InputError);
  EXPECT_THROW(static_cast<void>(record_content(RecordKind::body, 7, record, "store")), InputError);
  EXPECT_THROW(static_cast<void>(record_content(RecordKind::event, 7, "abc", "store")), InputError);
}

TEST(StoredNumbers, are_refused_if_they_are_not_64_bit_integers) {
  nlohmann::json totals = nlohmann::json::parse(serialize_totals(stream::Totals{}));
  EXPECT_EQ(parse_totals(totals.dump()), stream::Totals{});
  const stream::WaitingGroup group{std::int64_t{5}, 1, 0, {{7, 0, 3, 4, 0, 90}}};
  for (const char* const number : {"1e67", "2.5", "9223372036854775808", "true"}) {
    totals["version"] = nlohmann::json::parse(number);
    EXPECT_THROW(static_cast<void>(parse_totals(totals.dump())), InputError) << number;
    nlohmann::json told = nlohmann::json::parse(json_of(group).dump());
    EXPECT_EQ(parse_group(told), group);
    told["samples"][0][3] = nlohmann::json::parse(number);
    EXPECT_THROW(static_cast<void>(parse_group(told)), InputError) << number;
  }
}

}  // namespace
}  // namespace evenkeel
