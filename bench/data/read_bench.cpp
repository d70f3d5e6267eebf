#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/serialization/string.hpp>
#include <cerrno>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "bench/benchmarks.hpp"
#include "bench/measurement.hpp"
#include "bench/steps/shared_folder.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "io/files/system_error.hpp"
#include "io/megatron/indexed_dataset.hpp"
#include "mesh/fail_together.hpp"

namespace evenkeel::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t sample_sizes[] = {std::int64_t{4} << 10, std::int64_t{32} << 10,
                                         std::int64_t{256} << 10};
constexpr std::int64_t block_bytes = std::int64_t{1} << 20;

/// Random tokens of five digits, as text with commas. Every sample is a part of this text, so consecutive
/// samples differ, since a disk might detect repetitions.
std::string token_text() {
  std::mt19937_64 random(7);
  std::string text;
  while (std::ssize(text) < sample_sizes[2] + block_bytes)
    text += std::to_string(10'000 + random() % 90'000) + ',';
  return text;
}

/// Returns the part of `all` for a sample: `size` elements, starting at a multiple of `step`.
template <typename List>
auto part_of(const List& all, std::int64_t sample, std::int64_t size, std::int64_t step) {
  const std::int64_t starts = (std::ssize(all) - size) / step;
  return std::span(all).subspan(static_cast<std::size_t>(sample * 7919 % starts * step),
                                static_cast<std::size_t>(size));
}

void write_lines(const fs::path& path, std::int64_t samples, std::int64_t sample_bytes) {
  constexpr std::string_view head = "{\"prompt_ids\":[1],\"response_ids\":[";
  constexpr std::string_view tail = "]}\n";
  constexpr std::int64_t token_bytes = 6;
  const std::int64_t tokens = (sample_bytes - std::ssize(head) - std::ssize(tail)) / token_bytes;
  const std::string all = token_text();
  AtomicFile file(path);
  std::string lines;
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    const auto part = part_of(all, sample, tokens * token_bytes, token_bytes);
    lines.append(head).append(part.data(), part.size() - 1).append(tail);  // no comma behind the last
    if (std::ssize(lines) < block_bytes && sample + 1 < samples) continue;
    file.write(std::as_bytes(std::span(lines)));
    lines.clear();
  }
  file.commit_to_disk();
}

void write_dataset(const fs::path& prefix, std::int64_t samples, std::int64_t sample_bytes) {
  const std::int64_t tokens = sample_bytes / static_cast<std::int64_t>(sizeof(std::int32_t));
  std::mt19937_64 random(7);
  std::vector<std::int32_t> all(static_cast<std::size_t>(tokens + block_bytes));
  for (std::int32_t& token : all) token = static_cast<std::int32_t>(random() % 100'000);
  IndexedDatasetWriter writer(prefix, IndexedDType::int32);
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    writer.add_bytes(std::as_bytes(part_of(all, sample, tokens, 1)));
    writer.end_document();
  }
  writer.commit();
}

/// The descriptor of an open file.
class Descriptor {
 public:
  explicit Descriptor(const fs::path& path) : path_(path.string()), number_(::open(path.c_str(), O_RDONLY)) {
    if (number_ < 0) throw system_error(path_, "cannot be opened", errno);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(number_); }

  /// Evicts the file from the system's cache. Data that has not been written to the disk would remain there.
  void drop_from_cache() const {
    if (::fsync(number_) != 0) throw system_error(path_, "cannot be written to the disk", errno);
#ifdef POSIX_FADV_DONTNEED
    const int error = ::posix_fadvise(number_, 0, 0, POSIX_FADV_DONTNEED);
#else
    const int error = ENOSYS;
#endif
    if (error != 0) throw system_error(path_, "cannot be dropped from the cache", error);
  }

 private:
  std::string path_;
  int number_;
};

/// Returns the bytes that this process has caused the system to read from disks.
std::int64_t bytes_from_disk() {
  std::ifstream io("/proc/self/io");
  std::string key;
  for (std::int64_t value = 0; io >> key >> value;) {
    if (key == "read_bytes:") return value;
  }
  return 0;
}

struct Format {
  const char* name;
  SourceKind kind;
  const char* data_ending;  ///< extension of the file that contains the samples
  void (*write)(const fs::path&, std::int64_t, std::int64_t);
};
constexpr Format formats[] = {{"jsonl", SourceKind::jsonl, "", write_lines},
                              {"megatron", SourceKind::megatron, ".bin", write_dataset}};

/// One format and size of samples: a separate file, read in different orders.
class ReadJob {
 public:
  ReadJob(const boost::mpi::communicator& world, const fs::path& folder, const Format& format,
          std::int64_t sample_bytes, const ReadOptions& options)
      : world_(world), path_(folder / "samples"), data_(path_.string() + format.data_ending) {
    run_together(world_, [&] {
      if (world_.rank() == 0) format.write(path_, options.bytes / sample_bytes, sample_bytes);
    });
    run_together(world_, [&] {
      descriptor_.emplace(data_);
      file_bytes_ = static_cast<std::int64_t>(fs::file_size(data_));
    });
    for (const bool shuffle : {false, true}) {
      Config config;
      config.source.kind = format.kind;
      config.source.path = path_;
      config.batch.global_batch = options.samples;
      config.batch.shuffle = shuffle;
      streams_.emplace_back(world_, config);
    }
  }

