#include "config/import/references.hpp"

#include <algorithm>
#include <charconv>

#include "config/import/resolvers.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::config_import {
namespace {

constexpr std::size_t most_work = 200'000;
constexpr int deepest = 64;
constexpr std::string_view opening = "${";

Value lost(std::string why) {
  Value value;
  value.missing = std::move(why);
  return value;
}

bool has_reference(const Value& value) {
  return value.is_scalar() && value.text.find(opening) != std::string::npos;
}

void add_via(Value& value, const std::string& via) {
  if (!via.empty()) value.via = value.via.empty() ? via : via + ", " + value.via;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  const std::size_t end = text.find_last_not_of(" \t");
  return end == std::string_view::npos ? std::string_view() : text.substr(begin, end + 1 - begin);
}

/// "a.b", ".b", "..b": dots lead from a value to the sections around it. Nothing when they lead out.
std::optional<Path> path_of(std::string_view key, const Path& at) {
  const std::size_t up = std::min(key.find_first_not_of('.'), key.size());
  if (up > at.size()) return std::nullopt;
  Path path = up == 0 ? Path{} : Path(at.begin(), at.end() - static_cast<std::ptrdiff_t>(up));
  for (std::string& part : split_path(key.substr(up))) path.push_back(std::move(part));
  return path;
}

std::size_t size_of(const Value& value) {
  std::size_t size = 1;
  for (const auto& [key, entry] : value.entries) size += size_of(entry);
  for (const Value& item : value.items) size += size_of(item);
  return size;
}

const Value* child(const Value& value, const std::string& part) {
  if (value.is_map()) return value.find(part);
  std::size_t index = 0;
  const auto result = std::from_chars(part.data(), part.data() + part.size(), index);
  const bool is_index = result.ec == std::errc{} && result.ptr == part.data() + part.size();
  return value.is_list() && is_index && index < value.items.size() ? &value.items[index] : nullptr;
}

}  // namespace

/// Reads one text of OmegaConf's grammar: literals, ${path} and ${resolver:argument,...}.
class TextReader {
 public:
  TextReader(References& references, const Path& at, int depth)
      : references_(references), at_(at), depth_(depth) {}

  Value read(std::string_view text) {
    if (depth_ > deepest) return lost("its references are nested too deeply");
    rest_ = text;
    const bool is_one = text.starts_with(opening);
    Value whole = scalar("", true);
    while (!rest_.empty()) {
      if (take("\\${")) {
        whole.text += opening;
      } else if (take(opening)) {
        Value value = interpolation();
        if (!value.missing.empty() || (is_one && whole.text.empty() && rest_.empty())) return value;
        if (value.is_map() || value.is_list()) return lost("has a section in the middle of a text");
        whole.text += value.is_null() ? "None" : value.text;
        add_via(whole, value.via);
      } else {
        whole.text += rest_.front();
        rest_.remove_prefix(1);
      }
    }
    return whole;
  }

 private:
  bool take(std::string_view symbol) {
    if (!rest_.starts_with(symbol)) return false;
    rest_.remove_prefix(symbol.size());
    return true;
  }

  [[nodiscard]] Value nested(std::string_view text) const {
    return TextReader(references_, at_, depth_ + 1).read(text);
  }

