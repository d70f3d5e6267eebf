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

/* Returns the library's version, such as "0.1.0". The text is valid until the program ends. */
EVENKEEL_API const char* evenkeel_version(void);

/* The result of a call: one of the values below. It is not an enum type, so all compilers pass it in the same
 * way. */
typedef int32_t evenkeel_status;
enum {
  EVENKEEL_OK = 0,
  EVENKEEL_ERROR_CONFIG = 1,        /* a configuration key is wrong, or differs between ranks */
  EVENKEEL_ERROR_INPUT = 2,         /* data is malformed, or an argument of a collective call is wrong */
  EVENKEEL_ERROR_LIMIT = 3,         /* data exceeds a limit, such as the cap; or a rank is out of memory */
  EVENKEEL_ERROR_MESH = 4,          /* the process grid does not fit the ranks */
  EVENKEEL_ERROR_IO = 5,            /* a file or folder cannot be opened, read or written */
  EVENKEEL_ERROR_MPI = 6,           /* an MPI call failed, or MPI is not running */
  EVENKEEL_ERROR_OUT_OF_MEMORY = 7, /* local calls: this process is out of memory */
  EVENKEEL_ERROR_ARGUMENT = 8,      /* local calls: NULL, an unknown value, or an index out of range */
  EVENKEEL_ERROR_INTERNAL = 9,      /* a bug in Evenkeel: please report it */
  EVENKEEL_END_OF_SAMPLES = 10      /* not an error: a stream has no more samples, so no step was made */
};

/* Returns "ok", "config", "input", "limit", "mesh", "io", "mpi", "out of memory", "argument", "internal" or
 * "end of samples"; "unknown" for other numbers. The text is valid until the program ends. */
EVENKEEL_API const char* evenkeel_status_name(evenkeel_status status);

/* Returns the calling thread's last error as one line: `where: what (rank r). hint`, without empty parts; ""
 * if there has not been an error. Successful calls do not change it. The pointers returned by this function
 * and the next three are never NULL, and are valid until the thread's next error. */
EVENKEEL_API const char* evenkeel_last_error_message(void);
/* Returns the place of the last error: a file and line, a configuration key, or an argument. May be "". */
EVENKEEL_API const char* evenkeel_last_error_where(void);
/* Returns the description of the last error, with the value and the limit that it violates. */
EVENKEEL_API const char* evenkeel_last_error_what(void);
/* Returns the remedy for the last error. May be "". */
EVENKEEL_API const char* evenkeel_last_error_hint(void);
/* Returns the rank that found the last error; -1 if all ranks found it, or only this rank. */
EVENKEEL_API int32_t evenkeel_last_error_rank(void);

/* Sets the calling thread's last error, and returns `status`. Used by callbacks, and by libraries that are
 * built on this one. Copies the texts; NULL means "". */
EVENKEEL_API evenkeel_status evenkeel_set_last_error(evenkeel_status status, const char* where,
                                                     const char* what, const char* hint, int32_t rank);

/* Frees a text that a function returned through a `char**` argument. NULL is allowed. */
EVENKEEL_API void evenkeel_buffer_free(char* buffer);

/* ---- types of elements ---- */

/* An element type. Half-precision values are only moved, as bits. */
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

/* A list of named arrays. It owns the arrays: views are valid until it is destroyed. */
typedef struct evenkeel_arrays evenkeel_arrays;
typedef struct evenkeel_array {
  const char* name;
  evenkeel_dtype dtype;
  int64_t num_dimensions; /* 0: a number */
  const int64_t* shape;   /* num_dimensions numbers */
  const void* data;       /* contiguous */
} evenkeel_array;

/* Returns the number of arrays; 0 for NULL. */
EVENKEEL_API int64_t evenkeel_arrays_count(const evenkeel_arrays* arrays);
EVENKEEL_API evenkeel_status evenkeel_arrays_at(const evenkeel_arrays* arrays, int64_t index,
                                                evenkeel_array* array);
EVENKEEL_API void evenkeel_arrays_destroy(evenkeel_arrays* arrays);

#ifdef __cplusplus
}
#endif

#endif
