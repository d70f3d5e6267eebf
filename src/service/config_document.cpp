#include "config_document.hpp"

#include <vector>

#include "evenkeel/base/error.hpp"

namespace evenkeel::config_detail {

YAML::Node parse_document(const std::string& text, const Place& place) {
  std::vector<YAML::Node> documents;
  try {
    documents = YAML::LoadAll(text);
  } catch (const YAML::Exception& error) {
    throw ConfigError(place.of_syntax_error(error.mark), "malformed YAML: " + error.msg);
  }
  if (documents.size() > 1) throw ConfigError(place.name(), "expected one YAML document, found several");
  return documents.empty() ? YAML::Node() : documents.front();
}

}  // namespace evenkeel::config_detail
