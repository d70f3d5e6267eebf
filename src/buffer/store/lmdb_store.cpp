#include <lmdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "buffer/store/lmdb_check.hpp"
#include "buffer/store/store.hpp"
#include "buffer/store/store_folder.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/system_error.hpp"

namespace evenkeel {
namespace {

constexpr unsigned max_readers = 1024;  // maximum number of concurrent read transactions
constexpr std::int64_t page_header = 16;
constexpr std::int64_t node_overhead = 24;  // bytes per value in a page: node header, key, offset, rounding
constexpr std::int64_t prefix_bytes = 4;    // bytes of the length prefix in a body's first part
constexpr int part_bits = 15;               // bits for the number of a part in the key of a body
// Pages of trees count twice toward the capacity. A transaction may copy all pages of the trees before the
// old pages become free. There must always be room for these copies; otherwise, trained samples could not be
// erased from a full store.
constexpr std::int64_t times_in_tree = 2;
// Bytes for the two slots of seen keys that a sample may need, if the slots' pages are two thirds full.
constexpr std::int64_t seen_key = 2 * 64;
constexpr std::int64_t max_parts = std::int64_t{1} << part_bits;

/// Throws LimitError if `code`, an error code of LMDB or an errno, means that the store is full, otherwise
/// IoError.
[[noreturn]] void throw_lmdb_error(const std::string& folder, const std::string& what, int code) {
  if (code > 0) {
    throw IoError(folder, what + ": " + ::mdb_strerror(code),
                  code == ENOSPC || code == EDQUOT || code == EFBIG
                      ? "Free disk space; a server that is running then continues"
                      : "Check the disk, and the permissions of the folder");
  }
  if (code == MDB_MAP_FULL || code == MDB_TXN_FULL)
    throw LimitError(folder, what + ": " + ::mdb_strerror(code), no_room_hint);
  if (code != MDB_CORRUPTED && code != MDB_PAGE_NOTFOUND && code != MDB_INVALID)
    throw IoError(folder, what + ": " + ::mdb_strerror(code), "Try again, or restart the server");
  throw IoError(folder, what + ": it is damaged (" + ::mdb_strerror(code) + ")",
                "Check the disk, and restore the folder from a backup");
}

MDB_val to_mdb_val(std::string_view bytes) {
  return {bytes.size(),
          const_cast<char*>(
              bytes.data())};  // LMDB's C interface takes a non-const pointer but only reads from it
}

std::string_view text_of(const MDB_val& value) {
  return {static_cast<const char*>(value.mv_data), value.mv_size};
}

/// Returns a key that refers to `number`, which must outlive the key.
MDB_val key_of(const std::int64_t& number) {
  return {sizeof number, const_cast<std::int64_t*>(&number)};
}

std::int64_t key_of_part(std::int64_t number, std::int64_t part) {
  return number << part_bits | part;
}

/// Returns bytes that refer to `slot`, which must outlive them.
std::string_view bytes_of(const stream::GroupKey& slot) {
  static_assert(sizeof slot == 16);
  return {reinterpret_cast<const char*>(&slot), sizeof slot};
}

class Transaction {
 public:
  Transaction(MDB_env* env, unsigned flags, const std::string& folder) : folder_(folder) {
    require_success(::mdb_txn_begin(env, nullptr, flags, &handle_), "cannot be read");
  }
  ~Transaction() {
    if (handle_ != nullptr) ::mdb_txn_abort(handle_);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  [[nodiscard]] MDB_txn* get() const noexcept { return handle_; }
  void commit() { require_success(::mdb_txn_commit(std::exchange(handle_, nullptr)), "cannot be written"); }
  void require_success(int code, const char* what) const {
    if (code != MDB_SUCCESS) throw_lmdb_error(folder_, what, code);
  }

 private:
  const std::string& folder_;
  MDB_txn* handle_ = nullptr;
};

class LmdbStore : public Store {
 public:
  LmdbStore(const std::filesystem::path& folder, std::int64_t capacity, StoreFolder::Access access)
      : folder_(folder, access), name_(folder.string()), capacity_(capacity) {
    const std::int64_t page = ::sysconf(_SC_PAGESIZE);
    const std::int64_t size = std::max((capacity / 20 * 21) / page * page, folder_.file_bytes());
    const bool is_writer = access == StoreFolder::Access::write;
    if (folder_.file_bytes() == 0) {
      if (!is_writer) throw InputError(name_, "was never used by a buffer", "Name the folder of a buffer");
      initialize_folder();
    }
    require_whole_file();
    if (folder_.file_bytes() > 0) require_valid_lmdb(folder_.data());
    try {
      if (is_writer) {
        open_to_write(size);
      } else {
        open_to_read();
      }
    } catch (...) {
      ::mdb_env_close(env_);
      throw;
    }
  }
  ~LmdbStore() override {
    if (!is_durable_) static_cast<void>(::mdb_env_sync(env_, 1));
    ::mdb_env_close(env_);
  }

