#include <mutex>
#include <shared_mutex>

#include "buffer/store/store.hpp"
#include "evenkeel/base/error.hpp"
#include "stream/key.hpp"

namespace evenkeel {
namespace {

constexpr const char* memory_name = "memory";

class MemoryStore : public Store {
 public:
  explicit MemoryStore(std::int64_t capacity) : capacity_(capacity) {}

  void commit(const StoreChange& change) override {
    const std::unique_lock lock(mutex_);
    std::int64_t used = used_;
    for (const std::int64_t number : change.erased) used -= cost_at(number);
    for (const StoreChange::Record& body : change.bodies) used += cost_of(std::ssize(body.bytes));
    for (const auto& [number, event] : change.events) used += cost_of_event(std::ssize(event));
    if (!change.bodies.empty() && used + bytes_of_keys() > capacity_) {
      throw LimitError(memory_name,
                       "has no room: " + std::to_string(used + bytes_of_keys()) + " bytes of " +
                           std::to_string(capacity_) + " would be used",
                       no_room_hint);
    }
    used_ = used;
    for (const std::int64_t number : change.erased) {
      bodies_.erase(number);
      events_.erase(number);
    }
    for (const StoreChange::Record& body : change.bodies)
      bodies_.emplace(body.number, make_shared_body(body));
    for (const auto& [number, event] : change.events) events_.emplace(number, event);
    for (const stream::SeenSlot& slot : change.seen) seen_.put(slot);
    for (const auto& [name, value] : change.notes) notes_[name] = value;
  }

  void read_body(std::int64_t number, const std::function<void(std::string_view)>& take) const override {
    take(find_shared_body(number)->bytes);
  }

  [[nodiscard]] std::optional<SharedBody> find_shared_body(std::int64_t number) const override {
    const std::shared_lock lock(mutex_);
    const auto found = bodies_.find(number);
    if (found == bodies_.end()) {
      throw InputError(memory_name, "has no sample " + std::to_string(number), no_sample_hint);
    }
    return found->second;
  }

  void read_events(const std::function<void(std::int64_t, std::string_view)>& take) const override {
    const std::shared_lock lock(mutex_);
    for (const auto& [number, event] : events_) take(number, event);
  }

  [[nodiscard]] std::vector<stream::SeenSlot> seen_slots() const override {
    const std::shared_lock lock(mutex_);
    return seen_.slots();
  }

  [[nodiscard]] std::optional<std::string> note(const std::string& name) const override {
    const std::shared_lock lock(mutex_);
    const auto found = notes_.find(name);
    if (found == notes_.end()) return std::nullopt;
    return found->second;
  }

  [[nodiscard]] std::int64_t bytes_in_use() const override {
    const std::shared_lock lock(mutex_);
    return used_ + bytes_of_keys();
  }
  [[nodiscard]] std::int64_t capacity() const noexcept override { return capacity_; }
  [[nodiscard]] std::int64_t cost_of(std::int64_t bytes) const noexcept override {
    return bytes + entry_overhead;
  }
  [[nodiscard]] std::int64_t cost_of_event(std::int64_t bytes) const noexcept override {
    return cost_of(bytes) + keys_reservation;
  }
  [[nodiscard]] std::string data_loss_risk() const override {
    return "all data is lost when this process ends";
  }
  [[nodiscard]] std::string name() const override { return memory_name; }

 private:
  static constexpr std::int64_t entry_overhead = 128;  // bytes of overhead per entry of a map
  static constexpr std::int64_t times_kept = 2;  // copies in memory of a seen slot: here and in the ledger
  // Bytes reserved with each event for the SeenSlot entries (at most two) that remain once its sample is
  // trained or dropped.
  static constexpr std::int64_t keys_reservation = 2 * times_kept * sizeof(stream::SeenSlot);

  [[nodiscard]] static SharedBody make_shared_body(const StoreChange::Record& body) {
    if (body.keeper != nullptr) return {body.bytes, body.keeper};
    auto copy = std::make_shared<const std::string>(body.bytes);
    return {*copy, copy};
  }

  [[nodiscard]] std::int64_t bytes_of_keys() const noexcept { return times_kept * seen_.bytes(); }

  /// Returns the cost of the body and the event with this number. Either of them may be missing.
  [[nodiscard]] std::int64_t cost_at(std::int64_t number) const {
    const auto body = bodies_.find(number);
    const auto event = events_.find(number);
    return (body == bodies_.end() ? 0 : cost_of(std::ssize(body->second.bytes))) +
           (event == events_.end() ? 0 : cost_of_event(std::ssize(event->second)));
  }

  const std::int64_t capacity_;
  mutable std::shared_mutex mutex_;
  std::int64_t used_ = 0;  // total cost of bodies and events in bytes
  std::map<std::int64_t, SharedBody> bodies_;
  std::map<std::int64_t, std::string> events_;
  stream::SeenKeys seen_;
  std::map<std::string, std::string> notes_;
};

}  // namespace

std::unique_ptr<Store> make_memory_store(std::int64_t capacity) {
  return std::make_unique<MemoryStore>(capacity);
}

}  // namespace evenkeel
