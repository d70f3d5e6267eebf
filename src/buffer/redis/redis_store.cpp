#include "buffer/redis/redis_store.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "base/text/parse_number.hpp"
#include "base/text_layout.hpp"
#include "buffer/redis/redis_scripts.hpp"
#include "buffer/store/store.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

constexpr const char* store_format = "evenkeel-buffer 3";
constexpr int least_version = 6;
constexpr std::int64_t max_text = std::int64_t{512} << 20;  // maximum size of a string in Redis, in bytes
constexpr std::size_t max_idle = 16;  // maximum number of idle connections kept for reads

std::string_view bytes_of_slot(const stream::GroupKey& slot) {
  return {reinterpret_cast<const char*>(&slot), sizeof slot};
}

/// List argument of a script, encoded as described in redis_scripts.hpp.
class Items {
 public:
  void add(std::initializer_list<std::string_view> parts) {
    std::size_t size = 0;
    for (const std::string_view part : parts) size += part.size();
    for (int i = 0; i < 4; ++i) text_ += static_cast<char>(size >> (8 * i));
    for (const std::string_view part : parts) text_ += part;
  }
  void add_record(std::string_view key, RecordKind kind, std::int64_t number, std::string_view content) {
    add({key});
    add({record_header(kind, number, content), content});
  }
  [[nodiscard]] std::string_view text() const noexcept { return text_; }

 private:
  std::string text_;
};

class RedisStore : public Store {
 public:
  RedisStore(RedisSettings settings, std::string lease, LeaseTimes times)
      : settings_(std::move(settings)),
        keys_(settings_.name),
        lease_(std::move(lease)),
        valid_(std::to_string(times.valid.count())) {
    refresh();
  }

  void refresh() override {
    writer_.reset();
    {
      const std::lock_guard lock(mutex_);
      idle_.clear();
      ++generation_;
    }
    auto connection = connect();
    std::string data_loss_risk = inspect_server(*connection);
    {
      const std::lock_guard lock(mutex_);
      risk_ = std::move(data_loss_risk);
    }
    open_store(*connection);
    writer_ = std::move(connection);
  }

  void commit(const StoreChange& change) override {
    require_room_for_bodies(*this, change, name());
    if (writer_ == nullptr) throw IoError(name(), "is not connected", "Try again");
    try {
      write(*writer_, change);
    } catch (const LimitError&) {
      throw;  // Redis refused the commit, so the connection and the known number of commits remain valid
    } catch (const Error&) {
      writer_.reset();  // refresh() reconnects and reads the number of commits
      throw;
    }
  }

  void read_body(std::int64_t number, const std::function<void(std::string_view)>& take) const override {
    const RedisReply reply = run_read_command({"HGET", keys_.bodies, std::to_string(number)});
    if (reply.is_null()) throw InputError(name(), "has no sample " + std::to_string(number), no_sample_hint);
    take(record_content(RecordKind::body, number, reply.text(), name()));
  }

  void read_events(const std::function<void(std::int64_t, std::string_view)>& take) const override {
    std::map<std::int64_t, std::string> events;
    for_each(keys_.events, [&](std::string_view key, std::string_view record) {
      const auto number = parse_as<std::int64_t>(key);
      if (!number) throw make_damage_error("event '" + std::string(key) + "'");
      events[*number] = record_content(RecordKind::event, *number, record, name());
    });
    for (const auto& [number, event] : events) take(number, event);
  }

  [[nodiscard]] std::vector<stream::SeenSlot> seen_slots() const override {
    std::map<stream::GroupKey, std::uint64_t> found;  // a map, since HSCAN may return an entry twice
    for_each(keys_.seen, [&](std::string_view key, std::string_view record) {
      stream::SeenSlot slot;
      if (key.size() != sizeof slot.slot) throw make_damage_error("the name of a seen-keys record");
      std::memcpy(&slot.slot, key.data(), sizeof slot.slot);
      const std::string_view bits =
          record_content(RecordKind::seen, record_number_of_slot(slot.slot), record, name());
      if (bits.size() != sizeof slot.bits) throw make_damage_error("a record of seen keys");
      std::memcpy(&slot.bits, bits.data(), sizeof slot.bits);
      found[slot.slot] = slot.bits;
    });
    std::vector<stream::SeenSlot> slots;
    for (const auto& [slot, bits] : found) slots.push_back({slot, bits});
    return slots;
  }

  [[nodiscard]] std::optional<std::string> note(const std::string& name_of_note) const override {
    const RedisReply reply = run_read_command({"HGET", keys_.notes, name_of_note});
    if (reply.is_null()) return std::nullopt;
    return std::string(
        record_content(RecordKind::note, record_number_of_note(name_of_note), reply.text(), name()));
  }

