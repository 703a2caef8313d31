// The functions of POSIX that the program asks for and Windows lacks. A path is one of wide
// characters. Included by tost/base/posix.h, after the headers that both systems have.
#pragma once

#include <io.h>

// What means nothing there.
constexpr int EDQUOT = 10069, SIGHUP = 1, SIGPIPE = 13, SIGXFSZ = 25, S_IFSOCK = 0xc000;
constexpr int O_CLOEXEC = O_NOINHERIT, O_NONBLOCK = 0, O_NOCTTY = 0, O_DIRECTORY = 0, O_PATH = 0;
constexpr int M_MMAP_THRESHOLD = 0, MADV_HUGEPAGE = 0, MAP_ANONYMOUS = 0, MAP_PRIVATE = 0;
constexpr int MAP_NORESERVE = 0, PROT_READ = 1, PROT_WRITE = 2, _SC_PAGESIZE = 1;
constexpr int _SC_PHYS_PAGES = 2, LOCK_EX = 0, LOCK_NB = 0;
inline void* const MAP_FAILED = reinterpret_cast<void*>(-1);
constexpr int PIPE_BUF = 4096, POLLOUT = 4, POLLERR = 8, RLIMIT_NOFILE = 7, RTLD_NOW = 2,
              TIOCGWINSZ = 0;
struct Dl_info {
  const char* dli_fname;
};
struct pollfd {
  int fd, events, revents;
};
struct winsize {
  int ws_col;
};
using rlim_t = int64_t;
struct rlimit {
  rlim_t rlim_cur, rlim_max;
};
constexpr bool S_ISSOCK(int) {
  return false;
}
inline int mallopt(int, int) {
  return 1;
}
inline int madvise(void*, size_t, int) {
  return 0;
}
inline int dladdr(const void*, Dl_info*) {
  return 0;
}
inline void* dlopen(const void*, int) {
  return nullptr;
}
inline int poll(pollfd*, int, int) {
  return 1;
}
inline int ioctl(int, int, winsize*) {
  return -1;
}
inline int getrlimit(int, rlimit*) {
  return -1;
}
inline int setrlimit(int, const rlimit*) {
  return -1;
}

int open(const wchar_t* path, int flags, int mode = 0);
int access(const wchar_t* path, int mode);
int stat(const wchar_t* path, struct stat* info);
int mkdir(const wchar_t* path, int mode);
int rename(const wchar_t* from, const wchar_t* to);  // replaces a file at `to`
int unlink(const wchar_t* path);
int rmdir(const wchar_t* path);
int fsync(int fd);
int flock(int fd, int how);
long sysconf(int name);
void* mmap(void*, size_t size, int protection, int, int fd, int64_t);  // a whole file
int munmap(void* at, size_t size);
