// What the program asks of the system, by the names of POSIX. On Windows a few functions of the
// same names stand in (windows/posix.h), so that no other source has a form for each system.
#pragma once

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>

#ifndef _WIN32
#include <dlfcn.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#else
#include "windows/posix.h"
#endif

#ifndef __GLIBC__
inline int malloc_trim(size_t) {
  return 0;
}
#endif