  /// The length of what stands before one of `ends`, where references inside count as one thing.
  [[nodiscard]] std::size_t length_until(std::string_view ends) const {
    int open = 0;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      if (open == 0 && ends.find(rest_[i]) != std::string_view::npos) return i;
      if (rest_[i] == '{' || rest_[i] == '[') ++open;
      if ((rest_[i] == '}' || rest_[i] == ']') && open > 0) --open;
      if (rest_[i] == '\\') ++i;
    }
    return std::string_view::npos;
  }

  Value unreadable() {
    rest_ = {};
    return lost("has a reference that cannot be read");
  }

  /// What stands behind "${", up to its "}".
  Value interpolation() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
    const std::size_t name =
        rest_.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.");
    if (name != 0 && name != std::string_view::npos && rest_[name] == ':' && rest_.front() != '.') {
      const std::string resolver(rest_.substr(0, name));
      rest_.remove_prefix(name + 1);
      return resolved(resolver);
    }
    const std::size_t length = length_until("}");
    if (length == std::string_view::npos) return unreadable();
    const std::string_view key = trimmed(rest_.substr(0, length));
    rest_.remove_prefix(length + 1);
    return referred(key);
  }

  /// a.b, a[b] and a.${c}, as one path.
  Value referred(std::string_view key) {
    Value plain = scalar(std::string(key));
    if (has_reference(plain)) plain = nested(key);
    if (!plain.missing.empty()) return plain;
    std::string text = plain.text;
    std::erase(text, ']');
    std::ranges::replace(text, '[', '.');
    const auto path = path_of(text, at_);
    if (!path || path->empty()) return lost("refers to " + text + ", which leads out of the file");
    References::Selected selected = references_.select(*path);
    if (selected.absent) return lost(references_.why_absent(*path));
    if (selected.value.missing.empty()) add_via(selected.value, "follows " + dotted(*path));
    return std::move(selected.value);
  }

  Value resolved(const std::string& resolver) {
    std::vector<Value> arguments;
    while (true) {
      const std::size_t length = length_of_argument();
      if (length == std::string_view::npos) return unreadable();
      arguments.push_back(argument(trimmed(rest_.substr(0, length))));
      const bool is_last = rest_[length] == '}';
      rest_.remove_prefix(length + 1);
      if (is_last) return references_.resolve(resolver, arguments, at_);
    }
  }

  /// Quotes keep commas and brackets from ending an argument.
  [[nodiscard]] std::size_t length_of_argument() const {
    const std::size_t begin = std::min(rest_.find_first_not_of(" \t"), rest_.size());
    if (begin == rest_.size() || (rest_[begin] != '\'' && rest_[begin] != '"')) return length_until(",}");
    for (std::size_t i = begin + 1; i < rest_.size(); ++i) {
      if (rest_[i] == '\\')
        ++i;
      else if (rest_[i] == rest_[begin]) {
        const std::size_t end = std::min(rest_.find_first_not_of(" \t", i + 1), rest_.size());
        return end < rest_.size() && (rest_[end] == ',' || rest_[end] == '}') ? end : std::string_view::npos;
      }
    }
    return std::string_view::npos;
  }

  [[nodiscard]] Value argument(std::string_view text) const {
    if (text.size() >= 2 && (text.front() == '\'' || text.front() == '"') && text.back() == text.front()) {
      Value value = nested(text.substr(1, text.size() - 2));
      value.quoted = true;
      return value;
    }
    if (text.find(opening) != std::string_view::npos) return nested(text);
    if (text.starts_with('[') || text.starts_with('{')) return read_flow_value(std::string(text), "");
    if (text == "null") return {};
    std::string plain(text);
    std::erase(plain, '\\');
    return scalar(std::move(plain), text.empty());
  }

  References& references_;
  const Path& at_;
  int depth_;
  std::string_view rest_;
};

Value References::follow_all() {
  return follow(root_, {});
}

/// A section that several keys take over is copied for each: what is counted is what is copied.
void References::count_work(std::size_t values) {
  work_ += values;
  if (work_ > most_work)
    throw ConfigError(root_.place, "its references make the file too large to be a configuration");
}

Value References::follow(const Value& value, const Path& at) {
  count_work();
  if (has_reference(value)) return evaluate(value, at);
  Value whole = value;
  if (value.is_scalar() && value.text == "???" && !value.quoted)
    whole.missing = "is ??? there: a value that has to be given, on the command line, say";
  const auto below = [&](const std::string& part) {
    Path path = at;
    path.push_back(part);
    return path;
  };
  for (auto& [key, entry] : whole.entries) entry = follow(entry, below(key));
  for (std::size_t i = 0; i < whole.items.size(); ++i)
    whole.items[i] = follow(whole.items[i], below(std::to_string(i)));
  return whole;
}

Value References::evaluate(const Value& value, const Path& at) {
  count_work();
  if (const auto known = followed_.find(at); known != followed_.end()) {
    count_work(size_of(known->second));
    return known->second;
  }
  Value result;
  if (std::ranges::find(open_, at) != open_.end() || open_.size() > std::size_t{deepest}) {
    result = lost("refers to itself, by way of " + dotted(open_.back()));
  } else {
    open_.push_back(at);
    result = TextReader(*this, at, 0).read(value.text);
    open_.pop_back();
  }
  if (!result.missing.empty()) {
    const std::string why = result.missing;
    result = scalar(value.text);
    result.missing = why;
  }
  result.written = value.text;
  result.place = value.place;
  count_work(size_of(result));
  followed_[at] = result;
  return result;
}

