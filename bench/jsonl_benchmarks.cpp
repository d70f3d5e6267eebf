#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/jsonl/jsonl.hpp"
#include "io/jsonl/schema.hpp"
#include "io/jsonl/writer.hpp"
#include "io/samples/synthetic.hpp"

// How fast one core reads rollouts, in bytes of their file, in the same way as a job: it opens a file once
// (its lines, then their fields) and reads each sample once. EVENKEEL_JSONL names a file; without it, a file
// of 64 MiB is generated.
namespace {

using benchmark::State;
using namespace evenkeel;

/// Synthetic rollouts in a temporary file, which exists until the program ends.
class MadeUpFile {
 public:
  MadeUpFile()
      : path_(std::filesystem::temp_directory_path() /
              ("evenkeel-benchmark-" + std::to_string(::getpid()) + ".jsonl")) {
    constexpr std::uintmax_t wanted = std::uintmax_t{64} << 20;
    SyntheticSpec spec;
    std::vector<SampleId> ids;
    JsonlWriter writer(path_);
    for (std::uintmax_t written = 0; written < wanted;) {
      ids.assign(1, SampleId{static_cast<std::int64_t>(next_++)});
      const RaggedBatch batch = synthetic_samples(spec, ids);
      writer.write(batch);
      written += static_cast<std::uintmax_t>(batch.num_tokens()) * 14;
    }
    writer.close();
  }
  MadeUpFile(const MadeUpFile&) = delete;
  MadeUpFile& operator=(const MadeUpFile&) = delete;
  ~MadeUpFile() { std::filesystem::remove(path_); }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::int64_t next_ = 0;
};

const InputFile& rollouts() {
  static std::optional<MadeUpFile> made_up;
  static const std::unique_ptr<const InputFile> file = [] {
    if (const char* given = std::getenv("EVENKEEL_JSONL")) return std::make_unique<const InputFile>(given);
    return std::make_unique<const InputFile>(made_up.emplace().path());
  }();
  return *file;
}

void count_bytes(State& state) {
  state.SetBytesProcessed(state.iterations() * rollouts().size());
}

void jsonl_lines(State& state) {
  const InputFile& file = rollouts();
  for (auto _ : state) benchmark::DoNotOptimize(scan_lines(file).lines.size());
  count_bytes(state);
}

void jsonl_fields(State& state) {
  const std::vector<LineRef> lines = scan_lines(rollouts()).lines;
  for (auto _ : state) benchmark::DoNotOptimize(infer_schema(rollouts(), lines).fields.size());
  count_bytes(state);
}

/// Reads samples as steps do: a few at a time.
void jsonl_samples(State& state) {
  const std::vector<LineRef> lines = scan_lines(rollouts()).lines;
  const JsonlSchema schema = infer_schema(rollouts(), lines);
  for (auto _ : state) {
    for (std::span<const LineRef> left = lines; !left.empty();) {
      const std::span<const LineRef> some = left.first(std::min<std::size_t>(left.size(), 64));
      benchmark::DoNotOptimize(read_samples(rollouts(), some, schema).num_tokens());
      left = left.subspan(some.size());
    }
  }
  count_bytes(state);
}

BENCHMARK(jsonl_lines)->Unit(benchmark::kMillisecond);
BENCHMARK(jsonl_fields)->Unit(benchmark::kMillisecond);
BENCHMARK(jsonl_samples)->Unit(benchmark::kMillisecond);

}  // namespace
