#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/hash.hpp"
#include "buffer/store/lmdb_check.hpp"
#include "buffer/store/record.hpp"
#include "buffer/store/store.hpp"
#include "buffer/store/store_folder.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/system_error.hpp"

namespace evenkeel {
namespace {

constexpr const char* data_name = "data.mdb";
constexpr unsigned most_readers = 1024;  // threads of a door that read bodies at the same time
constexpr std::int64_t page_header = 16;
constexpr std::int64_t node_overhead = 24;  // of a value in a page: its header, its key, its place, evened

/// An error of LMDB, a system's errno among them.
[[noreturn]] void fail(const std::string& folder, const std::string& what, int code) {
  if (code > 0) {
    throw IoError(
        folder, what + ": " + ::mdb_strerror(code),
        code == ENOSPC || code == EDQUOT || code == EFBIG ? "Free disk space: it goes on then" : "");
  }
  if (code == MDB_MAP_FULL || code == MDB_TXN_FULL)
    throw LimitError(folder, what + ": " + ::mdb_strerror(code));
  throw IoError(folder, what + ": it is damaged (" + ::mdb_strerror(code) + ")",
                "Check the disk, and put back a copy of the folder");
}

MDB_val value_of(std::string_view bytes) {
  return {bytes.size(), const_cast<char*>(bytes.data())};  // LMDB reads from here only, and is written in C
}

std::string_view text_of(const MDB_val& value) {
  return {static_cast<const char*>(value.mv_data), value.mv_size};
}

std::int64_t number_of_note(std::string_view name) {
  return static_cast<std::int64_t>(fnv1a_64(name));
}

/// Of what lives as long as the key is used; so below.
MDB_val key_of(const std::int64_t& number) {
  return {sizeof number, const_cast<std::int64_t*>(&number)};
}

std::string_view bytes_of(const stream::GroupKey& slot) {
  static_assert(sizeof slot == 16);
  return {reinterpret_cast<const char*>(&slot), sizeof slot};
}

std::int64_t number_of(const stream::GroupKey& slot) {
  return static_cast<std::int64_t>(slot.high ^ (slot.low << 1));
}

class Transaction {
 public:
  Transaction(MDB_env* env, unsigned flags, const std::string& folder) : folder_(folder) {
    check(::mdb_txn_begin(env, nullptr, flags, &handle_), "cannot be read");
  }
  ~Transaction() {
    if (handle_ != nullptr) ::mdb_txn_abort(handle_);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  [[nodiscard]] MDB_txn* get() const noexcept { return handle_; }
  void commit() { check(::mdb_txn_commit(std::exchange(handle_, nullptr)), "cannot be written"); }
  void check(int code, const char* what) const {
    if (code != MDB_SUCCESS) fail(folder_, what, code);
  }

 private:
  const std::string& folder_;
  MDB_txn* handle_ = nullptr;
};

class LmdbStore : public Store {
 public:
  LmdbStore(const std::filesystem::path& folder, std::int64_t capacity)
      : folder_(folder), name_(folder.string()), capacity_(capacity) {
    const std::int64_t page = ::sysconf(_SC_PAGESIZE);
    const std::int64_t size = std::max((capacity / 20 * 21) / page * page, folder_.file_bytes());
    if (folder_.file_bytes() == 0) begin_folder();
    require_whole_file();
    if (folder_.file_bytes() > 0) require_sound_lmdb(folder_.path() / data_name);
    try {
      open(size);
    } catch (...) {
      ::mdb_env_close(env_);
      throw;
    }
  }
  ~LmdbStore() override {
    static_cast<void>(::mdb_env_sync(env_, 1));
    ::mdb_env_close(env_);
  }

  void commit(const StoreChange& change) override {
    if (has_failed_) settle();
    std::int64_t cost = 0;
    for (const StoreChange::Record& body : change.bodies) cost += cost_of(std::ssize(body.bytes));
    if (cost > 0 && used() + cost > capacity_) {
      throw LimitError(name_, "has no room for " + std::to_string(cost) +
                                  " bytes: " + std::to_string(used()) + " bytes of " +
                                  std::to_string(capacity_) + " are in use");
    }
    try {
      write(change);
    } catch (const LimitError&) {
      // Pages that a transaction has freed can be used again from the second one after it on.
      write({});
      write({});
      write(change);
    }
  }

  [[nodiscard]] bool is_settled() const noexcept override { return is_settled_; }
  void settle() override {
    if (is_settled_) return;
    // A flush that fails may leave the next one nothing to do: the root is written, and flushed, once more.
    if (has_failed_) write({});
    has_failed_ = true;
    check(::mdb_env_sync(env_, 1), "cannot be written");
    has_failed_ = false;
    is_settled_ = true;
  }

  void read_body(std::int64_t number, const std::function<void(std::string_view)>& take) const override {
    const Transaction transaction(env_, MDB_RDONLY, name_);
    MDB_val key = key_of(number);
    MDB_val value{};
    const int code = ::mdb_get(transaction.get(), bodies_, &key, &value);
    if (code == MDB_NOTFOUND) throw InputError(name_, "has no sample " + std::to_string(number));
    transaction.check(code, "cannot be read");
    take(record_content(RecordKind::body, number, text_of(value), name_));
  }