References::Selected References::select(const Path& path) {
  const Value* node = &root_;
  Value copy;  // what a reference on the way stands for; `node` then points into it
  Path here;
  for (const std::string& part : path) {
    if (!node->missing.empty()) return {*node};
    if (has_reference(*node)) {
      copy = evaluate(*node, here);
      if (!copy.missing.empty()) return {std::move(copy)};
      node = &copy;
    }
    const Value* below = child(*node, part);
    if (below == nullptr) return {.value = {}, .absent = true};
    here.push_back(part);
    node = below;
  }
  Value value = follow(*node, here);
  return {std::move(value)};
}

std::string References::why_absent(const Path& path) const {
  for (const LostPart& part : lost_) {
    if (starts_with(path, part.package))
      return "refers to " + dotted(path) + ", which " + part.file + " may say, and that file is not found";
  }
  return "refers to " + dotted(path) + ", which this file does not have";
}

Value References::resolve(const std::string& name, const std::vector<Value>& arguments, const Path& at) {
  count_work();
  if (name == "oc.select") return select_or_default(arguments, at);
  if (name == "oc.env") return from_environment(arguments);
  const auto broken = std::ranges::find_if(arguments, [](const Value& it) { return !it.missing.empty(); });
  if (broken != arguments.end()) return *broken;
  if (name == "oc.decode" && arguments.size() == 1) return decode(arguments.front(), at);
  if (name == "oc.deprecated" && !arguments.empty()) return select_or_default({arguments.front()}, at);
  if (auto value = resolve_arithmetic(name, arguments)) {
    for (const Value& argument : arguments) add_via(*value, argument.via);
    if (value->via.empty()) value->via = "worked out by " + name;
    return std::move(*value);
  }
  return lost("needs the resolver " + name + ", which cannot be followed here");
}

Value References::select_or_default(const std::vector<Value>& arguments, const Path& at) {
  if (arguments.empty() || arguments.size() > 2 || !arguments.front().is_scalar())
    return lost("has an oc.select that cannot be read");
  if (!arguments.front().missing.empty()) return arguments.front();
  const auto path = path_of(arguments.front().text, at);
  if (!path) return lost("refers to " + arguments.front().text + ", which leads out of the file");
  Selected selected = select(*path);
  const bool is_mandatory = selected.value.is_scalar() && selected.value.text == "???";
  if (!selected.absent && !is_mandatory) {
    if (selected.value.missing.empty()) add_via(selected.value, "follows " + dotted(*path));
    return std::move(selected.value);
  }
  const bool may_be_lost = std::ranges::any_of(
      lost_, [&](const LostPart& part) { return selected.absent && starts_with(*path, part.package); });
  if (may_be_lost) return lost(why_absent(*path));
  Value fallback = arguments.size() == 2 ? arguments[1] : Value{};
  if (fallback.missing.empty()) add_via(fallback, "there is no " + dotted(*path) + ": its default");
  return fallback;
}

Value References::from_environment(const std::vector<Value>& arguments) {
  if (arguments.empty() || arguments.size() > 2 || !arguments.front().is_scalar())
    return lost("has an oc.env that cannot be read");
  if (!arguments.front().missing.empty()) return arguments.front();
  const std::string& name = arguments.front().text;
  if (const auto found = environment_.find(name); found != environment_.end()) {
    Value value = scalar(found->second, true);
    value.via = name + " of the environment";
    return value;
  }
  if (arguments.size() == 1) return lost("needs " + name + ", which is not set in the environment");
  Value fallback = arguments[1];
  if (fallback.missing.empty()) add_via(fallback, name + " is not set in the environment: its default");
  return fallback;
}

/// A text as if it stood in the file: "8192" becomes 8192.
Value References::decode(const Value& argument, const Path& at) {
  if (!argument.is_scalar()) return argument;
  const std::string_view text = trimmed(argument.text);
  Value value = scalar(std::string(text));
  if (has_reference(value)) {
    if (decoding_ > deepest) return lost("its references are nested too deeply");
    ++decoding_;
    value = TextReader(*this, at, 1).read(text);
    --decoding_;
  } else if (text == "null") {
    value = {};
  } else if (text.starts_with('[') || text.starts_with('{')) {
    value = read_flow_value(value.text, argument.place);
  }
  if (value.missing.empty()) add_via(value, argument.via);
  return value;
}

}  // namespace evenkeel::config_import
