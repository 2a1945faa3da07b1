/* Faults at one file operation of a process, for run.py: an LD_PRELOAD library.

   Operations that change files under FAULT_DIR are counted. At the FAULT_AT-th one FAULT_KIND happens:
   kill-before, kill-after, error-before (FAULT_ERRNO instead of the operation), error-after (the
   operation is done, and reported as failed, as a network file system may). With FAULT_LOG every
   operation is written there, one a line. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_int count;

static int inside(const char *path) {
    const char *folder = getenv("FAULT_DIR");
    return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int inside_fd(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return inside(path);
}

/* 0: nothing happens; 1: fails before; 2: something happens after. */
static int before(const char *name) {
    static const char *kind, *log;
    static int at;
    if (!kind) {
        kind = getenv("FAULT_KIND") ? getenv("FAULT_KIND") : "";
        at = getenv("FAULT_AT") ? atoi(getenv("FAULT_AT")) : -1;
        log = getenv("FAULT_LOG");
    }
    int number = atomic_fetch_add(&count, 1) + 1;
    if (log) {
        FILE *file = fopen(log, "a");
        if (file) { fprintf(file, "%s\n", name); fclose(file); }
    }
    if (!strcmp(kind, "error-from") && at > 0 && number >= at) return 1;
    if (number != at) return 0;
    if (!strcmp(kind, "kill-before")) kill(getpid(), SIGKILL);
    if (!strcmp(kind, "error-before")) return 1;
    return 2;
}

static int after(void) {
    if (!strcmp(getenv("FAULT_KIND"), "kill-after")) kill(getpid(), SIGKILL);
    return 1;
}

static int fails(void) {
    const char *number = getenv("FAULT_ERRNO");
    errno = number ? atoi(number) : EIO;
    return -1;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define WRAP(condition, label, call) \
    if (!(condition)) return call; \
    int fault = before(label); \
    if (fault == 1) return fails(); \
    __typeof__(call) result = call; \
    if (fault == 2 && after()) return fails(); \
    return result

#define MODE int mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list list; va_start(list, flags); mode = va_arg(list, int); va_end(list); }
int open(const char *path, int flags, ...) { MODE REAL(open); WRAP((flags & O_ACCMODE) != O_RDONLY && inside(path), "open", real(path, flags, mode)); }
int open64(const char *path, int flags, ...) { MODE REAL(open64); WRAP((flags & O_ACCMODE) != O_RDONLY && inside(path), "open", real(path, flags, mode)); }
ssize_t write(int fd, const void *bytes, size_t size) { REAL(write); WRAP(inside_fd(fd), "write", real(fd, bytes, size)); }
ssize_t writev(int fd, const struct iovec *parts, int number) { REAL(writev); WRAP(inside_fd(fd), "writev", real(fd, parts, number)); }
int fsync(int fd) { REAL(fsync); WRAP(inside_fd(fd), "fsync", real(fd)); }
int flock(int fd, int how) { REAL(flock); WRAP(inside_fd(fd), "flock", real(fd, how)); }
int fchmod(int fd, mode_t mode) { REAL(fchmod); WRAP(inside_fd(fd), "fchmod", real(fd, mode)); }
int chmod(const char *path, mode_t mode) { REAL(chmod); WRAP(inside(path), "chmod", real(path, mode)); }
int rename(const char *from, const char *to) { REAL(rename); WRAP(inside(to), "rename", real(from, to)); }
int link(const char *from, const char *to) { REAL(link); WRAP(inside(to), "link", real(from, to)); }
int linkat(int f, const char *from, int t, const char *to, int flags) { REAL(linkat); WRAP(inside(to), "linkat", real(f, from, t, to, flags)); }
int unlink(const char *path) { REAL(unlink); WRAP(inside(path), "unlink", real(path)); }
int unlinkat(int folder, const char *path, int flags) { REAL(unlinkat); WRAP(inside(path), "unlinkat", real(folder, path, flags)); }
