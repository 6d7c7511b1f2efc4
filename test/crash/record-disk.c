/* Records the changes of a program to the files below a directory, so that test/crash/simulated-disk.ts can compute
 * what a power cut at any moment would have left of them. Loaded with LD_PRELOAD before the C library; it does not
 * change the program's behaviour. $DISK_ROOT is the directory (absolute, without symbolic links), $DISK_TRACE the file
 * to which records are appended. Several processes may share both.
 *
 * A change is recorded after it happened, and a sync before it begins and after it returned. So everything that the
 * trace contains before the beginning of a sync happened before it, and the simulation never treats anything as durable
 * that was not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CREATE = 1, MKDIR, WRITE, TRUNCATE, SYNC_BEGIN, SYNC_END, RENAME, LINK, UNLINK, RMDIR, EXTEND, WRITE_THROUGH, UNKNOWN };

/* The head of a record, followed by the two paths and the data. Numbers are little-endian. */
struct __attribute__((packed)) head {
  uint32_t size; /* of the whole record */
  uint8_t kind;
  uint64_t file; /* inode */
  uint64_t at; /* offset, size or number of the sync */
  uint16_t path_size, other_size;
};

static const char *root(void) { return getenv("DISK_ROOT"); }

static int is_below(const char *path) {
  const char *directory = root();
  if (directory == NULL) return 0;
  size_t size = strlen(directory);
  return strncmp(path, directory, size) == 0 && (path[size] == '/' || path[size] == 0);
}

static void record(int kind, uint64_t file, uint64_t at, const char *path, const char *other, const void *data, size_t size) {
  static _Atomic int trace = -1;
  int saved = errno;
  if (trace < 0) {
    const char *name = getenv("DISK_TRACE");
    int opened = name == NULL ? -1 : (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    /* A high number, because some programs count their descriptors. */
    int high = opened < 0 ? -1 : (int)syscall(SYS_fcntl, opened, F_DUPFD_CLOEXEC, 900);
    if (opened >= 0) syscall(SYS_close, opened);
    int none = -1;
    if (high >= 0 && !atomic_compare_exchange_strong(&trace, &none, high)) syscall(SYS_close, high);
    if (trace < 0) abort();
  }
  size_t path_size = path == NULL ? 0 : strlen(path), other_size = other == NULL ? 0 : strlen(other);
  struct head head = { (uint32_t)(sizeof head + path_size + other_size + size), (uint8_t)kind, file, at, (uint16_t)path_size, (uint16_t)other_size };
  struct iovec parts[4] = { { &head, sizeof head }, { (void *)path, path_size }, { (void *)other, other_size }, { (void *)data, size } };
  /* A single write in append mode, so that records of threads and processes never interleave. */
  if (syscall(SYS_writev, trace, parts, 4) != (long)head.size) abort();
  errno = saved;
}

/* The path of a descriptor below the root, and its inode; 0 for every other descriptor. */
static int look(int fd, char *path, uint64_t *file) {
  char link[64];
  int saved = errno;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  long size = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
  struct stat info;
  int found = 0;
  if (size > 0) {
    path[size] = 0;
    if (is_below(path) && fstat(fd, &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode))) {
      *file = info.st_ino;
      found = 1;
    }
  }
  errno = saved;
  return found;
}

static int absolute(int directory, const char *path, char *out) {
  if (path[0] == '/') return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX;
  char base[PATH_MAX], link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
  long size = syscall(SYS_readlinkat, AT_FDCWD, directory == AT_FDCWD ? "/proc/self/cwd" : link, base, sizeof base - 1);
  if (size <= 0) return 0;
  base[size] = 0;
  return snprintf(out, PATH_MAX, "%s/%s", base, path) < PATH_MAX;
}

static uint64_t inode_of(const char *path) {
  struct stat info;
  return fstatat(AT_FDCWD, path, &info, AT_SYMLINK_NOFOLLOW) == 0 ? info.st_ino : 0;
}

#define REAL(name) static __typeof__(&name) real; if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* ---- opening: what did not exist is created, O_TRUNC empties */

