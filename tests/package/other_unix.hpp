// Included before a source file: hides what only some systems have.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#undef __linux__
#undef CPU_COUNT
#undef F_OFD_GETLK
#undef F_OFD_SETLK
#undef FALLOC_FL_PUNCH_HOLE
#undef MADV_HUGEPAGE
#undef MAP_NORESERVE
#undef MFD_CLOEXEC
#undef POSIX_FADV_DONTNEED
#undef POSIX_FADV_WILLNEED
