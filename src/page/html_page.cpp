#include "page/html_page.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "page/template.hpp"

namespace evenkeel {
namespace {

/// Text that stands between tags.
std::string as_html(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

/// JSON that no name in it can end: inside <script> only "<" could, and JSON has it in strings alone.
std::string as_script_data(const nlohmann::json& json) {
  std::string text;
  for (const char c : json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string html_page(const PageSubject& subject, std::span<const RunPicture> profiles) {
  const std::string date = subject.date.empty() ? "" : ", " + subject.date;
  const std::map<std::string_view, std::string> content{
      {"title", as_html(title_of(subject) + date + " | Evenkeel")},
      {"style", std::string(page_style)},
      {"script", std::string(page_script)},
      {"data", as_script_data(page_json(subject, profiles))},
      {"text", as_html(subject.text)}};
  std::string page;
  std::string_view left = page_html;
  // One pass: what is filled in is not looked through for places again.
  for (std::size_t begin = left.find("{{"); begin != std::string_view::npos; begin = left.find("{{")) {
    const std::size_t end = left.find("}}", begin);
    page += left.substr(0, begin);
    page += content.at(left.substr(begin + 2, end - begin - 2));
    left.remove_prefix(end + 2);
  }
  return page += left;
}

}  // namespace evenkeel
