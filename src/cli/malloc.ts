/**
 * Settings of the C library's allocator, for the systemd unit and the container image. By default glibc keeps freed
 * memory in one arena per thread: 100 MB and more after large request bodies, unused and lost to other processes. The
 * threshold is the size of the pieces in which Node receives a body, which then go back to the system one by one.
 */
export const MALLOC_SETTINGS: Readonly<Record<string, string>> = {
  MALLOC_ARENA_MAX: "2",
  MALLOC_MMAP_THRESHOLD_: "65536",
};
