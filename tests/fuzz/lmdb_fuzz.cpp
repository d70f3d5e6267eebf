// A buffer's LMDB file with modified bytes: it is either read or reported as damaged.
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "buffer/store/store.hpp"
#include "fuzz/target.hpp"

namespace evenkeel::fuzz {
namespace {

constexpr std::int64_t page_bytes = 4096;
constexpr std::int64_t last_number = 60;

/// A folder with a store's file and the original beginning of that file.
class StoredFolder {
 public:
  StoredFolder() {
    fill();
    std::ifstream in(file(), std::ios::binary);
    sound_.resize(std::size_t{1} << 20);
    in.read(sound_.data(), std::ssize(sound_));
    constexpr auto page = static_cast<std::size_t>(page_bytes);
    sound_.resize((sound_.find_last_not_of('\0') / page + 1) * page);
  }

  [[nodiscard]] const std::string& sound() const { return sound_; }
  /// Overwrites the beginning. No page behind it is referred to by the beginning.
  void write(std::string_view content) const {
    std::fstream(file(), std::ios::binary | std::ios::in | std::ios::out)
        .write(content.data(), std::ssize(content));
  }
  [[nodiscard]] std::unique_ptr<Store> open() const { return open_lmdb_store(path(), least_lmdb_capacity); }

 private:
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "buffer"; }
  [[nodiscard]] std::filesystem::path file() const { return path() / "data.mdb"; }

  /// Small values, one value of several pages, and free pages.
  void fill() const {
    const std::unique_ptr<Store> store = open();
    for (std::int64_t number = 1; number <= last_number; ++number) {
      StoreChange change;
      const std::string body(number % 20 == 0 ? 9000 : static_cast<std::size_t>(number), 'b');
      change.bodies.push_back({number, body});
      change.events.emplace_back(number, "event " + std::to_string(number));
      change.seen.push_back({{static_cast<std::uint64_t>(number), 7}, 5});
      change.notes["totals"] = std::to_string(number);
      if (number % 3 == 0) change.erased = {number - 1};
      store->commit(change);
    }
  }

  testing_support::ScratchFolder folder_;
  std::string sound_;
};

/// Each value is either read or reported as damaged.
void read_all(const Store& store) {
  const auto tell = [](const auto& read) {
    try {
      read();
    } catch (const Error& error) {
      require(!error.report().message.empty(), "an error says what is wrong");
    }
  };
  tell([&] { store.read_events([](std::int64_t, std::string_view) {}); });
  tell([&] { static_cast<void>(store.seen_slots()); });
  tell([&] { static_cast<void>(store.note("totals")); });
  for (std::int64_t number = 1; number <= last_number; ++number) {
    tell([&] {
      store.read_body(number, [&](std::string_view body) {
        require(body.find_first_not_of('b') == std::string_view::npos,
                "a body that can be read is unchanged");
      });
    });
  }
}

}  // namespace

/// Groups of five bytes: a page, whether the position is in its header or near it, the position, and the
/// byte.
void run(Bytes input) {
  static const StoredFolder folder;
  std::string content = folder.sound();
  const auto pages = std::ssize(content) / page_bytes;
  Numbers numbers(input);
  while (!numbers.empty()) {
    const std::int64_t page = numbers.byte() % pages;
    constexpr std::int64_t of_header = 152;
    const std::int64_t place = numbers.below(numbers.flag() ? of_header : page_bytes);
    content[static_cast<std::size_t>(page * page_bytes + place)] = static_cast<char>(numbers.byte());
  }
  folder.write(content);
  const std::unique_ptr<Store> store = folder.open();
  read_all(*store);
  StoreChange change;
  change.erased = {1};
  change.bodies.push_back({last_number + 1, "b"});
  store->commit(change);
  store->make_durable();
}

}  // namespace evenkeel::fuzz
