#include "c/texts.hpp"

#include <cstring>

#include "c/failures.hpp"

namespace evenkeel::c {

void copy_text_to_caller(const std::string& text, char** buffer, std::int64_t* bytes) {
  auto* const copy = new char[text.size() + 1];
  std::memcpy(copy, text.c_str(), text.size() + 1);
  *buffer = copy;
  if (bytes != nullptr) *bytes = static_cast<std::int64_t>(text.size());
}

std::vector<std::string> texts_of(const char* const* texts, std::int64_t count, const char* name) {
  require_list(texts, count, name);
  std::vector<std::string> result;
  for (std::int64_t i = 0; i < count; ++i) {
    require(texts[i], (std::string(name) + "[" + std::to_string(i) + "]").c_str());
    result.emplace_back(texts[i]);
  }
  return result;
}

}  // namespace evenkeel::c
