// The functions of windows/posix.h, and what machine.h says of this process, by the calls of
// Windows.
#include <windows.h>
// needs what windows.h names
#include <psapi.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "tost/base/machine.h"
#include "tost/base/posix.h"

namespace {

// 0, or -1 with the reason of the last failure in errno.
int result(bool done) {
  const int error = static_cast<int>(GetLastError());
  if (!done)
    errno = std::error_code(error, std::system_category()).default_error_condition().value();
  return done ? 0 : -1;
}

HANDLE handle(int fd) {
  return reinterpret_cast<HANDLE>(_get_osfhandle(fd));
}

PROCESS_MEMORY_COUNTERS memory() {
  PROCESS_MEMORY_COUNTERS counters{};
  GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters);
  return counters;
}

}  // namespace

int open(const wchar_t* path, int flags, int mode) {
  return _wopen(path, flags | O_BINARY, mode & (_S_IREAD | _S_IWRITE));
}

int access(const wchar_t* path, int mode) {
  return _waccess(path, mode & ~X_OK);
}

int stat(const wchar_t* path, struct stat* info) {
  return _wstat64(path, info);
}

int mkdir(const wchar_t* path, int) {
  return _wmkdir(path);
}

int rename(const wchar_t* from, const wchar_t* to) {
  return result(MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING));
}

int unlink(const wchar_t* path) {
  return _wunlink(path);
}

int rmdir(const wchar_t* path) {
  return _wrmdir(path);
}

int fsync(int fd) {
  return _commit(fd);
}

// Locks a byte past the end of every file, so that others still read the content.
int flock(int fd, int) {
  OVERLAPPED place{};
  place.OffsetHigh = 0x7fffffff;
  constexpr DWORD kHow = LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY;
  if (LockFileEx(handle(fd), kHow, 0, 1, 0, &place) != 0) return 0;
  errno = EWOULDBLOCK;
  return -1;
}

long sysconf(int name) {
  constexpr long kPage = 4096;
  if (name == _SC_PAGESIZE) return kPage;
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof status;
  GlobalMemoryStatusEx(&status);
  return static_cast<long>(status.ullTotalPhys / kPage);
}

void* mmap(void*, size_t size, int protection, int, int fd, int64_t) {
  const bool writable = (protection & PROT_WRITE) != 0;
  const HANDLE file = CreateFileMappingW(handle(fd), nullptr,
                                         writable ? PAGE_WRITECOPY : PAGE_READONLY, 0, 0, nullptr);
  void* at = file == nullptr
                 ? nullptr
                 : MapViewOfFile(file, writable ? FILE_MAP_COPY : FILE_MAP_READ, 0, 0, size);
  result(at != nullptr);
  if (file != nullptr) CloseHandle(file);
  return at == nullptr ? MAP_FAILED : at;
}

int munmap(void* at, size_t) {
  return result(UnmapViewOfFile(at));
}

namespace tost {

std::filesystem::path program_file() {
  wchar_t path[32768];
  return {path, path + GetModuleFileNameW(nullptr, path, std::size(path))};
}

int64_t resident_bytes() {
  return static_cast<int64_t>(memory().WorkingSetSize);
}

int64_t peak_resident_bytes() {
  return static_cast<int64_t>(memory().PeakWorkingSetSize);
}

}  // namespace tost
