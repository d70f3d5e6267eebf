/* Evenkeel for C, and for languages that call C, without MPI: everything in libevenkeel (Evenkeel::c).
 * evenkeel/c/evenkeel_mpi.h adds what needs MPI. Valid C11 and C++. docs/c-api.md is an introduction.
 *
 * Objects are opaque, made by functions named ..._create, ..._load and so on, and freed with ..._destroy,
 * which accepts NULL. Only one thread at a time may use an object, unless no thread changes it.
 *
 * MEMORY. Arrays that are passed in belong to the caller, and are only used during the call. `const` pointers
 * that a function returns point into an object, and are valid until it is destroyed. Arrays that a function
 * fills in belong to the caller, who passes their sizes.
 *
 * ERRORS. A function that can fail returns a status, and keeps the text of its error for the
 * calling thread until that thread's next error: every call is one expression, and there is
 * nothing to free when many ranks fail together. What a function returns through a pointer
 * is NULL or unchanged if it fails. Functions throw no exceptions, and do not crash,
 * whatever their arguments, as long as pointers that are not NULL are valid. Texts end with
 * a zero.
 *
 * COUNTS and indices are int64_t, from 0 on; negative ones are errors. Lengths are in tokens, times in
 * seconds.
 *
 * Structures are filled in by the library or by the caller, never by both. Their layout belongs to the
 * version of the functions' symbols: a program that was built for another version is not started. */
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
