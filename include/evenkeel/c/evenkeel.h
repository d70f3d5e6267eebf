/* Evenkeel for C, and for languages that call C, without MPI: all functions of libevenkeel (Evenkeel::c).
 * evenkeel/c/evenkeel_mpi.h adds the functions of libevenkeel_mpi, which needs MPI. Valid C11 and C++.
 * docs/c-api.md is an introduction.
 *
 * Objects are opaque. Functions named ..._create, ..._load and so on make them, and functions named
 * ..._destroy, which accept NULL, free them. Only one thread at a time may use an object, unless no thread
 * changes it.
 *
 * MEMORY. Arrays that are passed in belong to the caller, and are used only during the call. `const` pointers
 * that a function returns point into an object, and are valid until the object is destroyed. Arrays that a
 * function fills in belong to the caller, who passes their sizes.
 *
 * ERRORS. A function that can fail returns a status, and keeps the text of its error for the calling thread
 * until that thread's next error. Therefore, every call is one expression, and nothing needs to be freed when
 * many ranks fail together. If a function fails, a value that it returns through a pointer is NULL or
 * unchanged. Functions never throw exceptions, and do not crash for any arguments, as long as pointers that
 * are not NULL are valid. Texts end with a zero. Comments name a status without its prefix: INPUT means
 * EVENKEEL_ERROR_INPUT.
 *
 * COUNTS and indices are int64_t and begin at 0; negative ones are errors. Lengths are in tokens, times in
 * seconds.
 *
 * Structures are filled in either by the library or by the caller, never by both. Their layout belongs to the
 * version of the functions' symbols: a program that was built for another version does not start. */
#ifndef EVENKEEL_C_EVENKEEL_H
#define EVENKEEL_C_EVENKEEL_H

#include "evenkeel/c/balance.h"
#include "evenkeel/c/base.h"
#include "evenkeel/c/config.h"
#include "evenkeel/c/drop_in.h"
#include "evenkeel/c/pack.h"
#include "evenkeel/c/plan.h"
#include "evenkeel/c/prefix.h"

#endif