  [[nodiscard]] std::int64_t bytes_in_use() const override { return used_; }
  [[nodiscard]] std::int64_t capacity() const noexcept override { return settings_.capacity; }
  [[nodiscard]] std::int64_t cost_of(std::int64_t bytes) const noexcept override {
    return redis_scripts::cost_of_record(bytes + static_cast<std::int64_t>(record_overhead));
  }
  [[nodiscard]] std::int64_t cost_of_event(std::int64_t bytes) const noexcept override {
    return cost_of(bytes) + redis_scripts::slots_of_event * redis_scripts::slot_cost;
  }
  [[nodiscard]] std::int64_t max_body_bytes() const noexcept override {
    return max_text - static_cast<std::int64_t>(record_overhead);
  }
  [[nodiscard]] std::string data_loss_risk() const override {
    const std::lock_guard lock(mutex_);
    return risk_;
  }
  [[nodiscard]] std::string name() const override {
    return "Redis at " + settings_.address.name() + ", name " + settings_.name;
  }

 private:
  [[nodiscard]] InputError make_damage_error(const std::string& what) const {
    return {name(), what + " is damaged", "Restore the Redis data from a backup"};
  }

  [[nodiscard]] std::unique_ptr<RedisConnection> connect() const {
    return connect_to_master(settings_.address, keys_.about, settings_.patience);
  }

  /// Throws IoError if the server is too old or may evict data. Returns the text for data_loss_risk().
  std::string inspect_server(RedisConnection& connection) {
    std::map<std::string, std::string> info = connection.info();
    const std::string& version = info["redis_version"];
    if (parse_as<std::int64_t>(version.substr(0, version.find('.'))).value_or(0) < least_version) {
      throw IoError(connection.name(), "has version '" + version + "'", "Use Redis 6 or later, or Valkey");
    }
    if (const std::string& policy = info["maxmemory_policy"]; policy != "noeviction") {
      throw IoError(connection.name(),
                    "would evict data when its memory is full: maxmemory-policy is " + policy,
                    "Run CONFIG SET maxmemory-policy noeviction in Redis");
    }
    return describe_data_loss_risk(connection, info["aof_enabled"] == "1");
  }

  static std::string describe_data_loss_risk(RedisConnection& connection, bool has_log) {
    if (!has_log) {
      return "Redis does not keep an append-only file (appendonly no): data stored since its last snapshot "
             "is lost if it crashes, or if it stops without saving";
    }
    std::string sync;
    try {
      const std::vector<RedisReply> answer = connection.call({"CONFIG", "GET", "appendfsync"}).list();
      if (answer.size() == 2) sync = answer[1].text();
    } catch (const IoError&) {
      if (!connection.is_open()) throw;
    }
    if (sync == "always") return {};
    if (sync.empty()) {
      return "Redis does not report how often it writes to the disk (CONFIG GET appendfsync): unless that is "
             "always, the latest data may be lost when its machine fails";
    }
    return "Redis answers before it writes to the disk (appendfsync " + sync +
           "): " + (sync == "everysec" ? "up to two seconds of data" : "the latest data") +
           " may be lost when its machine fails";
  }

  void open_store(RedisConnection& connection) {
    const RedisReply reply = connection.run_script(redis_scripts::begin, all_keys(),
                                                   std::array<std::string_view, 2>{lease_, store_format});
    if (reply.text() == "lease") throw make_lost_lease_error();
    if (reply.text() == "foreign") {
      throw IoError(
          name(),
          "has keys of this name that do not belong to a buffer or store: " + keys_.about + " is missing",
          "Use another name (--name, or stream.name)");
    }
    const std::vector<RedisReply> header = reply.list();
    if (header.size() != 3 || header[0].text() != store_format) {
      throw IoError(name(),
                    "has format '" + std::string(header.empty() ? "" : header[0].text()) +
                        "'; this program reads and writes '" + store_format + "'",
                    "Use the program that wrote it");
    }
    const auto commits = parse_as<std::int64_t>(header[1].text());
    const auto used = parse_as<std::int64_t>(header[2].text());
    if (!commits || !used) throw make_damage_error(keys_.about);
    if (*commits < commits_) {
      settings_.log(connection.name() + " has lost " +
                    format_plain_count(commits_ - *commits, "acknowledged commit") +
                    ": the latest changes are missing");
    }
    commits_ = *commits;
    used_ = *used;
  }

  [[nodiscard]] IoError make_lost_lease_error() const {
    return {name(), "no longer belongs to this server", "Send the same request again"};
  }

  [[nodiscard]] std::array<std::string, 6> all_keys() const {
    return {keys_.lease, keys_.about, keys_.bodies, keys_.events, keys_.seen, keys_.notes};
  }

