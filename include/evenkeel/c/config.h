/* A configuration: a job's settings from YAML. */
#ifndef EVENKEEL_C_CONFIG_H
#define EVENKEEL_C_CONFIG_H

#include "evenkeel/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A job's settings: its mesh, caps and costs (docs/configuration.md). */
typedef struct evenkeel_config evenkeel_config;

/* Makes a configuration from YAML text; `name` stands for a file in errors, NULL means "configuration".
 * `overrides` are `num_overrides` texts "section.key=value", which are applied afterwards; NULL if there are
 * none. Local, so that a job may read a file on one rank and broadcast its text. CONFIG for the first error.
 * */
EVENKEEL_API evenkeel_status evenkeel_config_parse(const char* yaml, const char* name,
                                                   const char* const* overrides, int64_t num_overrides,
                                                   evenkeel_config** config);
/* The same from several texts, of which later ones override earlier ones: `num_texts` of them, and their
 * names. */
EVENKEEL_API evenkeel_status evenkeel_config_parse_texts(const char* const* yamls, const char* const* names,
                                                         int64_t num_texts, const char* const* overrides,
                                                         int64_t num_overrides, evenkeel_config** config);
/* The same from a file. Also IO if it cannot be read. */
EVENKEEL_API evenkeel_status evenkeel_config_load(const char* path, const char* const* overrides,
                                                  int64_t num_overrides, evenkeel_config** config);
/* The whole configuration as YAML, `*bytes` long and followed by a zero; `bytes` may be NULL. The caller
 * frees it with evenkeel_buffer_free. Local. */
EVENKEEL_API evenkeel_status evenkeel_config_to_yaml(const evenkeel_config* config, char** yaml,
                                                     int64_t* bytes);
/* Every key and its value as YAML text, such as "micro_batch.max_tokens=8192", each on a line of its own;
 * keys of a profile begin with "profiles.NAME.". Otherwise as evenkeel_config_to_yaml. */
EVENKEEL_API evenkeel_status evenkeel_config_settings(const evenkeel_config* config, char** settings,
                                                      int64_t* bytes);
/* 1 if both mean the same, else 0. Local. */
EVENKEEL_API int32_t evenkeel_config_equal(const evenkeel_config* one, const evenkeel_config* other);
/* Services and plans copy what they need: a configuration may be destroyed before them. */
EVENKEEL_API void evenkeel_config_destroy(evenkeel_config* config);

#ifdef __cplusplus
}
#endif

#endif
