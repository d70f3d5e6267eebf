#include "buffer/values/value_file.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "buffer/values/value_frame.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"

// A file of values consists of one line of JSON, followed by the records. A record consists of the sizes of
// its event and its body, the event's checksum, the event, the body's checksum, and the body. Checksums are
// computed with record_header(), with the record's position in the file as its number.
namespace evenkeel {
namespace {

constexpr std::string_view value_file_format = "evenkeel-values";
constexpr std::int64_t value_file_version = 1;
constexpr std::size_t max_first_line = 256;

class ValueFileReader {
 public:
  explicit ValueFileReader(const std::filesystem::path& path) : file_(path) {}

  [[nodiscard]] std::string read_string(std::int64_t bytes) {
    std::string text(static_cast<std::size_t>(require_remaining(bytes)), '\0');
    read_bytes(text);
    return text;
  }
  void read_bytes(std::span<char> out) {
    require_remaining(std::ssize(out));
    file_.read(out, at_);
    at_ += std::ssize(out);
  }
  [[nodiscard]] std::int64_t read_size() {
    return require_remaining(static_cast<std::int64_t>(decode_size(read_string(frame_prefix))));
  }
  /// Reads the first line. Returns the number of records that it states.
  [[nodiscard]] std::int64_t read_record_count() {
    std::string line(std::min<std::size_t>(max_first_line, static_cast<std::size_t>(file_.size())), '\0');
    file_.read(line, 0);
    line.resize(std::min(line.find('\n'), line.size()));
    at_ = std::ssize(line) + 1;
    const auto in = nlohmann::json::parse(line, nullptr, false);
    if (!in.is_object() || in.value("format", nlohmann::json()) != value_file_format)
      throw InputError(file_.path(), "is not a file of values", "Name a file that a store has saved");
    if (const auto version = in.value("version", nlohmann::json()); version != value_file_version) {
      throw InputError(file_.path(),
                       (version.is_null() ? "does not state the version of its format"
                                          : "is in version " + version.dump() + " of its format") +
                           std::string("; this version of Evenkeel reads and writes version ") +
                           std::to_string(value_file_version),
                       "Load it with the version of Evenkeel that saved it");
    }
    const nlohmann::json records = in.value("records", nlohmann::json());
    if (!records.is_number_unsigned()) reject();
    return records.get<std::int64_t>();
  }
  void require_end() const {
    if (at_ != file_.size()) reject();
  }
  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }

 private:
  std::int64_t require_remaining(std::int64_t bytes) const {
    if (bytes < 0 || bytes > file_.size() - at_) reject();
    return bytes;
  }
  [[noreturn]] void reject() const {
    throw InputError(file_.path(), "is damaged: its header does not match its contents",
                     "Restore the file from a backup");
  }

  InputFile file_;
  std::int64_t at_ = 0;
};

}  // namespace

void write_value_file(const std::filesystem::path& path, const ValueIndex& index, const Store& store) {
  const std::vector<std::int64_t> indexes = index.indexes();
  std::int64_t records = 0;
  for (const std::int64_t number : indexes) records += std::ssize(index.find(number)->records);
  AtomicFile file(path);
  const auto write = [&](std::string_view text) { file.write(std::as_bytes(std::span(text))); };
  write(nlohmann::ordered_json{
            {"format", value_file_format}, {"version", value_file_version}, {"records", records}}
            .dump() +
        "\n");
  std::int64_t place = 0;
  for (const std::int64_t number : indexes) {
    const StoredSample& sample = *index.find(number);
    for (const StoredRecord& record : sample.records) {
      const std::string event = index.encode_event(number, record.number, sample);
      store.read_body(record.number, [&](std::string_view body) {
        write(encode_size(event.size()) + encode_size(body.size()));
        write(record_header(RecordKind::event, place, event) + event);
        write(record_header(RecordKind::body, place, body));
        write(body);
      });
      ++place;
    }
  }
  file.commit_to_disk();
}

std::vector<NewRecord> read_value_file(const std::filesystem::path& path) {
  ValueFileReader file(path);
  const std::int64_t records = file.read_record_count();
  std::vector<NewRecord> read;
  for (std::int64_t place = 0; place < records; ++place) {
    const std::int64_t event_bytes = file.read_size();
    const std::int64_t bytes = file.read_size();
    const std::string event = file.read_string(static_cast<std::int64_t>(record_overhead) + event_bytes);
    auto memory = std::make_shared_for_overwrite<char[]>(static_cast<std::size_t>(bytes));
    const std::string header = file.read_string(record_overhead);
    const std::span<char> body(memory.get(), static_cast<std::size_t>(bytes));
    file.read_bytes(body);
    NewRecord record{parse_record_event(record_content(RecordKind::event, place, event, file.path())),
                     std::move(memory), bytes};
    bool is_damaged = header != record_header(RecordKind::body, place, {body.data(), body.size()});
    for (const RecordEvent::Value& value : record.event.values)
      is_damaged = is_damaged || value.offset + value.bytes > bytes;
    if (is_damaged)
      throw InputError(file.path(),
                       "is damaged: record " + std::to_string(place) + " has a wrong checksum or size",
                       "Restore the file from a backup");
    read.push_back(std::move(record));
  }
  file.require_end();
  return read;
}

}  // namespace evenkeel
