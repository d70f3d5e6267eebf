/* Samples of any lengths with named fields: the samples that a rank supplies, and collected results. */
#ifndef EVENKEEL_C_SAMPLES_H
#define EVENKEEL_C_SAMPLES_H

#include "evenkeel/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The unit for which a field has one row. With the last three kinds, each sample has its own number of rows
 * (docs/side-fields.md). */
typedef int32_t evenkeel_kind;
enum {
  EVENKEEL_TOKEN = 1,          /* every token of a sample */
  EVENKEEL_RESPONSE_TOKEN = 2, /* every response token */
  EVENKEEL_SAMPLE = 3,         /* every sample */
  EVENKEEL_ROWS = 4,           /* every item of some other kind, such as image patches, audio frames */
  EVENKEEL_TEXT = 5,           /* every byte of a sample's text, which is UTF-8: EVENKEEL_UINT8 */
  EVENKEEL_BYTES = 6           /* every byte of a sample's value: EVENKEEL_UINT8 */
};

/* A named field: `rows` rows of `trailing[0] * trailing[1] * ...` elements, contiguous. Without trailing
 * dimensions, a row is one element. The side that fills in the structure owns the memory to which it points:
 * a field that is passed in is copied, and a field that is returned is a read-only view of its object.
 *
 * The kinds EVENKEEL_ROWS, EVENKEEL_TEXT and EVENKEEL_BYTES use the members num_samples, offsets and ranges,
 * which are 0 for other kinds. Sample i has rows `offsets[i]` .. `offsets[i + 1] - 1`. In returned fields,
 * samples may share rows (`share: equal`): `offsets` is then NULL, and sample i has rows `ranges[2 * i]` ..
 * `ranges[2 * i + 1] - 1`. */
typedef struct evenkeel_field {
  const char* name;
  evenkeel_dtype dtype;
  evenkeel_kind kind;
  int64_t rows;
  int64_t num_trailing;
  const int64_t* trailing; /* may be NULL if num_trailing is 0 */
  const void* data;        /* may be NULL if there are no bytes */
  int64_t bytes;           /* number of bytes of `data` in returned fields; ignored in other fields */
  int64_t num_samples;
  const int64_t* offsets; /* num_samples + 1 prefix sums, up to `rows`; may be NULL without samples */
  const int64_t* ranges;  /* num_samples pairs; NULL if there are offsets, and in fields that are passed in */
  int32_t is_shared;      /* 1 in returned fields whose bytes others also see; ignored in other fields */
} evenkeel_field;

/* One sample: its number and its lengths. */
typedef struct evenkeel_sample {
  int64_t id;       /* from 0; -1 in a micro-batch is filler, not a sample */
  uint64_t group;   /* equal for samples of the same prompt */
  int64_t prompt;   /* prompt tokens */
  int64_t response; /* response tokens */
} evenkeel_sample;

/* Samples of any lengths with named fields. Owns copies of the data. */
typedef struct evenkeel_samples evenkeel_samples;

/* Makes `count` samples without fields. Arrays have `count` entries, and may be NULL if `count` is 0. If
 * `groups` is NULL, each sample is a group by itself, with a number of 2^63 or more. Local. Returns INPUT for
 * a negative length. */
EVENKEEL_API evenkeel_status evenkeel_samples_create(int64_t count, const int64_t* ids,
                                                     const uint64_t* groups, const int64_t* prompt_lengths,
                                                     const int64_t* response_lengths,
                                                     evenkeel_samples** samples);
/* Adds a field with the rows of all samples back to back. A step needs the field `input_ids`: one int64 per
 * token. Local. Returns INPUT if the name is taken, or if the number of rows does not match the kind or the
 * offsets. The first error is kept with the samples, and a step over them returns it on all ranks, so a
 * trainer need not check this status. */
EVENKEEL_API evenkeel_status evenkeel_samples_add(evenkeel_samples* samples, const evenkeel_field* field);
/* Reports that this rank cannot make a field: keeps the last error of this thread, which had this status,
 * with the samples. Local. */
EVENKEEL_API evenkeel_status evenkeel_samples_fail(evenkeel_samples* samples, evenkeel_status status);
/* The next two functions return the number of samples and the number of fields; 0 for NULL. Local. */
EVENKEEL_API int64_t evenkeel_samples_count(const evenkeel_samples* samples);
EVENKEEL_API int64_t evenkeel_samples_num_fields(const evenkeel_samples* samples);
/* Writes all samples to an array of evenkeel_samples_count entries. Local. */
EVENKEEL_API evenkeel_status evenkeel_samples_get(const evenkeel_samples* samples, evenkeel_sample* all);
/* The next two functions return a field, by its number or by its name, and return INPUT if no field has that
 * name. The view is valid until the next field is added or the samples are destroyed. Local. */
EVENKEEL_API evenkeel_status evenkeel_samples_field(const evenkeel_samples* samples, int64_t index,
                                                    evenkeel_field* field);
EVENKEEL_API evenkeel_status evenkeel_samples_find_field(const evenkeel_samples* samples, const char* name,
                                                         evenkeel_field* field);
EVENKEEL_API void evenkeel_samples_destroy(evenkeel_samples* samples);
/* Returns the group of a prompt's uid, as in files. The uid is `text` or, if `text` is NULL, `number`. The
 * group is below 2^63. */
EVENKEEL_API uint64_t evenkeel_group_of_uid(const char* text, int64_t number);

/* ---- memory of fields ---- */

/* Memory of fields that remains valid when their object is destroyed or changed. */
typedef struct evenkeel_memory evenkeel_memory;
EVENKEEL_API void evenkeel_memory_destroy(evenkeel_memory* memory);

/* Functions that allocate and free memory. evenkeel_allocate returns, in *block, a block of `bytes` bytes at
 * a multiple of `alignment`; or it returns an error status after a call of evenkeel_set_last_error.
 * EVENKEEL_OK with a NULL block counts as OUT_OF_MEMORY. evenkeel_deallocate frees a block. Any thread of the
 * library may call them. */
typedef evenkeel_status (*evenkeel_allocate)(int64_t bytes, int64_t alignment, void* context, void** block);
typedef void (*evenkeel_deallocate)(void* block, void* context);
/* Makes all later fields, packed micro-batches and results of this process get their memory from `allocate`,
 * except those that ranks of a node share. If `allocate` is NULL, they get it from the library again. Each
 * block is returned to the `deallocate` that was set together with its `allocate`, possibly much later.
 * Local. */
EVENKEEL_API evenkeel_status evenkeel_set_allocator(evenkeel_allocate allocate,
                                                    evenkeel_deallocate deallocate, void* context);

#ifdef __cplusplus
}
#endif

#endif