  void commit(const StoreChange& change) override {
    if (has_failed_) make_durable();
    require_room_for_bodies(*this, change, name_);
    require_not_removed();
    try {
      write(change);
    } catch (const LimitError&) {
      // Try again after two empty transactions: pages freed by a transaction can be reused only in the second
      // transaction after it.
      write({});
      write({});
      write(change);
    }
  }

  [[nodiscard]] bool is_durable() const noexcept override { return is_durable_; }
  void make_durable() override {
    if (is_durable_) return;
    // After a failed flush, the system may consider the data written, so another flush would have no effect.
    // Therefore, first commit an empty transaction, which writes the root again.
    if (has_failed_) write({});
    has_failed_ = true;
    require_success(::mdb_env_sync(env_, 1), "cannot be written");
    require_not_removed();
    has_failed_ = false;
    is_durable_ = true;
  }

  void read_body(std::int64_t number, const std::function<void(std::string_view)>& take) const override {
    const Transaction transaction(env_, MDB_RDONLY, name_);
    std::string_view part = part_of_body(transaction, number, 0);
    std::uint32_t size = 0;
    if (part.size() < sizeof size) throw_lmdb_error(name_, "cannot be read", MDB_CORRUPTED);
    std::memcpy(&size, part.data(), sizeof size);
    part.remove_prefix(sizeof size);
    if (part.size() >= size) return take(part.substr(0, size));
    std::string body;
    body.reserve(size);
    body.append(part);
    for (std::int64_t next = 1; body.size() < size; ++next)
      body.append(part_of_body(transaction, number, next).substr(0, size - body.size()));
    take(body);
  }

  void read_events(const std::function<void(std::int64_t, std::string_view)>& take) const override {
    for_each(events_, sizeof(std::int64_t), [&](std::string_view key, std::string_view record) {
      std::int64_t number = 0;
      std::memcpy(&number, key.data(), sizeof number);
      take(number, record_content(RecordKind::event, number, record, name_));
    });
  }

  [[nodiscard]] std::vector<stream::SeenSlot> seen_slots() const override {
    std::vector<stream::SeenSlot> slots;
    for_each(seen_, sizeof(stream::GroupKey), [&](std::string_view key, std::string_view record) {
      stream::SeenSlot slot;
      std::memcpy(&slot.slot, key.data(), sizeof slot.slot);
      const std::string_view bits =
          record_content(RecordKind::seen, record_number_of_slot(slot.slot), record, name_);
      if (bits.size() != sizeof slot.bits) throw_lmdb_error(name_, "cannot be read", MDB_CORRUPTED);
      std::memcpy(&slot.bits, bits.data(), sizeof slot.bits);
      slots.push_back(slot);
    });
    return slots;
  }

  [[nodiscard]] std::optional<std::string> note(const std::string& name) const override {
    const Transaction transaction(env_, MDB_RDONLY, name_);
    MDB_val key = to_mdb_val(name);
    MDB_val value{};
    const int code = ::mdb_get(transaction.get(), notes_, &key, &value);
    if (code == MDB_NOTFOUND) return std::nullopt;
    transaction.require_success(code, "cannot be read");
    return std::string(record_content(RecordKind::note, record_number_of_note(name), text_of(value), name_));
  }

  [[nodiscard]] std::int64_t bytes_in_use() const override { return used_; }
  [[nodiscard]] std::int64_t capacity() const noexcept override { return capacity_; }
  [[nodiscard]] std::int64_t cost_of(std::int64_t bytes) const noexcept override {
    const std::int64_t whole_parts = (bytes + prefix_bytes) / part_bytes();
    const std::int64_t rest =
        (bytes + prefix_bytes) % part_bytes() + static_cast<std::int64_t>(record_overhead);
    const std::int64_t in_page = (page_ - page_header) / (rest + node_overhead);
    const std::int64_t whole_page = page_ + times_in_tree * node_overhead;
    const bool is_in_tree = whole_parts == 0 && in_page >= 2;
    return is_in_tree ? times_in_tree * page_ / in_page : (whole_parts + 1) * whole_page;
  }
  [[nodiscard]] std::int64_t cost_of_event(std::int64_t bytes) const noexcept override {
    return cost_of(bytes) + times_in_tree * seen_key;
  }
  [[nodiscard]] std::int64_t max_body_bytes() const noexcept override { return max_parts * part_bytes() - 1; }
  [[nodiscard]] std::string data_loss_risk() const override {
    return folder_.is_removed() ? "its folder was removed: all data is lost when this process ends" : "";
  }
  [[nodiscard]] std::string name() const override { return "LMDB in " + name_; }

