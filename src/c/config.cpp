#include <cstring>
#include <memory>
#include <string>

#include "c/failures.hpp"
#include "c/handles.hpp"
#include "evenkeel/config/config.hpp"

namespace evenkeel::c {

void hand_out(const std::string& text, char** buffer, std::int64_t* bytes) {
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

using namespace evenkeel;
using namespace evenkeel::c;

const char* evenkeel_version(void) {
  return EVENKEEL_VERSION;
}

void evenkeel_version_numbers(int32_t* major, int32_t* minor, int32_t* patch) {
  if (major != nullptr) *major = EVENKEEL_VERSION_MAJOR;
  if (minor != nullptr) *minor = EVENKEEL_VERSION_MINOR;
  if (patch != nullptr) *patch = EVENKEEL_VERSION_PATCH;
}

void evenkeel_buffer_free(char* buffer) {
  delete[] buffer;
}

evenkeel_status evenkeel_config_parse(const char* yaml, const char* name, const char* const* overrides,
                                      int64_t num_overrides, evenkeel_config** config) {
  return guarded([&] {
    require(config, "config");
    *config = nullptr;
    require(yaml, "yaml");
    const std::vector<std::string> settings = texts_of(overrides, num_overrides, "overrides");
    auto made = std::make_unique<evenkeel_config>();
    made->config = parse_config(yaml, name == nullptr ? "configuration" : name, settings);
    *config = made.release();
  });
}

evenkeel_status evenkeel_config_load(const char* path, const char* const* overrides, int64_t num_overrides,
                                     evenkeel_config** config) {
  return guarded([&] {
    require(config, "config");
    *config = nullptr;
    require(path, "path");
    const std::vector<std::string> settings = texts_of(overrides, num_overrides, "overrides");
    auto made = std::make_unique<evenkeel_config>();
    made->config = load_config(path, settings);
    *config = made.release();
  });
}

evenkeel_status evenkeel_config_to_yaml(const evenkeel_config* config, char** yaml, int64_t* bytes) {
  return guarded([&] {
    require(yaml, "yaml");
    *yaml = nullptr;
    require(config, "config");
    hand_out(to_yaml(config->config), yaml, bytes);
  });
}

void evenkeel_config_destroy(evenkeel_config* config) {
  delete config;
}
