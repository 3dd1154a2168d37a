/* Allocations that fail when they are told to. Loaded with LD_PRELOAD, armed through ctypes.
 *
 * shore_learn(size): whoever allocates so many bytes allocates the memory of arrays; 0 to stop learning.
 * shore_arm(k, objects, on): the k-th allocation fails, and with `on` all that come after it. Counted are those of
 *   shore's modules, and arrays                all of them
 *   C++                                        from 1 kB on: SciPy says RuntimeError of a vector, but not of its contents
 *   everything else                            from 128 kB on: memory for data, such as a part of a file
 *   the interpreter, with `objects`            up to 512 bytes: its objects, if it runs with PYTHONMALLOC=malloc
 * Not counted are NumPy's iterators and their buffers: where these find no memory NumPy returns without an exception (a
 * SystemError) or reads from a null pointer. SciPy's sparsetools do the latter with short lists of arguments.
 * shore_left(): how many allocations until then.
 * shore_disarm(): how many failed since then.
 *
 * Left out are callers that end the process, or their thread, when they get no memory, whoever uses them:
 *   libgomp              gomp_fatal("Out of memory allocating ..."), for teams and threads
 *   libscipy_openblas    "BLAS : Program is Terminated", for its buffers and threads
 *   libopenblas          the same, where it is not bundled
 *   _safetensors_rust    Rust aborts where an allocation fails
 *   ld-linux             the loader, for modules that are imported when they are first used
 *   libc, libpthread     thread stacks and descriptors; also the buffers of stdio, of which the failure is not reported
 *   failing_malloc       itself
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static long left;      /* until one fails; 0 is disarmed */
static long failed;
static int with_objects;
static int goes_on;
static __thread int looking;
static size_t learning;
static void *sites[16];
static int n_sites;

void shore_learn(size_t size)
{
    learning = size;
}

void shore_arm(long k, int objects, int on)
{
    failed = 0;
    with_objects = objects;
    goes_on = on;
    __atomic_store_n(&left, k, __ATOMIC_SEQ_CST);
}

long shore_disarm(void)
{
    __atomic_store_n(&left, 0, __ATOMIC_SEQ_CST);
    return failed;
}

long shore_left(void)
{
    return left;
}

/* From how many bytes on allocations of a caller count; NEVER for callers that are left out. */
#define NEVER ((size_t)-1)
#define OBJECTS ((size_t)-2) /* of the interpreter */

static size_t looked_up(void *caller)
{
    static const char *const names[] = {
        "libgomp", "openblas", "_safetensors_rust", "ld-linux", "libc.so", "libc-", "libpthread", "failing_malloc"};
    Dl_info info;
    if (!dladdr(caller, &info) || info.dli_fname == NULL)
        return NEVER;
    const char *slash = strrchr(info.dli_fname, '/');
    const char *name = slash ? slash + 1 : info.dli_fname;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(name, names[i]))
            return NEVER;
    for (int i = 0; i < n_sites; i++)
        if (sites[i] == caller)
            return 1;
    if (strstr(name, "_multiarray_umath"))
        return NEVER;
    if (strstr(info.dli_fname, "/shore/_core/"))
        return 1;
    if (strstr(name, "libstdc++"))
        return 1024;
    return strncmp(name, "python", 6) == 0 || strncmp(name, "libpython", 9) == 0 ? OBJECTS : 128 << 10;
}

static int is_left_out(void *caller, size_t size)
{
    /* What was looked up before, which takes long. Only for one thread at a time: others look again. */
    static struct { void *caller; size_t least; } known[1 << 12];
    static int busy;
    size_t place = ((uintptr_t)caller >> 2) % (sizeof known / sizeof *known), least;
    if (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
        least = looked_up(caller);
    else {
        if (known[place].caller != caller) {
            known[place].least = looked_up(caller);
            known[place].caller = caller;
        }
        least = known[place].least;
        __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
    }
    if (least == OBJECTS)
        return size < (128 << 10) && !(with_objects && size <= 512);
    return size < least;
}

static int fails(size_t size, void *caller)
{
    if (learning && size == learning && n_sites < 16)
        sites[n_sites++] = caller;
    if (__atomic_load_n(&left, __ATOMIC_RELAXED) <= 0 || looking)
        return 0;
    looking = 1;
    int out = is_left_out(caller, size);
    looking = 0;
    if (out)
        return 0;
    long now = __atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST);
    if (now > 0)
        return 0;
    if (goes_on)
        __atomic_store_n(&left, 1, __ATOMIC_SEQ_CST);
    else if (now < 0)
        return 0;
    __atomic_add_fetch(&failed, 1, __ATOMIC_SEQ_CST);
    errno = ENOMEM;
    return 1;
}

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

void *malloc(size_t size)
{
    return fails(size, CALLER) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return fails(n * size, CALLER) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    return fails(size, CALLER) ? NULL : __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size)
{
    return fails(size, CALLER) ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails(size, CALLER) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    if (fails(size, CALLER))
        return ENOMEM;
    void *memory = __libc_memalign(alignment, size);
    if (memory == NULL)
        return ENOMEM;
    *out = memory;
    return 0;
}