static int opened(int fd, int directory, const char *path, int flags, int existed) {
  char place[PATH_MAX], full[PATH_MAX];
  uint64_t file;
  if (fd < 0 || !(flags & (O_CREAT | O_TRUNC | O_TMPFILE)) || !look(fd, place, &file)) return fd;
  if ((flags & O_TMPFILE) == O_TMPFILE) record(CREATE, file, 0, NULL, NULL, NULL, 0);
  else if (!existed && absolute(directory, path, full)) record(CREATE, file, 0, full, NULL, NULL, 0);
  else if (flags & O_TRUNC) record(TRUNCATE, file, 0, NULL, NULL, NULL, 0);
  return fd;
}

static int exists(int directory, const char *path) {
  int saved = errno;
  int found = syscall(SYS_faccessat, directory, path, F_OK) == 0;
  errno = saved;
  return found;
}

static mode_t mode_of(int flags, va_list more) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; }

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    REAL(name); \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = mode_of(flags, more); \
    va_end(more); \
    int existed = exists(AT_FDCWD, path); \
    return opened(real(path, flags, mode), AT_FDCWD, path, flags, existed); \
  }
#define OPENAT(name) \
  int name(int directory, const char *path, int flags, ...) { \
    REAL(name); \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = mode_of(flags, more); \
    va_end(more); \
    int existed = exists(directory, path); \
    return opened(real(directory, path, flags, mode), directory, path, flags, existed); \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

/* ---- writing */

static void wrote(int fd, const struct iovec *parts, int count, ssize_t size, off64_t at) {
  char path[PATH_MAX];
  uint64_t file;
  if (size <= 0 || fd <= 2 || !look(fd, path, &file)) return;
  /* At the position of the descriptor, which the write moved. */
  if (at < 0) at = lseek64(fd, 0, SEEK_CUR) - size;
  int flags = (int)syscall(SYS_fcntl, fd, F_GETFL);
  int kind = flags & (O_DSYNC | O_SYNC) ? WRITE_THROUGH : WRITE;
  for (int i = 0; i < count && size > 0; i += 1) {
    size_t part = parts[i].iov_len < (size_t)size ? parts[i].iov_len : (size_t)size;
    if (part > 0) record(kind, file, (uint64_t)at, NULL, NULL, parts[i].iov_base, part);
    at += (off64_t)part;
    size -= (ssize_t)part;
  }
}
static ssize_t wrote_one(int fd, const void *bytes, ssize_t size, off64_t at) {
  struct iovec part = { (void *)bytes, size > 0 ? (size_t)size : 0 };
  wrote(fd, &part, 1, size, at);
  return size;
}

ssize_t write(int fd, const void *bytes, size_t size) { REAL(write); return wrote_one(fd, bytes, real(fd, bytes, size), -1); }
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) { REAL(pwrite); return wrote_one(fd, bytes, real(fd, bytes, size, at), at); }
ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) { REAL(pwrite64); return wrote_one(fd, bytes, real(fd, bytes, size, at), at); }
ssize_t writev(int fd, const struct iovec *parts, int count) {
  REAL(writev);
  ssize_t size = real(fd, parts, count);
  wrote(fd, parts, count, size, -1);
  return size;
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
  REAL(pwritev);
  ssize_t size = real(fd, parts, count, at);
  wrote(fd, parts, count, size, at);
  return size;
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
  REAL(pwritev64);
  ssize_t size = real(fd, parts, count, at);
  wrote(fd, parts, count, size, at);
  return size;
}

static int sized(int result, int fd, uint64_t size, int kind) {
  char path[PATH_MAX];
  uint64_t file;
  if (result == 0 && look(fd, path, &file)) record(kind, file, size, NULL, NULL, NULL, 0);
  return result;
}
int ftruncate(int fd, off_t size) { REAL(ftruncate); return sized(real(fd, size), fd, (uint64_t)size, TRUNCATE); }
int ftruncate64(int fd, off64_t size) { REAL(ftruncate64); return sized(real(fd, size), fd, (uint64_t)size, TRUNCATE); }
int posix_fallocate(int fd, off_t at, off_t size) { REAL(posix_fallocate); return sized(real(fd, at, size), fd, (uint64_t)(at + size), EXTEND); }
int posix_fallocate64(int fd, off64_t at, off64_t size) { REAL(posix_fallocate64); return sized(real(fd, at, size), fd, (uint64_t)(at + size), EXTEND); }
int fallocate(int fd, int mode, off_t at, off_t size) { REAL(fallocate); return sized(real(fd, mode, at, size), fd, (uint64_t)(at + size), mode == 0 ? EXTEND : UNKNOWN); }
int fallocate64(int fd, int mode, off64_t at, off64_t size) { REAL(fallocate64); return sized(real(fd, mode, at, size), fd, (uint64_t)(at + size), mode == 0 ? EXTEND : UNKNOWN); }

