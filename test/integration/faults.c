/* Fails system calls on files according to a control file, one rule per line: CALL SUBSTRING ERRNO, for instance
 * "fsync assay.db-wal 5". Loaded with LD_PRELOAD; every other call passes through. $FAULTS names the control file,
 * which is read again for each call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* Whether a path contains this part; a part that ends in a dollar sign matches only at the end of the path. */
static int contains(const char *path, const char *part) {
  size_t length = strlen(part), whole = strlen(path);
  if (length == 0 || part[length - 1] != '$') return strstr(path, part) != NULL;
  return whole >= length - 1 && strncmp(path + whole - (length - 1), part, length - 1) == 0;
}

static int fault(const char *call, const char *path) {
  const char *control = getenv("FAULTS");
  if (control == NULL) return 0;
  char text[4096];
  int fd = (int)syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  long size = syscall(SYS_read, fd, text, sizeof text - 1);
  syscall(SYS_close, fd);
  if (size <= 0) return 0;
  text[size] = 0;
  char *rest = NULL;
  for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
    char name[32], part[256];
    int number;
    if (sscanf(line, "%31s %255s %d", name, part, &number) != 3) continue;
    if (strcmp(name, call) == 0 && contains(path, part)) return number;
  }
  return 0;
}

static int fault_of(const char *call, int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return fault(call, path);
}

#define REAL(name) static __typeof__(&name) real; if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define FAIL_IF(number) do { int fails = (number); if (fails != 0) { errno = fails; return -1; } } while (0)

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) {
  REAL(pwrite64);
  FAIL_IF(fault_of("write", fd));
  return real(fd, bytes, size, at);
}
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) { return pwrite64(fd, bytes, size, at); }
ssize_t write(int fd, const void *bytes, size_t size) {
  REAL(write);
  FAIL_IF(fd > 2 ? fault_of("write", fd) : 0);
  return real(fd, bytes, size);
}
ssize_t pread64(int fd, void *bytes, size_t size, off64_t at) {
  REAL(pread64);
  FAIL_IF(fault_of("read", fd));
  return real(fd, bytes, size, at);
}
ssize_t pread(int fd, void *bytes, size_t size, off_t at) { return pread64(fd, bytes, size, at); }
int fsync(int fd) {
  REAL(fsync);
  FAIL_IF(fault_of("fsync", fd));
  return real(fd);
}
int fdatasync(int fd) {
  REAL(fdatasync);
  FAIL_IF(fault_of("fsync", fd));
  return real(fd);
}
int rename(const char *from, const char *to) {
  REAL(rename);
  FAIL_IF(fault("rename", to));
  return real(from, to);
}