  void write(RedisConnection& connection, const StoreChange& change) {
    Items erased;
    Items events;
    Items seen;
    Items notes;
    Items numbers;
    for (const std::int64_t number : change.erased) erased.add({std::to_string(number)});
    for (const auto& [number, event] : change.events)
      events.add_record(std::to_string(number), RecordKind::event, number, event);
    for (const stream::SeenSlot& slot : change.seen) {
      seen.add_record(bytes_of_slot(slot.slot), RecordKind::seen, record_number_of_slot(slot.slot),
                      {reinterpret_cast<const char*>(&slot.bits), sizeof slot.bits});
    }
    for (const auto& [key, value] : change.notes)
      notes.add_record(key, RecordKind::note, record_number_of_note(key), value);
    std::vector<std::string> bodies;
    for (const StoreChange::Record& body : change.bodies) {
      numbers.add({std::to_string(body.number)});
      bodies.push_back(record_header(RecordKind::body, body.number, body.bytes));
      bodies.back() += body.bytes;
    }
    const std::string commits = std::to_string(commits_);
    std::vector<std::string_view> arguments{lease_,        commits,     valid_,       erased.text(),
                                            events.text(), seen.text(), notes.text(), numbers.text()};
    arguments.insert(arguments.end(), bodies.begin(), bodies.end());
    const RedisReply reply = connection.run_script(redis_scripts::commit, all_keys(), arguments);
    if (reply.text() == "lease") throw make_lost_lease_error();
    if (reply.text() == "commits")
      throw IoError(name(), "has changes that this server does not know", "Send the same request again");
    const std::optional<std::int64_t> used = reply.number();
    if (!used) throw make_damage_error(keys_.about);
    ++commits_;
    used_ = *used;
  }

  /// Runs a read-only command, on an idle connection if there is one. Thread-safe.
  RedisReply run_read_command(std::initializer_list<std::string_view> words) const {
    auto [connection, generation] = [&]() -> std::pair<std::unique_ptr<RedisConnection>, std::int64_t> {
      const std::lock_guard lock(mutex_);
      if (idle_.empty()) return {nullptr, generation_};
      std::unique_ptr<RedisConnection> one = std::move(idle_.back());
      idle_.pop_back();
      return {std::move(one), generation_};
    }();
    const bool is_new = connection == nullptr;
    if (is_new) connection = connect();
    const RedisReply reply = [&] {
      try {
        return connection->call(words);
      } catch (const IoError&) {
        if (is_new) throw;
        connection = connect();  // the idle connection may have been closed
        return connection->call(words);
      }
    }();
    const std::lock_guard lock(mutex_);
    if (generation == generation_ && idle_.size() < max_idle) idle_.push_back(std::move(connection));
    return reply;
  }

  void for_each(const std::string& key,
                const std::function<void(std::string_view, std::string_view)>& take) const {
    std::string cursor = "0";
    do {
      const std::vector<RedisReply> answer = run_read_command({"HSCAN", key, cursor, "COUNT", "1000"}).list();
      if (answer.size() != 2) throw make_damage_error(key);
      cursor = answer[0].text();
      const std::vector<RedisReply> found = answer[1].list();
      for (std::size_t i = 0; i + 1 < found.size(); i += 2) take(found[i].text(), found[i + 1].text());
    } while (cursor != "0");
  }

  const RedisSettings settings_;
  const RedisKeys keys_;
  const std::string lease_;
  const std::string valid_;                  // validity of the lease in milliseconds
  std::unique_ptr<RedisConnection> writer_;  // only the thread that commits uses `writer_` and `commits_`
  std::int64_t commits_ = 0;
  std::atomic<std::int64_t> used_ = 0;

  mutable std::mutex mutex_;  // guards `idle_`, `generation_` and `risk_`
  mutable std::vector<std::unique_ptr<RedisConnection>> idle_;
  // Number of calls of refresh(). A connection that was opened before the latest call is not reused, since it
  // may lead to a former master.
  std::int64_t generation_ = 0;
  std::string risk_;
};

}  // namespace

void require_redis_name(const std::string& name, const std::string& where) {
  const auto is_good = [](char letter) {
    return (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= 'a' && letter <= 'z') || letter == '.' || letter == '_' || letter == '-';
  };
  if (name.empty() || name.size() > 100 || !std::ranges::all_of(name, is_good))
    throw ConfigError(where,
                      "is '" + name + "'; it must have from 1 to 100 letters, digits, '.', '_' or '-'");
}

std::unique_ptr<Store> open_redis_store(const RedisSettings& settings, const std::string& lease,
                                        LeaseTimes times) {
  require_redis_name(settings.name, "name");
  return std::make_unique<RedisStore>(settings, lease, times);
}

}  // namespace evenkeel
