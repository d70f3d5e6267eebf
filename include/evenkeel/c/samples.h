/* Samples of any lengths with named fields: what a rank brings, and collected results. */
#ifndef EVENKEEL_C_SAMPLES_H
#define EVENKEEL_C_SAMPLES_H

#include "evenkeel/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a field has one row for. With the last three, each sample has its own number of rows
 * (docs/side-fields.md). */
typedef int32_t evenkeel_kind;
enum {
  EVENKEEL_TOKEN = 1,          /* every token of a sample */
  EVENKEEL_RESPONSE_TOKEN = 2, /* every response token */
  EVENKEEL_SAMPLE = 3,         /* every sample */
  EVENKEEL_ROWS = 4,           /* anything a sample may have any number of: image patches, audio frames */
  EVENKEEL_TEXT = 5,           /* every byte of a sample's text, which is UTF-8: EVENKEEL_UINT8 */
  EVENKEEL_BYTES = 6           /* every byte of a sample's value: EVENKEEL_UINT8 */
};

/* A named field: `rows` rows of `trailing[0] * trailing[1] * ...` elements, contiguous. Without trailing
 * dimensions a row is one element. The side that fills in the structure owns what it points to: a field that
 * is passed in is copied, and one that is returned is a read-only view of its object.
 *
 * Kinds from EVENKEEL_ROWS on need the last three members, which are 0 for others: sample i has the rows from
 * `offsets[i]` to before `offsets[i + 1]`. Returned fields may share rows (`share: equal`): then `offsets` is
 * NULL, and sample i has those from `ranges[2 * i]` to before `ranges[2 * i + 1]`. */
typedef struct evenkeel_field {
  const char* name;
  evenkeel_dtype dtype;
  evenkeel_kind kind;
  int64_t rows;
  int64_t num_trailing;
  const int64_t* trailing; /* may be NULL if num_trailing is 0 */
  const void* data;        /* may be NULL if there are no bytes */
  int64_t bytes;           /* of data; filled in for fields that are returned, and ignored in others */
  int64_t num_samples;
  const int64_t* offsets; /* num_samples + 1: from 0, never decreasing, up to `rows`. May be NULL for none */
  const int64_t* ranges;  /* num_samples pairs; NULL if there are offsets, and in what is passed in */
  int32_t is_shared; /* of fields that are returned: 1 if others see their bytes too. Ignored in others */
} evenkeel_field;

/* One sample: its number and its lengths. */
typedef struct evenkeel_sample {
  int64_t id;       /* from 0 on; -1 in a micro-batch is filler, not a sample */
  uint64_t group;   /* samples of the same prompt share it */
  int64_t prompt;   /* prompt tokens */
  int64_t response; /* response tokens */
} evenkeel_sample;

/* Samples of any lengths with named fields: what a rank brings, and collected results. Owns copies. */
typedef struct evenkeel_samples evenkeel_samples;

/* Makes `count` samples without fields; arrays have `count` entries, and may be NULL if that is 0. `groups`
 * may be NULL: each sample is then a group of its own, from 2^63 on. Local. INPUT for a negative length. */
EVENKEEL_API evenkeel_status evenkeel_samples_create(int64_t count, const int64_t* ids,
                                                     const uint64_t* groups, const int64_t* prompt_lengths,
                                                     const int64_t* response_lengths,
                                                     evenkeel_samples** samples);
/* Adds a field with the rows of all samples back to back. A step needs `input_ids`: one int64 a token. Local.
 * INPUT if the name is taken, or the number of rows does not match the kind or the offsets. The first error
 * is kept with the samples: a step over them returns it on all ranks, so a trainer need not check this
 * status. */
EVENKEEL_API evenkeel_status evenkeel_samples_add(evenkeel_samples* samples, const evenkeel_field* field);
/* For a rank that cannot make what it wants to add: keeps the last error of this thread, which had this
 * status, with the samples. Local. */
EVENKEEL_API evenkeel_status evenkeel_samples_fail(evenkeel_samples* samples, evenkeel_status status);
/* The numbers of samples and of fields; 0 for NULL. Local. */
EVENKEEL_API int64_t evenkeel_samples_count(const evenkeel_samples* samples);
EVENKEEL_API int64_t evenkeel_samples_num_fields(const evenkeel_samples* samples);
/* Writes all samples to an array of evenkeel_samples_count entries. Local. */
EVENKEEL_API evenkeel_status evenkeel_samples_get(const evenkeel_samples* samples, evenkeel_sample* all);
/* A field, by its number or by its name; INPUT if no field has that name. The view is valid until the next
 * field is added or the samples are destroyed. Local. */
EVENKEEL_API evenkeel_status evenkeel_samples_field(const evenkeel_samples* samples, int64_t index,
                                                    evenkeel_field* field);
EVENKEEL_API evenkeel_status evenkeel_samples_find_field(const evenkeel_samples* samples, const char* name,
                                                         evenkeel_field* field);
EVENKEEL_API void evenkeel_samples_destroy(evenkeel_samples* samples);
/* The group of a prompt's uid, as files have it: of a text, or of a number if `text` is NULL. Below 2^63. */
EVENKEEL_API uint64_t evenkeel_group_of_uid(const char* text, int64_t number);

/* ---- memory of fields ---- */

/* Memory of fields that stays when their object is destroyed or changed. */
typedef struct evenkeel_memory evenkeel_memory;
EVENKEEL_API void evenkeel_memory_destroy(evenkeel_memory* memory);

/* Returns a block of `bytes` bytes at a multiple of `alignment`, or a status after evenkeel_set_last_error
 * (EVENKEEL_OK with a NULL block counts as OUT_OF_MEMORY); and takes it back. Called by any thread of the
 * library. */
typedef evenkeel_status (*evenkeel_allocate)(int64_t bytes, int64_t alignment, void* context, void** block);
typedef void (*evenkeel_deallocate)(void* block, void* context);
/* From now on, all fields, packed micro-batches and results of this process get their memory from
 * `allocate`, except those that ranks of a node share; NULL: from the library again. Blocks go back to the
 * function that belongs to theirs, maybe long after. Local. */
EVENKEEL_API evenkeel_status evenkeel_set_allocator(evenkeel_allocate allocate,
                                                    evenkeel_deallocate deallocate, void* context);

#ifdef __cplusplus
}
#endif

#endif
