// Preloaded into a program: while the file FAIL_WHEN exists, what FAIL_WHAT names, `write` or `sync`, of files whose path
// contains FAIL_BELOW fails with EIO, as on a disk that breaks.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int fails(const char *what, int fd) {
    const char *when = getenv("FAIL_WHEN"), *below = getenv("FAIL_BELOW"), *kind = getenv("FAIL_WHAT");
    if (!when || !below || !kind || strcmp(kind, what) != 0 || access(when, F_OK) != 0) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (!strstr(path, below)) return 0;
    errno = EIO;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *bytes, size_t count) {
    return fails("write", fd) ? -1 : REAL(write)(fd, bytes, count);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    return fails("write", fd) ? -1 : REAL(pwrite)(fd, bytes, count, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    return fails("write", fd) ? -1 : REAL(pwrite64)(fd, bytes, count, at);
}

int fsync(int fd) {
    return fails("sync", fd) ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd) {
    return fails("sync", fd) ? -1 : REAL(fdatasync)(fd);
}

int sync_file_range(int fd, off64_t at, off64_t count, unsigned flags) {
    return fails("sync", fd) ? -1 : REAL(sync_file_range)(fd, at, count, flags);
}
