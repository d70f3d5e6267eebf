#include "c/config.hpp"

#include <string>
#include <vector>

#include "c/failures.hpp"
#include "c/texts.hpp"

using namespace evenkeel;
using namespace evenkeel::c;

evenkeel_status evenkeel_config_parse(const char* yaml, const char* name, const char* const* overrides,
                                      int64_t num_overrides, evenkeel_config** config) {
  return create_handle(config, "config", [&] {
    require(yaml, "yaml");
    const std::vector<ConfigText> texts{{yaml, name == nullptr ? "configuration" : name}};
    return new evenkeel_config{parse_config(texts, texts_of(overrides, num_overrides, "overrides"))};
  });
}

evenkeel_status evenkeel_config_parse_texts(const char* const* yamls, const char* const* names,
                                            int64_t num_texts, const char* const* overrides,
                                            int64_t num_overrides, evenkeel_config** config) {
  return create_handle(config, "config", [&] {
    const std::vector<std::string> texts = texts_of(yamls, num_texts, "yamls");
    const std::vector<std::string> called = texts_of(names, num_texts, "names");
    const std::vector<std::string> settings = texts_of(overrides, num_overrides, "overrides");
    std::vector<ConfigText> named;
    for (std::size_t i = 0; i < texts.size(); ++i) named.push_back({texts[i], called[i]});
    return new evenkeel_config{parse_config(named, settings)};
  });
}

evenkeel_status evenkeel_config_load(const char* path, const char* const* overrides, int64_t num_overrides,
                                     evenkeel_config** config) {
  return create_handle(config, "config", [&] {
    require(path, "path");
    return new evenkeel_config{load_config(path, texts_of(overrides, num_overrides, "overrides"))};
  });
}

evenkeel_status evenkeel_config_to_yaml(const evenkeel_config* config, char** yaml, int64_t* bytes) {
  return run_guarded([&] {
    require(yaml, "yaml");
    *yaml = nullptr;
    require(config, "config");
    copy_text_to_caller(to_yaml(config->config), yaml, bytes);
  });
}

evenkeel_status evenkeel_config_settings(const evenkeel_config* config, char** settings, int64_t* bytes) {
  return run_guarded([&] {
    require(settings, "settings");
    *settings = nullptr;
    require(config, "config");
    std::string lines;
    for (const auto& [path, value] : list_settings(config->config)) lines += path + "=" + value + "\n";
    copy_text_to_caller(lines, settings, bytes);
  });
}

int32_t evenkeel_config_equal(const evenkeel_config* one, const evenkeel_config* other) {
  if (one == nullptr || other == nullptr) return one == other ? 1 : 0;
  return one->config == other->config ? 1 : 0;
}

void evenkeel_config_destroy(evenkeel_config* config) {
  delete config;
}
