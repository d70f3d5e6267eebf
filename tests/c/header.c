/* The header in C11, with nothing in front of it. */
#include "evenkeel/c/evenkeel_mpi.h"

int evenkeel_header_in_c(void);
int evenkeel_header_in_c(void) {
  return (int)(sizeof(evenkeel_field) + sizeof(evenkeel_sample) + sizeof(evenkeel_step_info) +
               sizeof(evenkeel_seconds) + sizeof(evenkeel_micro_batch) + sizeof(evenkeel_place));
}
