#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <set>
#include <tuple>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "io/input_file.hpp"
#include "io/safetensors.hpp"
#include "io/safetensors_header.hpp"

namespace evenkeel {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::array<DType, 8> all_dtypes{DType::boolean, DType::uint8,    DType::int32,   DType::int64,
                                          DType::float16, DType::bfloat16, DType::float32, DType::float64};

/// A tensor as the header tells it, before its bytes are known to be there.
struct Entry {
  TensorView tensor;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Reads the JSON header of one file; every error names the file.
class HeaderReader {
 public:
  explicit HeaderReader(std::string path) : path_(std::move(path)) {}

  void read(std::string_view text) {
    simdjson::dom::parser parser;
    element header;
    const simdjson::padded_string padded(text);  // without characters where there was no memory
    const auto error = parser.parse(padded).get(header);
    if (padded.size() < text.size() || error == simdjson::MEMALLOC) throw std::bad_alloc();
    if (error) {
      fail(std::string("the header is not valid JSON: ") + simdjson::error_message(error));
    }
    object keys;
    if (header.get(keys)) fail("the header is not a JSON object");
    for (const auto [key, value] : keys) {
      const std::string name(key);
      if (!seen_.insert(name).second) fail("the header has '" + name + "' twice");
      if (name == safetensors::metadata_key) {
        read_metadata(value);
      } else {
        entries.push_back(read_entry(name, value));
      }
    }
  }

  /// Puts the entries in the order of the data and checks that they fill `bytes` without holes.
  void check_layout(std::int64_t bytes) {
    std::ranges::sort(entries, {}, [](const Entry& e) { return std::tuple(e.begin, e.end, e.tensor.name); });
    std::int64_t expected = 0;
    for (const Entry& entry : entries) {
      if (entry.begin != expected) {
        fail("tensor '" + entry.tensor.name + "' starts at byte " + std::to_string(entry.begin) +
             "; without holes or overlap it starts at " + std::to_string(expected));
      }
      expected = entry.end;
    }
    if (expected != bytes) {
      fail("the tensors have " + std::to_string(expected) + " bytes, the file has " + std::to_string(bytes) +
           " after its header");
    }
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(path_, message, "Is this a whole safetensors file?");
  }

  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;

 private:
  void read_metadata(const element& value) {
    object pairs;
    if (value.get(pairs)) fail("__metadata__ is not an object");
    for (const auto [key, text] : pairs) {
      std::string_view content;
      if (text.get(content)) fail("__metadata__ '" + std::string(key) + "' is not a text");
      if (!metadata.emplace(key, content).second) {
        fail("__metadata__ has '" + std::string(key) + "' twice");
      }
    }
  }

  Entry read_entry(const std::string& name, const element& value) const {
    const std::string what = "tensor '" + name + "'";
    object parts;
    if (value.get(parts)) fail(what + " is not an object");
    Entry entry;
    entry.tensor.name = name;
    entry.tensor.dtype = read_dtype(what, parts);
    entry.tensor.shape = read_integers(what + " shape", parts["shape"]);
    const std::vector<std::int64_t> offsets = read_integers(what + " data_offsets", parts["data_offsets"]);
    if (offsets.size() != 2) fail(what + " data_offsets are not a begin and an end");
    entry.begin = offsets[0];
    entry.end = offsets[1];
    const std::optional<std::int64_t> bytes = safetensors::bytes_of(entry.tensor.dtype, entry.tensor.shape);
    if (!bytes) fail(what + " shape has too many elements");
    if (entry.end - entry.begin != *bytes) {
      fail(what + " has data_offsets of " + std::to_string(entry.end - entry.begin) +
           " bytes; its shape and dtype need " + std::to_string(*bytes));
    }
    return entry;
  }

  DType read_dtype(const std::string& what, const object& parts) const {
    std::string_view name;
    if (parts["dtype"].get(name)) fail(what + " has no dtype");
    for (const DType dtype : all_dtypes) {
      if (safetensors::name_of(dtype) == name) return dtype;
    }
    fail(what + " has the dtype " + std::string(name) +
         "; supported are BOOL, U8, I32, I64, F16, BF16, F32 and F64");
  }

  std::vector<std::int64_t> read_integers(const std::string& what,
                                          simdjson::simdjson_result<element> value) const {
    array list;
    if (value.get(list)) fail(what + " is not a list");
    std::vector<std::int64_t> integers;
    for (const element item : list) {
      std::int64_t integer = 0;
      if (item.get(integer) || integer < 0) {
        fail(what + " has an element that is not an integer from 0 to 2^63-1");
      }
      integers.push_back(integer);
    }
    return integers;
  }

  std::string path_;
  std::set<std::string> seen_;
};

std::vector<std::byte> read_all(const std::filesystem::path& path) {
  const InputFile file(path);
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.size()));
  file.read({reinterpret_cast<char*>(bytes.data()), bytes.size()}, 0);
  return bytes;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path), bytes_(read_all(path)) {
  HeaderReader header(path.string());
  std::uint64_t header_bytes = 0;
  if (bytes_.size() < sizeof header_bytes) {
    header.fail("has " + std::to_string(bytes_.size()) + " bytes; the header's length alone takes 8");
  }
  std::memcpy(&header_bytes, bytes_.data(), sizeof header_bytes);
  if (header_bytes > safetensors::max_header_bytes) {
    header.fail("the header has " + std::to_string(header_bytes) + " bytes; at most " +
                std::to_string(safetensors::max_header_bytes) + " are allowed");
  }
  const std::span<const std::byte> rest = std::span<const std::byte>(bytes_).subspan(sizeof header_bytes);
  if (header_bytes > rest.size()) {
    header.fail("the header has " + std::to_string(header_bytes) + " bytes, the file has " +
                std::to_string(rest.size()) + " after its length");
  }
  header.read({reinterpret_cast<const char*>(rest.data()), header_bytes});
  const std::span<const std::byte> data = rest.subspan(header_bytes);
  header.check_layout(static_cast<std::int64_t>(data.size()));
  metadata_ = std::move(header.metadata);
  for (Entry& entry : header.entries) {
    entry.tensor.bytes = data.subspan(static_cast<std::size_t>(entry.begin),
                                      static_cast<std::size_t>(entry.end - entry.begin));
    tensors_.push_back(std::move(entry.tensor));
  }
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const TensorView& tensor : tensors_) names.push_back(tensor.name);
  return names;
}

const TensorView& SafetensorsFile::at(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &TensorView::name);
  if (found != tensors_.end()) return *found;
  std::string known;
  for (const TensorView& tensor : tensors_) known += (known.empty() ? "" : ", ") + tensor.name;
  throw InputError(path_.string(), "has no tensor '" + std::string(name) + "'; its tensors are: " + known);
}

}  // namespace evenkeel