 private:
  /// Writes the folder's description and truncates the data file. If an earlier process was killed before it
  /// recorded the file's size, the file does not contain data, but may contain incomplete meta pages of LMDB.
  void initialize_folder() {
    folder_.record_file_bytes(0);
    if (::truncate(folder_.data().c_str(), 0) != 0) throw system_error(name_, "cannot be written", errno);
  }

  void require_not_removed() const {
    if (!folder_.is_removed()) return;
    throw IoError(
        folder_.data().string(),
        "was removed while in use: nothing can be stored, and all data is lost when this process ends",
        "Stop the server, and start it on a folder that is not removed automatically");
  }

  /// Returns the maximum number of a body's bytes in one record, which fills one page. A larger record would
  /// need adjacent free pages, which even a half-empty store may lack.
  [[nodiscard]] std::int64_t part_bytes() const noexcept {
    return page_ - page_header - static_cast<std::int64_t>(record_overhead);
  }

  [[nodiscard]] std::string_view part_of_body(const Transaction& transaction, std::int64_t number,
                                              std::int64_t part) const {
    const std::int64_t of_part = key_of_part(number, part);
    MDB_val key = key_of(of_part);
    MDB_val value{};
    const int code = ::mdb_get(transaction.get(), bodies_, &key, &value);
    if (code == MDB_NOTFOUND) {
      throw InputError(name_,
                       part == 0 ? "has no sample " + std::to_string(number)
                                 : "lacks a part of sample " + std::to_string(number),
                       no_sample_hint);
    }
    transaction.require_success(code, "cannot be read");
    return record_content(RecordKind::body, record_number_of_part(number, part), text_of(value), name_);
  }

  /// Throws IoError if the data file was truncated. Reading the missing part of the mapped file would raise
  /// SIGBUS.
  void require_whole_file() const {
    const std::string name = folder_.data().string();
    struct stat status {};
    if (::stat(name.c_str(), &status) != 0) throw system_error(name, "cannot be opened", errno);
    if (status.st_size >= folder_.file_bytes()) return;
    throw IoError(name,
                  "was truncated: it has " + std::to_string(status.st_size) + " of " +
                      std::to_string(folder_.file_bytes()) + " bytes",
                  "Restore the folder from a backup");
  }

  void open_to_write(std::int64_t size) {
    require_success(::mdb_env_create(&env_), "cannot be opened");
    require_success(::mdb_env_set_mapsize(env_, static_cast<std::size_t>(size)), "cannot be opened");
    require_success(::mdb_env_set_maxreaders(env_, max_readers), "cannot be opened");
    // With MDB_NOMETASYNC, LMDB flushes a transaction's pages before it writes the transaction's root. The
    // root is flushed with the pages of the next transaction or by make_durable(). LMDB does not reuse pages
    // that the last flushed root needs.
    open_environment(MDB_NOMETASYNC);
    int dead = 0;
    require_success(::mdb_reader_check(env_, &dead), "cannot be opened");
    // The file is sparse: parts that were never written do not use disk space.
    if (size > folder_.file_bytes()) {
      const std::string name = folder_.data().string();
      if (::truncate(name.c_str(), size) != 0) throw system_error(name, "cannot be enlarged", errno);
      folder_.record_file_bytes(size);
    }
    open_tables(0, MDB_CREATE);
  }

  /// Opens the store without LMDB's lock file, since the folder may be read-only. `folder_` guarantees that
  /// no process writes to the store.
  void open_to_read() {
    require_success(::mdb_env_create(&env_), "cannot be opened");
    open_environment(MDB_RDONLY | MDB_NOLOCK);
    is_durable_ = true;
    open_tables(MDB_RDONLY, 0);
  }

  void open_environment(unsigned flags) {
    require_success(::mdb_env_set_maxdbs(env_, 4), "cannot be opened");
    require_success(::mdb_env_open(env_, name_.c_str(), MDB_NOTLS | flags, 0644), "cannot be opened");
    MDB_stat stat{};
    require_success(::mdb_env_stat(env_, &stat), "cannot be opened");
    page_ = stat.ms_psize;
  }