  void read_events(const std::function<void(std::int64_t, std::string_view)>& take) const override {
    for_each(events_, sizeof(std::int64_t), [&](std::string_view key, std::string_view record) {
      std::int64_t number = 0;
      std::memcpy(&number, key.data(), sizeof number);
      take(number, record_content(RecordKind::event, number, record, name_));
    });
  }

  [[nodiscard]] std::vector<stream::SeenSlot> seen() const override {
    std::vector<stream::SeenSlot> slots;
    for_each(seen_, sizeof(stream::GroupKey), [&](std::string_view key, std::string_view record) {
      stream::SeenSlot slot;
      std::memcpy(&slot.slot, key.data(), sizeof slot.slot);
      const std::string_view bits = record_content(RecordKind::seen, number_of(slot.slot), record, name_);
      if (bits.size() != sizeof slot.bits) fail(name_, "cannot be read", MDB_CORRUPTED);
      std::memcpy(&slot.bits, bits.data(), sizeof slot.bits);
      slots.push_back(slot);
    });
    return slots;
  }

  [[nodiscard]] std::optional<std::string> note(const std::string& name) const override {
    const Transaction transaction(env_, MDB_RDONLY, name_);
    MDB_val key = value_of(name);
    MDB_val value{};
    const int code = ::mdb_get(transaction.get(), notes_, &key, &value);
    if (code == MDB_NOTFOUND) return std::nullopt;
    transaction.check(code, "cannot be read");
    return std::string(record_content(RecordKind::note, number_of_note(name), text_of(value), name_));
  }

  [[nodiscard]] std::int64_t used() const override { return used_; }
  [[nodiscard]] std::int64_t capacity() const noexcept override { return capacity_; }
  [[nodiscard]] std::int64_t cost_of(std::int64_t bytes) const noexcept override {
    const std::int64_t record = bytes + static_cast<std::int64_t>(record_overhead);
    const std::int64_t in_page = (page_ - page_header) / (record + node_overhead);
    if (in_page >= 2) return page_ / in_page;
    return (record + page_header + page_ - 1) / page_ * page_ + node_overhead;
  }
  [[nodiscard]] std::string risk() const override { return {}; }
  [[nodiscard]] std::string name() const override { return "LMDB in " + name_; }

 private:
  /// From here on it is a buffer's. What a process that was killed on its way here has left holds nothing,
  /// and may be half of what LMDB begins with.
  void begin_folder() {
    folder_.set_file_bytes(0);
    std::error_code error;
    std::filesystem::remove(folder_.path() / data_name, error);
    if (error) throw system_error(name_, "cannot be written", error.value());
  }

  /// What is missing at the end would be a signal, not an error, when it is read.
  void require_whole_file() const {
    const std::string name = (folder_.path() / data_name).string();
    struct stat status {};
    if (::stat(name.c_str(), &status) != 0) {
      if (errno == ENOENT && folder_.file_bytes() == 0) return;
      throw system_error(name, "cannot be opened", errno);
    }
    if (status.st_size >= folder_.file_bytes()) return;
    throw IoError(name,
                  "has been cut off: it has " + std::to_string(status.st_size) + " bytes of " +
                      std::to_string(folder_.file_bytes()),
                  "Put back a copy of the folder");
  }

  void open(std::int64_t size) {
    check(::mdb_env_create(&env_), "cannot be opened");
    check(::mdb_env_set_mapsize(env_, static_cast<std::size_t>(size)), "cannot be opened");
    check(::mdb_env_set_maxdbs(env_, 4), "cannot be opened");
    check(::mdb_env_set_maxreaders(env_, most_readers), "cannot be opened");
    // LMDB flushes a transaction's pages before it writes its root, and flushes roots with the next one's
    // pages or when this is settled. It uses no page again that the last flushed root needs.
    check(::mdb_env_open(env_, name_.c_str(), MDB_NOTLS | MDB_NOMETASYNC, 0644), "cannot be opened");
    MDB_stat stat{};
    check(::mdb_env_stat(env_, &stat), "cannot be opened");
    page_ = stat.ms_psize;
    int dead = 0;
    check(::mdb_reader_check(env_, &dead), "cannot be opened");
    // Room that is not written takes none on the disk.
    if (size > folder_.file_bytes()) {
      const std::string name = (folder_.path() / data_name).string();
      if (::truncate(name.c_str(), size) != 0) throw system_error(name, "cannot be enlarged", errno);
      folder_.set_file_bytes(size);
    }
    Transaction transaction(env_, 0, name_);
    transaction.check(::mdb_dbi_open(transaction.get(), "bodies", MDB_CREATE | MDB_INTEGERKEY, &bodies_),
                      "cannot be opened");
    transaction.check(::mdb_dbi_open(transaction.get(), "events", MDB_CREATE | MDB_INTEGERKEY, &events_),
                      "cannot be opened");
    transaction.check(::mdb_dbi_open(transaction.get(), "seen", MDB_CREATE, &seen_), "cannot be opened");
    transaction.check(::mdb_dbi_open(transaction.get(), "notes", MDB_CREATE, &notes_), "cannot be opened");
    const std::int64_t used = count_used(transaction);
    transaction.commit();
    used_ = used;
  }

