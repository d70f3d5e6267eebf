/* The version, errors, the types of elements, and arrays that functions return. */
#ifndef EVENKEEL_C_BASE_H
#define EVENKEEL_C_BASE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define EVENKEEL_API __attribute__((visibility("default")))
#else
#define EVENKEEL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version and errors ---- */

/* The library's version, such as "0.1.0". Lives as long as the program. */
EVENKEEL_API const char* evenkeel_version(void);

/* The result of a call: one of the values below. Not an enum, so that all compilers pass it alike. */
typedef int32_t evenkeel_status;
enum {
  EVENKEEL_OK = 0,
  EVENKEEL_ERROR_CONFIG = 1,        /* a configuration key is wrong, or ranks differ in it */
  EVENKEEL_ERROR_INPUT = 2,         /* data is malformed; of collective calls: or an argument is wrong */
  EVENKEEL_ERROR_LIMIT = 3,         /* data breaks a limit, such as the cap; or a rank lacks memory */
  EVENKEEL_ERROR_MESH = 4,          /* the process grid does not fit the ranks */
  EVENKEEL_ERROR_IO = 5,            /* a file or folder cannot be opened, read or written */
  EVENKEEL_ERROR_MPI = 6,           /* an MPI call failed, or MPI is not running */
  EVENKEEL_ERROR_OUT_OF_MEMORY = 7, /* of local calls: this process lacks memory */
  EVENKEEL_ERROR_ARGUMENT = 8,      /* of local calls: NULL, an unknown value, an index out of range */
  EVENKEEL_ERROR_INTERNAL = 9,      /* what should not happen: please report it */
  EVENKEEL_END_OF_SAMPLES = 10      /* no error: a stream has no more samples, and no step was made */
};

/* "ok", "config", "input", "limit", "mesh", "io", "mpi", "out of memory", "argument" or "internal"; "unknown"
 * for other numbers. Lives as long as the program. */
EVENKEEL_API const char* evenkeel_status_name(evenkeel_status status);

/* The last error of the calling thread as one line: `where: what (rank r). hint`, without empty parts; "" if
 * there was none. Calls that succeed do not change it. Each pointer is valid until the thread's next error,
 * and never NULL. */
EVENKEEL_API const char* evenkeel_last_error_message(void);
/* The place: a file and line, a configuration key, an argument. May be "". */
EVENKEEL_API const char* evenkeel_last_error_where(void);
/* What is wrong, with the value and the limit that it breaks. */
EVENKEEL_API const char* evenkeel_last_error_what(void);
/* What to do about it. May be "". */
EVENKEEL_API const char* evenkeel_last_error_hint(void);
/* The rank that found it; -1 if all did, or only this one. */
EVENKEEL_API int32_t evenkeel_last_error_rank(void);

/* Sets the last error of the calling thread, and returns `status`: for callbacks, and for libraries on top of
 * this one. Texts are copied; NULL means "". */
EVENKEEL_API evenkeel_status evenkeel_set_last_error(evenkeel_status status, const char* where,
                                                     const char* what, const char* hint, int32_t rank);

/* Frees a text that a function returned through a `char**`. NULL is allowed. */
EVENKEEL_API void evenkeel_buffer_free(char* buffer);

/* ---- types of elements ---- */

/* The type of an element. Half-precision values are moved as bits. */
typedef int32_t evenkeel_dtype;
enum {
  EVENKEEL_BOOL = 1,
  EVENKEEL_UINT8 = 2,
  EVENKEEL_INT32 = 3,
  EVENKEEL_INT64 = 4,
  EVENKEEL_FLOAT16 = 5,
  EVENKEEL_BFLOAT16 = 6,
  EVENKEEL_FLOAT32 = 7,
  EVENKEEL_FLOAT64 = 8,
  EVENKEEL_INT8 = 9,
  EVENKEEL_INT16 = 10,
  EVENKEEL_UINT16 = 11,
  EVENKEEL_UINT32 = 12
};

/* ---- arrays that functions return ---- */

/* Arrays with names. Owns them: views are valid until it is destroyed. */
typedef struct evenkeel_arrays evenkeel_arrays;
typedef struct evenkeel_array {
  const char* name;
  evenkeel_dtype dtype;
  int64_t num_dimensions; /* 0: a number */
  const int64_t* shape;   /* num_dimensions numbers */
  const void* data;       /* contiguous */
} evenkeel_array;

/* How many there are; 0 for NULL. */
EVENKEEL_API int64_t evenkeel_arrays_count(const evenkeel_arrays* arrays);
EVENKEEL_API evenkeel_status evenkeel_arrays_at(const evenkeel_arrays* arrays, int64_t index,
                                                evenkeel_array* array);
EVENKEEL_API void evenkeel_arrays_destroy(evenkeel_arrays* arrays);

#ifdef __cplusplus
}
#endif

#endif
