/**
 * What the unit and the image set for the C library of the server. By itself it keeps freed memory for later, in an
 * arena for each thread: after large bodies a hundred megabytes and more, which nothing uses and no other process gets.
 */
export const MALLOC_SETTINGS: Readonly<Record<string, string>> = {
  MALLOC_ARENA_MAX: "2",
  MALLOC_MMAP_THRESHOLD_: "262144",
};
