/* A configuration: the settings of a job, read from YAML. */
#ifndef EVENKEEL_C_CONFIG_H
#define EVENKEEL_C_CONFIG_H

#include "evenkeel/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A job's settings: its mesh, caps and costs (docs/configuration.md). */
typedef struct evenkeel_config evenkeel_config;

/* Makes a configuration from YAML text. `name` is used in errors in place of a file name; NULL means
 * "configuration". `overrides` are `num_overrides` texts of the form "section.key=value", which are applied
 * afterwards; NULL if there are none. Local: a job may read a file on one rank and broadcast its text.
 * Returns CONFIG for the first error. */
EVENKEEL_API evenkeel_status evenkeel_config_parse(const char* yaml, const char* name,
                                                   const char* const* overrides, int64_t num_overrides,
                                                   evenkeel_config** config);
/* Same as evenkeel_config_parse, but for `num_texts` texts with their names. Later texts override earlier
 * ones. */
EVENKEEL_API evenkeel_status evenkeel_config_parse_texts(const char* const* yamls, const char* const* names,
                                                         int64_t num_texts, const char* const* overrides,
                                                         int64_t num_overrides, evenkeel_config** config);
/* Same as evenkeel_config_parse, but for a file. Also returns IO if the file cannot be read. */
EVENKEEL_API evenkeel_status evenkeel_config_load(const char* path, const char* const* overrides,
                                                  int64_t num_overrides, evenkeel_config** config);
/* Returns the whole configuration as YAML text. The text has `*bytes` bytes, followed by a zero; `bytes` may
 * be NULL. The caller frees the text with evenkeel_buffer_free. Local. */
EVENKEEL_API evenkeel_status evenkeel_config_to_yaml(const evenkeel_config* config, char** yaml,
                                                     int64_t* bytes);
/* Returns every key with its value as YAML text, such as "micro_batch.max_tokens=8192", one key per line.
 * Keys of a profile begin with "profiles.NAME.". Otherwise the same as evenkeel_config_to_yaml. */
EVENKEEL_API evenkeel_status evenkeel_config_settings(const evenkeel_config* config, char** settings,
                                                      int64_t* bytes);
/* Returns 1 if both configurations are equivalent, otherwise 0. Local. */
EVENKEEL_API int32_t evenkeel_config_equal(const evenkeel_config* one, const evenkeel_config* other);
/* Destroys a configuration. Services and plans copy the data that they need, so a configuration may be
 * destroyed before them. */
EVENKEEL_API void evenkeel_config_destroy(evenkeel_config* config);

#ifdef __cplusplus
}
#endif

#endif
