#include "config/document.hpp"

#include <yaml-cpp/anchor.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <exception>
#include <set>
#include <sstream>
#include <vector>

#include "base/utf8.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::config_detail {
namespace {

constexpr std::string_view merge_key = "<<";
/// Maximum number of nesting levels. yaml-cpp has the same limit, but does not count levels in aliases.
constexpr int deepest = 500;

[[noreturn]] void throw_malformed(const std::string& where, const std::string& what,
                                  const std::string& hint = {}) {
  throw ConfigError(where, "malformed YAML: " + what, hint);
}

/// Throws ConfigError at the first byte that is not UTF-8 or is a control character other than a tab or line
/// ending. yaml-cpp accepts such bytes, and some of them end the document.
void require_printable_text(const std::string& text, const Place& place) {
  YAML::Mark mark;
  for (std::size_t begin = 0; begin < text.size(); ++mark.line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    std::ranges::replace_if(
        line, [](char c) { return c == '\t' || c == '\r'; }, ' ');
    const std::string shown = printable(line);
    if (shown != line) {
      mark.column = static_cast<int>(std::ranges::mismatch(line, shown).in1 - line.begin());
      throw_malformed(
          place.describe_position(mark),
          "the byte shown as " + shown.substr(static_cast<std::size_t>(mark.column), 4) + " is not text",
          "Write the text as UTF-8; in double quotes, \\xNN stands for a control character");
    }
    begin = end + 1;
  }
}

/// Returns a hint on the cause of an error that yaml-cpp reports at `mark`, or an empty string.
std::string tab_indentation_hint(const std::string& text, const YAML::Mark& mark) {
  std::istringstream lines(text);
  std::string line;
  for (int i = 0; i <= mark.line && std::getline(lines, line); ++i) {
  }
  const std::size_t tab = line.find('\t');
  const bool indents = tab != std::string::npos && line.find_first_not_of(" \t") > tab;
  return indents ? "Indent with spaces: a tab is in front of the first word of the line" : "";
}

/// Accepts the events of one document. Throws SecondDocument at the beginning of a second document.
class OneDocument : public YAML::EventHandler {
 public:
  /// Thrown at the beginning of a second document.
  class SecondDocument : public std::exception {
   public:
    explicit SecondDocument(const YAML::Mark& mark) : mark_(mark) {}
    [[nodiscard]] const YAML::Mark& mark() const noexcept { return mark_; }

   private:
    YAML::Mark mark_;
  };

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (begun_) throw SecondDocument(mark);
    begun_ = true;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnAlias(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnScalar(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& /*value*/) override {}
  void OnSequenceStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {}
  void OnMapEnd() override {}

 private:
  bool begun_ = false;
};

/// Throws ConfigError if the text has a second document. Call this before YAML::Load: yaml-cpp starts a new
/// document at any text that does not belong to the previous one, and would start empty documents forever at
/// a stray comma.
void require_one_document(const std::string& text, const Place& place) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  OneDocument handler;
  try {
    while (parser.HandleNextDocument(handler)) {
    }
  } catch (const OneDocument::SecondDocument& second) {
    const auto at = std::min(static_cast<std::size_t>(std::max(0, second.mark().pos)), text.size());
    const std::string_view rest = std::string_view(text).substr(at);
    const std::string where = place.describe_position(second.mark());
    if (rest.starts_with("---"))
      throw ConfigError(where, "expected one YAML document, found a second one", "Remove the second one");
    throw_malformed(
        where, "found \"" + shorten(rest.substr(0, rest.find('\n'))) + "\" after the end of the document",
        "Remove it, or look for an extra bracket or wrong indentation");
  }
}

void add_base(const YAML::Node& base, const Place& place, std::vector<YAML::Node>& bases) {
  if (!base.IsMap())
    throw ConfigError(place.describe_key_position(base.Mark(), std::string(merge_key)),
                      "only maps can be merged into a map", "Refer to a map, or leave the key out");
  bases.push_back(base);
}

/// Merges the maps named by a map's merge keys. The map's own keys take precedence, then those of the first
/// merged map.
void merge_bases(YAML::Node map, const Place& place) {
  std::vector<YAML::Node> merge_keys;
  std::vector<YAML::Node> bases;
  std::set<std::string> own;
  for (const auto& entry : map) {
    if (!entry.first.IsScalar()) continue;
    own.insert(entry.first.Scalar());
    // A quoted "<<" is an ordinary key, not a merge key.
    if (entry.first.Scalar() != merge_key || entry.first.Tag() != "?") continue;
    merge_keys.push_back(entry.first);
    if (entry.second.IsSequence()) {
      for (const YAML::Node& base : entry.second) add_base(base, place, bases);
    } else {
      add_base(entry.second, place, bases);
    }
  }
  for (const YAML::Node& key : merge_keys) map.remove(key);
  for (const YAML::Node& base : bases) {
    for (const auto& entry : base) {
      if (entry.first.IsScalar() && own.insert(entry.first.Scalar()).second)
        map.force_insert(entry.first, entry.second);
    }
  }
}

/// Applies the merge keys of a node and of all nodes below it. Throws ConfigError if there are more than
/// `deepest` levels, which is the case if an alias contains itself.
void resolve_merge_keys(const YAML::Node& node, const Place& place, int depth = 0) {
  if (depth > deepest) {
    throw ConfigError(
        place.describe_position(node.Mark()),
        "has more than " + std::to_string(deepest) + " levels of maps and lists, counting those of aliases",
        "Check whether an alias refers to a map or list that contains it");
  }
  if (node.IsSequence()) {
    for (const YAML::Node& entry : node) resolve_merge_keys(entry, place, depth + 1);
  }
  if (!node.IsMap()) return;
  for (const auto& entry : node) {
    resolve_merge_keys(entry.first, place, depth + 1);
    resolve_merge_keys(entry.second, place, depth + 1);
  }
  merge_bases(node, place);
}

}  // namespace

std::string shorten(std::string_view text) {
  constexpr std::size_t most = 60;
  if (text.size() <= most) return std::string(text);
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; };
  std::size_t end = most;
  while (end > 0 && continues(text[end])) --end;
  return std::string(text.substr(0, end)) + "...";
}

YAML::Node parse_document(const std::string& given, const Place& place) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  const std::string text = given.starts_with(byte_order_mark) ? given.substr(byte_order_mark.size()) : given;
  require_printable_text(text, place);
  try {
    require_one_document(text, place);
    YAML::Node root = YAML::Load(text);
    resolve_merge_keys(root, place);
    return root;
  } catch (const YAML::DeepRecursion& error) {
    throw_malformed(place.describe_position(error.mark),
                    "it is nested too deeply; the limit is " + std::to_string(deepest) + " levels",
                    "Check for unclosed brackets");
  } catch (const YAML::Exception& error) {
    throw_malformed(place.describe_position(error.mark), error.msg, tab_indentation_hint(text, error.mark));
  }
}

}  // namespace evenkeel::config_detail
