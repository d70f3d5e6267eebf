#include "io/safetensors/layout.hpp"

#include <simdjson.h>

#include <algorithm>
#include <new>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "io/safetensors/header.hpp"

namespace evenkeel {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

/// Reads the JSON header of one file. Every error names the file.
class HeaderReader {
 public:
  explicit HeaderReader(std::string path) : path_(std::move(path)) {}

  void read(std::string_view text) {
    simdjson::dom::parser parser;
    element header;
    const simdjson::padded_string padded(text);  // empty if allocation failed
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

  /// Sorts the entries in the order of the data, and checks that they fill `bytes` bytes without gaps.
  void sort_and_check_entries(std::int64_t bytes) {
    std::ranges::sort(entries, {},
                      [](const SafetensorsEntry& e) { return std::tuple(e.begin, e.end, e.name); });
    std::int64_t expected = 0;
    for (const SafetensorsEntry& entry : entries) {
      if (entry.begin != expected) {
        fail("tensor '" + entry.name + "' starts at byte " + std::to_string(entry.begin) +
             "; it must start at " + std::to_string(expected) +
             ", since tensors cannot overlap or leave gaps");
      }
      expected = entry.end;
    }
    if (expected != bytes) {
      fail("the tensors have " + format_plain_count(expected, "byte") + ", but the file has " +
           std::to_string(bytes) + " after its header");
    }
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(path_, message, "Check that this is a complete safetensors file");
  }

  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;

 private:
  void read_metadata(const element& value) {
    object pairs;
    if (value.get(pairs)) fail("__metadata__ in the header is not a JSON object");
    for (const auto [key, text] : pairs) {
      std::string_view content;
      if (text.get(content)) fail("__metadata__ '" + std::string(key) + "' is not a string");
      if (!metadata.emplace(key, content).second) {
        fail("__metadata__ has '" + std::string(key) + "' twice");
      }
    }
  }

  SafetensorsEntry read_entry(const std::string& name, const element& value) const {
    const std::string what = "tensor '" + name + "'";
    object parts;
    if (value.get(parts)) fail("the header's entry for " + what + " is not a JSON object");
    SafetensorsEntry entry;
    entry.name = name;
    const std::int64_t bits = read_dtype_name_and_bits(what, parts, entry.dtype);
    entry.shape = read_integers(what + " shape", parts["shape"]);
    const std::vector<std::int64_t> offsets = read_integers(what + " data_offsets", parts["data_offsets"]);
    if (offsets.size() != 2) {
      fail(what + " data_offsets has " + format_plain_count(std::ssize(offsets), "integer") +
           "; it must have two, the start and the end");
    }
    entry.begin = offsets[0];
    entry.end = offsets[1];
    const std::optional<std::int64_t> bytes = safetensors::bytes_of(bits, entry.shape);
    if (!bytes && safetensors::bytes_of(8, entry.shape)) {
      fail(what + " has the dtype " + entry.dtype + " and a shape whose elements do not fill whole bytes");
    }
    if (!bytes) {
      fail(what + " shape has too many elements; the product of its nonzero dimensions can be at most 2^59");
    }
    if (entry.end - entry.begin != *bytes) {
      fail(what + " has data_offsets of " + format_plain_count(entry.end - entry.begin, "byte") +
           "; its shape and dtype need " + std::to_string(*bytes));
    }
    return entry;
  }

  /// Stores the dtype's name in `name` and returns its bits per element.
  std::int64_t read_dtype_name_and_bits(const std::string& what, const object& parts,
                                        std::string& name) const {
    std::string_view word;
    if (parts["dtype"].error()) fail(what + " has no dtype");
    if (parts["dtype"].get(word)) fail(what + " has a dtype that is not a string");
    name = word;
    if (const std::optional<std::int64_t> bits = safetensors::parse_dtype_bits(word)) return *bits;
    throw InputError(path_, what + " has the dtype " + name + ", which is not a known dtype of safetensors",
                     "Check that the safetensors file is complete, or store the tensor in another dtype");
  }

  std::vector<std::int64_t> read_integers(const std::string& what,
                                          simdjson::simdjson_result<element> value) const {
    array list;
    if (value.error()) fail(what + " is missing");
    if (value.get(list)) fail(what + " is not a list");
    std::vector<std::int64_t> integers;
    for (const element item : list) {
      std::int64_t integer = 0;
      if (item.get(integer) || integer < 0) {
        fail(what + " has " + std::string(simdjson::minify(item)).substr(0, 60) +
             ", which is not an integer from 0 to 2^63-1");
      }
      integers.push_back(integer);
    }
    return integers;
  }

  std::string path_;
  std::set<std::string> seen_;
};

}  // namespace

SafetensorsLayout read_safetensors_layout(const InputFile& file) {
  HeaderReader header(file.path());
  std::uint64_t header_bytes = 0;
  if (file.size() < std::int64_t{sizeof header_bytes}) {
    header.fail("has " + format_plain_count(file.size(), "byte") + "; the header's length alone takes 8");
  }
  file.read({reinterpret_cast<char*>(&header_bytes), sizeof header_bytes}, 0);
  if (header_bytes > safetensors::max_header_bytes) {
    header.fail("the first 8 bytes say that the header has " + std::to_string(header_bytes) +
                " bytes; at most " + std::to_string(safetensors::max_header_bytes) + " are allowed");
  }
  const auto rest = static_cast<std::uint64_t>(file.size()) - sizeof header_bytes;
  if (header_bytes > rest) {
    header.fail("the first 8 bytes say that the header has " +
                format_plain_count(static_cast<std::int64_t>(header_bytes), "byte") + ", but the file has " +
                std::to_string(rest) + " after them");
  }
  std::string text(header_bytes, '\0');
  file.read(text, sizeof header_bytes);
  header.read(text);
  header.sort_and_check_entries(static_cast<std::int64_t>(rest - header_bytes));
  return {std::move(header.metadata), std::move(header.entries),
          static_cast<std::int64_t>(sizeof header_bytes + header_bytes)};
}

}  // namespace evenkeel