  void open_tables(unsigned transaction_flags, unsigned table_flags) {
    Transaction transaction(env_, transaction_flags, name_);
    const auto open = [&](const char* name, unsigned flags, MDB_dbi& table) {
      require_success(::mdb_dbi_open(transaction.get(), name, table_flags | flags, &table),
                      "cannot be opened");
    };
    open("bodies", MDB_INTEGERKEY, bodies_);
    open("events", MDB_INTEGERKEY, events_);
    open("seen", 0, seen_);
    open("notes", 0, notes_);
    const std::int64_t used = used_bytes(transaction);
    transaction.commit();  // the table handles remain valid after a commit
    used_ = used;
  }

  void require_success(int code, const char* what) const {
    if (code != MDB_SUCCESS) throw_lmdb_error(name_, what, code);
  }

  void for_each(MDB_dbi part, std::size_t key_bytes,
                const std::function<void(std::string_view, std::string_view)>& take) const {
    const Transaction transaction(env_, MDB_RDONLY, name_);
    MDB_cursor* opened = nullptr;
    transaction.require_success(::mdb_cursor_open(transaction.get(), part, &opened), "cannot be read");
    const std::unique_ptr<MDB_cursor, void (*)(MDB_cursor*)> cursor(opened, ::mdb_cursor_close);
    MDB_val key{};
    MDB_val value{};
    int code = MDB_SUCCESS;
    while ((code = ::mdb_cursor_get(cursor.get(), &key, &value, MDB_NEXT)) == MDB_SUCCESS) {
      if (key.mv_size != key_bytes) throw_lmdb_error(name_, "cannot be read", MDB_CORRUPTED);
      take(text_of(key), text_of(value));
    }
    if (code != MDB_NOTFOUND) transaction.require_success(code, "cannot be read");
  }

  /// Returns the bytes of capacity used by the tables' pages, plus the bytes reserved for the seen keys that
  /// samples leave when they are trained.
  [[nodiscard]] std::int64_t used_bytes(const Transaction& transaction) const {
    std::size_t pages = 0;
    MDB_stat events{};
    transaction.require_success(::mdb_stat(transaction.get(), events_, &events), "cannot be read");
    const std::int64_t for_keys = static_cast<std::int64_t>(events.ms_entries) * times_in_tree * seen_key;
    for (const MDB_dbi part : {bodies_, events_, seen_, notes_}) {
      MDB_stat stat{};
      transaction.require_success(::mdb_stat(transaction.get(), part, &stat), "cannot be read");
      pages += times_in_tree * (stat.ms_branch_pages + stat.ms_leaf_pages) + stat.ms_overflow_pages;
    }
    return (static_cast<std::int64_t>(pages) + for_keys / page_) * page_;
  }

  void erase(const Transaction& transaction, MDB_dbi part, const std::int64_t& number) const {
    MDB_val key = key_of(number);
    const int code = ::mdb_del(transaction.get(), part, &key, nullptr);
    if (code != MDB_NOTFOUND) transaction.require_success(code, "cannot be written");
  }

  void erase_body(const Transaction& transaction, std::int64_t number) const {
    MDB_cursor* opened = nullptr;
    transaction.require_success(::mdb_cursor_open(transaction.get(), bodies_, &opened), "cannot be written");
    const std::unique_ptr<MDB_cursor, void (*)(MDB_cursor*)> cursor(opened, ::mdb_cursor_close);
    const std::int64_t first = key_of_part(number, 0);
    MDB_val key = key_of(first);
    MDB_val value{};
    int code = ::mdb_cursor_get(cursor.get(), &key, &value, MDB_SET_RANGE);
    while (code == MDB_SUCCESS) {
      std::int64_t found = 0;
      std::memcpy(&found, key.mv_data, sizeof found);
      if (found >> part_bits != number) return;
      transaction.require_success(::mdb_cursor_del(cursor.get(), 0), "cannot be written");
      code = ::mdb_cursor_get(cursor.get(), &key, &value, MDB_NEXT);  // the entry after the deleted one
    }
    if (code != MDB_NOTFOUND) transaction.require_success(code, "cannot be written");
  }