  void check(int code, const char* what) const {
    if (code != MDB_SUCCESS) fail(name_, what, code);
  }

  void for_each(MDB_dbi part, std::size_t key_bytes,
                const std::function<void(std::string_view, std::string_view)>& take) const {
    const Transaction transaction(env_, MDB_RDONLY, name_);
    MDB_cursor* opened = nullptr;
    transaction.check(::mdb_cursor_open(transaction.get(), part, &opened), "cannot be read");
    const std::unique_ptr<MDB_cursor, void (*)(MDB_cursor*)> cursor(opened, ::mdb_cursor_close);
    MDB_val key{};
    MDB_val value{};
    int code = MDB_SUCCESS;
    while ((code = ::mdb_cursor_get(cursor.get(), &key, &value, MDB_NEXT)) == MDB_SUCCESS) {
      if (key.mv_size != key_bytes) fail(name_, "cannot be read", MDB_CORRUPTED);
      take(text_of(key), text_of(value));
    }
    if (code != MDB_NOTFOUND) transaction.check(code, "cannot be read");
  }

  [[nodiscard]] std::int64_t count_used(const Transaction& transaction) const {
    std::size_t pages = 0;
    for (const MDB_dbi part : {bodies_, events_, seen_, notes_}) {
      MDB_stat stat{};
      transaction.check(::mdb_stat(transaction.get(), part, &stat), "cannot be read");
      pages += stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages;
    }
    return static_cast<std::int64_t>(pages) * page_;
  }

  void erase(const Transaction& transaction, MDB_dbi part, const std::int64_t& number) const {
    MDB_val key = key_of(number);
    const int code = ::mdb_del(transaction.get(), part, &key, nullptr);
    if (code != MDB_NOTFOUND) transaction.check(code, "cannot be written");
  }

  void put(const Transaction& transaction, MDB_dbi part, MDB_val key, const std::string& header,
           std::string_view content, unsigned flags) const {
    MDB_val value{header.size() + content.size(), nullptr};
    transaction.check(::mdb_put(transaction.get(), part, &key, &value, flags | MDB_RESERVE),
                      "cannot be written");
    auto* const out = static_cast<char*>(value.mv_data);
    std::ranges::copy(header, out);
    std::ranges::copy(content, out + header.size());
  }

  void write(const StoreChange& change) {
    Transaction transaction(env_, 0, name_);
    for (const std::int64_t number : change.erased) {
      erase(transaction, bodies_, number);
      erase(transaction, events_, number);
    }
    for (const StoreChange::Record& body : change.bodies) {
      put(transaction, bodies_, key_of(body.number), record_header(RecordKind::body, body.number, body.bytes),
          body.bytes, MDB_APPEND);
    }
    for (const auto& [number, event] : change.events) {
      put(transaction, events_, key_of(number), record_header(RecordKind::event, number, event), event,
          MDB_APPEND);
    }
    for (const stream::SeenSlot& slot : change.seen) {
      const std::string_view bits(reinterpret_cast<const char*>(&slot.bits), sizeof slot.bits);
      put(transaction, seen_, value_of(bytes_of(slot.slot)),
          record_header(RecordKind::seen, number_of(slot.slot), bits), bits, 0);
    }
    for (const auto& [name, value] : change.notes) {
      put(transaction, notes_, value_of(name), record_header(RecordKind::note, number_of_note(name), value),
          value, 0);
    }
    // A transaction without a change would not be one.
    put(transaction, notes_, value_of("commits"), {}, std::to_string(++commits_), 0);
    const std::int64_t used = count_used(transaction);
    try {
      transaction.commit();
    } catch (...) {
      has_failed_ = true;
      throw;
    }
    used_ = used;
    is_settled_ = false;
  }

  StoreFolder folder_;
  std::string name_;
  const std::int64_t capacity_;
  MDB_env* env_ = nullptr;
  MDB_dbi bodies_ = 0;
  MDB_dbi events_ = 0;
  MDB_dbi seen_ = 0;
  MDB_dbi notes_ = 0;
  std::int64_t page_ = 0;  // bytes, const from the beginning on
  std::uint64_t commits_ = 0;
  bool is_settled_ = false;  // whoever had the folder before may have been killed
  bool has_failed_ = false;  // to flush something, since it was settled
  std::atomic<std::int64_t> used_ = 0;
};

}  // namespace

std::unique_ptr<Store> open_lmdb_store(const std::filesystem::path& folder, std::int64_t capacity) {
  if (capacity < least_lmdb_capacity) {
    throw ConfigError("capacity", "is " + std::to_string(capacity) + " bytes; at least 16 MiB are needed");
  }
  return std::make_unique<LmdbStore>(folder, capacity);
}

}  // namespace evenkeel
