#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "bench/benchmarks.hpp"
#include "bench/measurement.hpp"
#include "bench/stream/buffer_process.hpp"
#include "bench/stream/producers.hpp"
#include "buffer/buffer.hpp"
#include "buffer/server.hpp"
#include "buffer/store/store.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/system_error.hpp"

namespace evenkeel::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t intake_sizes[] = {std::int64_t{64} << 10, std::int64_t{1} << 20};
constexpr std::int64_t held_sample = std::int64_t{64} << 10;
constexpr std::int64_t samples_at_once = 16;  // used when the buffer only has to be filled
constexpr double mib = 1 << 20;

/// A folder that is deleted, with its contents, along with this object.
class OwnFolder {
 public:
  explicit OwnFolder(const fs::path& parent)
      : path_((parent.empty() ? fs::temp_directory_path() : parent) /
              ("evenkeel-bench-buffer-" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~OwnFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  [[nodiscard]] const fs::path& path() const noexcept { return path_; }

 private:
  fs::path path_;
};

/// Any store, with a count of its transactions of samples.
class CountedStore : public Store {
 public:
  CountedStore(std::unique_ptr<Store> store, std::atomic<std::int64_t>& commits)
      : store_(std::move(store)), commits_(commits) {}

  void commit(const StoreChange& change) override {
    store_->commit(change);
    if (!change.bodies.empty()) ++commits_;
  }
  [[nodiscard]] bool is_durable() const noexcept override { return store_->is_durable(); }
  void make_durable() override { store_->make_durable(); }
  void read_body(std::int64_t number, const std::function<void(std::string_view)>& take) const override {
    store_->read_body(number, take);
  }
  void read_events(const std::function<void(std::int64_t, std::string_view)>& take) const override {
    store_->read_events(take);
  }
  [[nodiscard]] std::vector<stream::SeenSlot> seen_slots() const override { return store_->seen_slots(); }
  [[nodiscard]] std::optional<std::string> note(const std::string& name) const override {
    return store_->note(name);
  }
  [[nodiscard]] std::int64_t bytes_in_use() const override { return store_->bytes_in_use(); }
  [[nodiscard]] std::int64_t capacity() const noexcept override { return store_->capacity(); }
  [[nodiscard]] std::int64_t cost_of(std::int64_t bytes) const noexcept override {
    return store_->cost_of(bytes);
  }
  [[nodiscard]] std::int64_t cost_of_event(std::int64_t bytes) const noexcept override {
    return store_->cost_of_event(bytes);
  }
  [[nodiscard]] std::string data_loss_risk() const override { return store_->data_loss_risk(); }
  [[nodiscard]] std::string name() const override { return store_->name(); }

 private:
  std::unique_ptr<Store> store_;
  std::atomic<std::int64_t>& commits_;
};

/// A buffer with its server. Its samples are trained after every round, so its room is that of previous
/// samples.
class MeasuredBuffer {
 public:
  explicit MeasuredBuffer(std::unique_ptr<Store> store)
      : buffer_(std::make_unique<CountedStore>(std::move(store), commits_), {}),
        server_(buffer_, {.port = 0}),
        serving_([this] { server_.serve(); }) {}
  ~MeasuredBuffer() {
    buffer_.stop();
    server_.stop();
    serving_.join();
  }
  MeasuredBuffer(const MeasuredBuffer&) = delete;
  MeasuredBuffer& operator=(const MeasuredBuffer&) = delete;

  /// Returns the seconds to accept what all producers send.
  double take(const MadeUpBody& body, int producers, std::int64_t requests) {
    commits_ = 0;
    const double seconds = send_from_all(
        {.port = server_.port(), .producers = producers, .requests = requests, .first_uid = sent_}, body);
    sent_ += producers * requests * std::ssize(body.uids);
    train_all();
    return seconds;
  }
  [[nodiscard]] std::int64_t commits() const noexcept { return commits_; }

 private:
  void train_all() {
    const WaitingGroups waiting = buffer_.wait_for_groups(0, sent_, std::chrono::milliseconds(0));
    stream::StepFormed step{step_, waiting.stream.version, {}, {}, {}};
    for (const stream::WaitingGroup& group : waiting.groups)
      step.groups.push_back({group.uid, std::ssize(group.samples)});
    buffer_.form_step(step);
    buffer_.mark_trained(step_++);
  }

  std::atomic<std::int64_t> commits_ = 0;
  std::int64_t sent_ = 0;
  std::int64_t step_ = 0;
  Buffer buffer_;
  BufferServer server_;
  std::thread serving_;
};

/// Returns the seconds to write this many bytes in sequence, with an fdatasync after each batch.
double write_plainly(const fs::path& path, std::int64_t bytes, std::int64_t batch) {
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0) throw system_error(path.string(), "cannot be created", errno);
  const std::string content(static_cast<std::size_t>(batch), 'x');
  const double seconds = seconds_of([&] {
    for (std::int64_t written = 0; written < bytes; written += batch) {
      if (::write(file, content.data(), content.size()) != std::ssize(content) || ::fdatasync(file) != 0)
        throw system_error(path.string(), "cannot be written", errno);
    }
  });
  ::close(file);
  fs::remove(path);
  return seconds;
}

void add_durable(Table& table, const fs::path& folder, std::int64_t size, const BufferBenchOptions& options) {
  const std::int64_t requests = std::max<std::int64_t>(1, options.bytes / size / options.producers);
  const std::int64_t sent = requests * size * options.producers;
  MeasuredBuffer buffer(open_lmdb_store(folder / fmt::format("durable-{}", size), 2 * sent + (256 << 20)));
  const MadeUpBody body = lines_of(1, size, 0);
  Samples taken{"buffer", {}};
  Samples same{"same batches", {}};
  Samples whole{"batches of all", {}};
  std::vector<double> batches;
  for (int round = -1; round < options.rounds; ++round) {
    const double seconds = buffer.take(body, options.producers, requests);
    const std::int64_t batch = sent / std::max<std::int64_t>(1, buffer.commits());
    const double of_same = write_plainly(folder / "plain", sent, batch);
    const double of_whole = write_plainly(folder / "plain", sent, size * options.producers);
    if (round < 0) continue;
    batches.push_back(static_cast<double>(batch) / static_cast<double>(size));
    taken.seconds.push_back(seconds);
    same.seconds.push_back(of_same);
    whole.seconds.push_back(of_whole);
  }
  const auto speed = [&](const Samples& samples) {
    return static_cast<double>(sent) / mib / median(samples.seconds);
  };
  table.add({size, median(batches), speed(taken), speed(same), speed_against(same, taken), speed(whole),
             speed_against(whole, taken)});
}

Table durable_table(const fs::path& folder, const BufferBenchOptions& options) {
  Table table("durable", "Samples until they are on the disk, over plain writes with one fdatasync a batch",
              {{"sample_bytes", "bytes of a sample"},
               {"batch", "samples of a transaction", 1},
               {"mib_s", "MiB/s", 0},
               {"same", "plain, batches as large: MiB/s", 0},
               {"over_same", "x", 2},
               {"whole", "plain, a sample of each producer: MiB/s", 0},
               {"over_whole", "x", 2}});
  for (const std::int64_t size : intake_sizes) add_durable(table, folder, size, options);
  return table;
}

Table memory_table(const BufferBenchOptions& options) {
  Table table("memory", "Samples into memory, over the same HTTP library that throws bodies away",
              {{"form", "form"},
               {"sample_bytes", "bytes of a sample"},
               {"mib_s", "MiB/s", 0},
               {"thrown_away", "thrown away: MiB/s", 0},
               {"x", "x", 2}});
  const ThrowingAway away(options.producers);
  for (const std::int64_t size : intake_sizes) {
    const std::int64_t requests = std::max<std::int64_t>(1, options.bytes / size / options.producers);
    const std::int64_t sent = requests * size * options.producers;
    MeasuredBuffer buffer(make_memory_store(2 * sent + (256 << 20)));
    const MadeUpBody body = lines_of(1, size, 0);
    Samples taken{"buffer", {}};
    Samples thrown{"thrown away", {}};
    for (int round = -1; round < options.rounds; ++round) {
      const double seconds = buffer.take(body, options.producers, requests);
      const double of_thrown =
          send_from_all({.port = away.port(), .producers = options.producers, .requests = requests}, body);
      if (round < 0) continue;
      taken.seconds.push_back(seconds);
      thrown.seconds.push_back(of_thrown);
    }
    const auto speed = [&](const Samples& samples) {
      return static_cast<double>(sent) / mib / median(samples.seconds);
    };
    table.add({"lines", size, speed(taken), speed(thrown), speed_against(thrown, taken)});
  }
  return table;
}

Table fields_table(const BufferBenchOptions& options) {
  Table table("fields", "Samples with 32 fields into memory, over those with one field of as many bytes",
              {{"sample_bytes", "bytes of a sample"},
               {"one", "one field: ms", 1},
               {"many", "32 fields: ms", 1},
               {"x", "time, x", 2}});
  for (const std::int64_t size : intake_sizes) {
    const std::int64_t requests = std::max<std::int64_t>(1, options.bytes / size / options.producers);
    const std::int64_t capacity = 2 * requests * size * options.producers + (256 << 20);
    MeasuredBuffer with_one(make_memory_store(capacity));
    MeasuredBuffer with_many(make_memory_store(capacity));
    const MadeUpBody body_of_one = lines_of(1, size, 1);
    const MadeUpBody body_of_many = lines_of(1, size, 32);
    Samples one{"one", {}};
    Samples many{"32", {}};
    for (int round = -1; round < options.rounds; ++round) {
      const double of_one = with_one.take(body_of_one, options.producers, requests);
      const double of_many = with_many.take(body_of_many, options.producers, requests);
      if (round < 0) continue;
      one.seconds.push_back(of_one);
      many.seconds.push_back(of_many);
    }
    table.add({size, median(one.seconds) * 1e3, median(many.seconds) * 1e3, speed_against(many, one)});
  }
  return table;
}

Table held_table(const fs::path& folder, const BufferBenchOptions& options) {
  Table table("held", "A buffer that holds samples in LMDB, and has nothing to do",
              {{"held_mib", "MiB held"},
               {"samples", "samples"},
               {"memory_mib", "memory without the page cache, MiB", 0},
               {"idle", "% of a core when idle", 4}});
  const BufferProcess buffer(folder / "held", options.held / 20 * 23 + (64 << 20));
  const MadeUpBody body = lines_of(samples_at_once, held_sample, 0);
  const std::int64_t requests =
      std::max<std::int64_t>(1, options.held / std::ssize(body.bytes) / options.producers);
  static_cast<void>(
      send_from_all({.port = buffer.port(), .producers = options.producers, .requests = requests}, body));
  const std::int64_t before = buffer.processor_time();
  std::this_thread::sleep_for(std::chrono::duration<double>(options.idle_seconds));
  const double idle = static_cast<double>(buffer.processor_time() - before) / 1e9 / options.idle_seconds;
  const std::int64_t sent = requests * options.producers;
  table.add({sent * std::ssize(body.bytes) >> 20, sent * samples_at_once,
             static_cast<double>(buffer.memory()) / mib, idle * 100});
  return table;
}

}  // namespace

Report bench_buffer(const BufferBenchOptions& options) {
  const OwnFolder folder(options.folder);
  std::vector<Table> tables;
  tables.push_back(durable_table(folder.path(), options));
  tables.push_back(memory_table(options));
  tables.push_back(fields_table(options));
  if (options.held > 0) tables.push_back(held_table(folder.path(), options));
  return {"buffer",
          {{"producers", options.producers}, {"bytes", options.bytes}, {"rounds", options.rounds}},
          std::move(tables),
          {"Producers and buffer share this machine's cores. Each sends one request after the other, of one "
           "sample. All samples are trained after every round, so that the next ones take their room."}};
}

}  // namespace evenkeel::bench