  [[nodiscard]] std::int64_t file_bytes() const noexcept { return file_bytes_; }

  /// Collective: reads the whole file in blocks, each rank a part, without processing the data.
  void read_blocks() const {
    const InputFile file(data_);
    ByteRange mine = split_bytes(file.size(), world_.size())[static_cast<std::size_t>(world_.rank())];
    std::vector<char> block;
    for (; mine.begin < mine.end; mine.begin += block_bytes) {
      block.resize(static_cast<std::size_t>(std::min(block_bytes, mine.size())));
      file.read(block, mine.begin);
    }
  }

  /// Collective: reads every step of an epoch, one after another; ranks wait for each other after each step,
  /// as in jobs.
  void read_steps(bool shuffled) {
    SampleStream& stream = streams_[shuffled ? 1 : 0];
    for (std::int64_t step = 0; step < stream.num_steps(); ++step) {
      const RaggedBatch mine = stream.read(step);
      world_.barrier();
    }
  }

  /// Collective: returns the seconds from the first rank's start to the last one's end, with the file not in
  /// the cache, and the bytes read from disks, over all ranks.
  std::pair<double, std::int64_t> measure(const std::function<void()>& work) const {
    run_together(world_, [&] { descriptor_->drop_from_cache(); });
    const std::int64_t before = bytes_from_disk();
    const double seconds = seconds_of([&] {
      work();
      world_.barrier();
    });
    return {seconds, boost::mpi::all_reduce(world_, bytes_from_disk() - before, std::plus<>())};
  }

 private:
  const boost::mpi::communicator& world_;
  fs::path path_;
  fs::path data_;
  std::int64_t file_bytes_ = 0;
  std::optional<Descriptor> descriptor_;
  std::vector<SampleStream> streams_;
};

Table new_table() {
  return {"reads",
          "All of a file that is not cached, in steps",
          {{"format", "format"},
           {"sample_bytes", "bytes of a sample"},
           {"order", "order"},
           {"mib_s_median", "MiB/s, median", 0},
           {"mib_s_min", "least", 0},
           {"mib_s_max", "most", 0},
           {"from_disk", "bytes from disk / file", 2},
           {"of_sequential", "time / sequential's", 2}}};
}

void measure(const Format& format, std::int64_t sample_bytes, ReadJob& job, int rounds, Table& table) {
  struct Order {
    const char* name;
    std::function<void()> read;
    Samples times{};
    std::int64_t from_disk = 0;
  };
  std::vector<Order> orders;
  orders.push_back({"blocks, unparsed", [&] { job.read_blocks(); }});
  orders.push_back({"sequential", [&] { job.read_steps(false); }});
  orders.push_back({"shuffled", [&] { job.read_steps(true); }});
  for (int round = -1; round < rounds; ++round) {
    for (Order& order : orders) {
      const auto [seconds, from_disk] = job.measure(order.read);
      if (round < 0) continue;
      order.times.seconds.push_back(seconds);
      order.from_disk += from_disk;
    }
  }
  const auto bytes = static_cast<double>(job.file_bytes());
  for (const Order& order : orders) {
    const auto speed = [&](double seconds) { return bytes / seconds / static_cast<double>(block_bytes); };
    const std::vector<double>& seconds = order.times.seconds;
    table.add({format.name, sample_bytes, order.name, speed(median(seconds)),
               speed(std::ranges::max(seconds)), speed(std::ranges::min(seconds)),
               static_cast<double>(order.from_disk) / bytes / rounds,
               1 / speed_against(orders[1].times, order.times)});
  }
}

}  // namespace

Report bench_read(const boost::mpi::communicator& world, const ReadOptions& options) {
  const SharedFolder folder(world, options.folder.empty() ? fs::temp_directory_path() : options.folder);
  Table table = new_table();
  for (const Format& format : formats) {
    for (const std::int64_t sample_bytes : sample_sizes) {
      ReadJob job(world, folder.path(), format, sample_bytes, options);
      measure(format, sample_bytes, job, options.rounds, table);
    }
  }
  if (world.rank() != 0) return {};
  return {
      "read",
      {{"ranks", world.size()},
       {"file_bytes", options.bytes},
       {"samples_of_a_step", options.samples},
       {"rounds", options.rounds}},
      {std::move(table)},
      {"The file is dropped from the system's cache before every run. 'from disk' says how much of it was "
       "read from there, all ranks together: about 1.00, or the figures are a cache's."}};
}

}  // namespace evenkeel::bench