  void put_body(const Transaction& transaction, const StoreChange::Record& body) const {
    if (std::ssize(body.bytes) / part_bytes() >= max_parts) {
      throw LimitError(name_,
                       "cannot keep a sample of " + std::to_string(body.bytes.size()) +
                           " bytes; the limit is " + std::to_string(max_body_bytes()),
                       "Shorten the sample");
    }
    const auto size = static_cast<std::uint32_t>(body.bytes.size());
    std::string first(reinterpret_cast<const char*>(&size), sizeof size);
    std::string_view left = body.bytes;
    const std::size_t in_first = std::min(left.size(), static_cast<std::size_t>(part_bytes()) - first.size());
    first.append(left.substr(0, in_first));
    left.remove_prefix(in_first);
    std::string last;
    std::string_view bytes = first;
    for (std::int64_t part = 0; part == 0 || !bytes.empty(); ++part) {
      const std::int64_t key = key_of_part(body.number, part);
      put(transaction, bodies_, key_of(key),
          record_header(RecordKind::body, record_number_of_part(body.number, part), bytes), bytes,
          MDB_APPEND);
      bytes = left.substr(0, static_cast<std::size_t>(part_bytes()));
      left.remove_prefix(bytes.size());
      if (bytes.empty() || std::ssize(bytes) >= page_ / 2) continue;
      last.assign(bytes);
      last.resize(static_cast<std::size_t>(page_ / 2));  // pads the part so that LMDB gives it its own page
      bytes = last;
    }
  }

  void put(const Transaction& transaction, MDB_dbi part, MDB_val key, const std::string& header,
           std::string_view content, unsigned flags) const {
    MDB_val value{header.size() + content.size(), nullptr};
    transaction.require_success(::mdb_put(transaction.get(), part, &key, &value, flags | MDB_RESERVE),
                                "cannot be written");
    auto* const out = static_cast<char*>(value.mv_data);
    std::ranges::copy(header, out);
    std::ranges::copy(content, out + header.size());
  }

  void write(const StoreChange& change) {
    Transaction transaction(env_, 0, name_);
    for (const std::int64_t number : change.erased) {
      erase_body(transaction, number);
      erase(transaction, events_, number);
    }
    for (const StoreChange::Record& body : change.bodies) put_body(transaction, body);
    for (const auto& [number, event] : change.events) {
      put(transaction, events_, key_of(number), record_header(RecordKind::event, number, event), event,
          MDB_APPEND);
    }
    for (const stream::SeenSlot& slot : change.seen) {
      const std::string_view bits(reinterpret_cast<const char*>(&slot.bits), sizeof slot.bits);
      put(transaction, seen_, to_mdb_val(bytes_of(slot.slot)),
          record_header(RecordKind::seen, record_number_of_slot(slot.slot), bits), bits, 0);
    }
    for (const auto& [name, value] : change.notes) {
      put(transaction, notes_, to_mdb_val(name),
          record_header(RecordKind::note, record_number_of_note(name), value), value, 0);
    }
    // Change a note in every transaction, since LMDB does not write a transaction without changes.
    put(transaction, notes_, to_mdb_val("commits"), {}, std::to_string(++commits_), 0);
    const std::int64_t used = used_bytes(transaction);
    try {
      transaction.commit();
    } catch (...) {
      has_failed_ = true;
      throw;
    }
    used_ = used;
    is_durable_ = false;
  }

  StoreFolder folder_;
  std::string name_;
  const std::int64_t capacity_;
  MDB_env* env_ = nullptr;
  MDB_dbi bodies_ = 0;
  MDB_dbi events_ = 0;
  MDB_dbi seen_ = 0;
  MDB_dbi notes_ = 0;
  std::int64_t page_ = 0;  // page size in bytes; constant after construction
  std::uint64_t commits_ = 0;
  bool is_durable_ = false;  // initially false, since an earlier process may have been killed
  bool has_failed_ = false;  // a commit or flush has failed since the last successful make_durable()
  std::atomic<std::int64_t> used_ = 0;
};

}  // namespace

std::unique_ptr<Store> open_lmdb_store(const std::filesystem::path& folder, std::int64_t capacity) {
  if (capacity < least_lmdb_capacity) {
    throw ConfigError("capacity",
                      "is " + std::to_string(capacity) + " bytes; a store in a folder needs at least " +
                          std::to_string(least_lmdb_capacity),
                      "Raise it (--capacity, or stream.capacity) to 16MiB or more");
  }
  return std::make_unique<LmdbStore>(folder, capacity, StoreFolder::Access::write);
}

std::unique_ptr<Store> open_lmdb_store_read_only(const std::filesystem::path& folder) {
  return std::make_unique<LmdbStore>(folder, least_lmdb_capacity, StoreFolder::Access::read);
}

}  // namespace evenkeel