/* ---- syncing */

static int synced(int fd, int (*real)(int)) {
  static _Atomic uint32_t last;
  char path[PATH_MAX];
  uint64_t file;
  if (!look(fd, path, &file)) return real(fd);
  uint64_t number = ((uint64_t)getpid() << 32) | ++last;
  record(SYNC_BEGIN, file, number, path, NULL, NULL, 0);
  int result = real(fd);
  if (result == 0) record(SYNC_END, file, number, NULL, NULL, NULL, 0);
  return result;
}
int fsync(int fd) { REAL(fsync); return synced(fd, real); }
int fdatasync(int fd) { REAL(fdatasync); return synced(fd, real); }

/* ---- names */

static int named(int result, int kind, int directory, const char *path, uint64_t file) {
  char full[PATH_MAX];
  if (result == 0 && absolute(directory, path, full) && is_below(full)) record(kind, file ? file : inode_of(full), 0, full, NULL, NULL, 0);
  return result;
}
int mkdir(const char *path, mode_t mode) { REAL(mkdir); return named(real(path, mode), MKDIR, AT_FDCWD, path, 0); }
int mkdirat(int directory, const char *path, mode_t mode) { REAL(mkdirat); return named(real(directory, path, mode), MKDIR, directory, path, 0); }
char *mkdtemp(char *template) {
  REAL(mkdtemp);
  char *path = real(template);
  if (path != NULL) named(0, MKDIR, AT_FDCWD, path, 0);
  return path;
}
int unlink(const char *path) { REAL(unlink); return named(real(path), UNLINK, AT_FDCWD, path, 1); }
int rmdir(const char *path) { REAL(rmdir); return named(real(path), RMDIR, AT_FDCWD, path, 1); }
int unlinkat(int directory, const char *path, int flags) {
  REAL(unlinkat);
  return named(real(directory, path, flags), flags & AT_REMOVEDIR ? RMDIR : UNLINK, directory, path, 1);
}

static int moved(int result, int directory, const char *from, int other, const char *to) {
  char source[PATH_MAX], target[PATH_MAX];
  if (result != 0 || !absolute(directory, from, source) || !absolute(other, to, target)) return result;
  if (is_below(source) != is_below(target)) record(UNKNOWN, 0, 0, source, target, NULL, 0);
  else if (is_below(source)) record(RENAME, inode_of(target), 0, source, target, NULL, 0);
  return result;
}
int rename(const char *from, const char *to) { REAL(rename); return moved(real(from, to), AT_FDCWD, from, AT_FDCWD, to); }
int renameat(int directory, const char *from, int other, const char *to) { REAL(renameat); return moved(real(directory, from, other, to), directory, from, other, to); }
int renameat2(int directory, const char *from, int other, const char *to, unsigned flags) {
  REAL(renameat2);
  int result = real(directory, from, other, to, flags);
  if (result == 0 && flags & RENAME_EXCHANGE) record(UNKNOWN, 0, 0, from, to, NULL, 0);
  return moved(result, directory, from, other, to);
}
int link(const char *from, const char *to) { REAL(link); return named(real(from, to), LINK, AT_FDCWD, to, 0); }
int linkat(int directory, const char *from, int other, const char *to, int flags) {
  REAL(linkat);
  return named(real(directory, from, other, to, flags), LINK, other, to, 0);
}
int symlink(const char *from, const char *to) { REAL(symlink); return named(real(from, to), UNKNOWN, AT_FDCWD, to, 1); }
