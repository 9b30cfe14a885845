/* Counts the fsyncs of a process, and adds a pause to each: a disk in place of a memory-backed folder.
 *
 *   cc -O2 -shared -fPIC -o slow_fsync.so slow_fsync.c -ldl
 *   LD_PRELOAD=./slow_fsync.so program
 *
 * The program finds the two wenmai_fsync functions among its own symbols.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <time.h>

static atomic_long calls;
static atomic_long pause_micros;

long wenmai_fsync_calls(void) { return atomic_load(&calls); }
void wenmai_fsync_pause(long micros) { atomic_store(&pause_micros, micros); }

static void counted_and_slow(void) {
    long micros = atomic_load(&pause_micros);
    atomic_fetch_add(&calls, 1);
    if (micros > 0) {
        struct timespec rest = {micros / 1000000, (micros % 1000000) * 1000};
        prctl(PR_SET_TIMERSLACK, 1UL); /* the kernel would add 50 microseconds of its own */
        while (clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, &rest) != 0) {
        }
    }
}

int fsync(int file) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    counted_and_slow();
    return real(file);
}

int fdatasync(int file) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    counted_and_slow();
    return real(file);
}
