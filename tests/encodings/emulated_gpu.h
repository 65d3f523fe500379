// Just enough of CUDA to run the kernels of gpuml/encodings/cuda on a CPU, one block at a time.
//
// The threads of a block are contexts that take turns and wait for each other at barriers. The
// instructions of a whole warp (ldmatrix, mma) follow the layouts in NVIDIA's PTX manual, written
// down here a second time on purpose. Copies to shared memory are made when they are waited for
// and no sooner, shared memory starts as noise, and copies at wrong addresses end the program: so
// what works here does not rely on luck.

// (C headers only: they take the compiler no time.)
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n)

typedef unsigned char u8;
typedef long long i64;
typedef unsigned long long u64;
inline i64 min(i64 a, i64 b) { return a < b ? a : b; }
struct uint2 { unsigned x, y; };
struct Index { unsigned x, y, z; };

// ------------------------------------------------------------------------------ threads

constexpr int MOST_THREADS = 256, MOST_COPIES = 1024, STACK = 1 << 17;
struct Copy { void* to; const void* from; int size, batch; bool inside; };
struct Barrier { unsigned arrived, generation; };
struct Thread {
    Index index;
    ucontext_t context;
    Copy copies[MOST_COPIES];  // that nobody has waited for yet
    int n_copies, batch;
    const Barrier* waits_at;  // nullptr: may run
    unsigned generation;      // of the barrier
    bool done;
    const u8* row;        // of ldmatrix
    unsigned a[4], b[2];  // of mma
};

static Thread threads[MOST_THREADS];
static u8 stacks[MOST_THREADS][STACK];
static Thread* current;
static ucontext_t scheduler;
static Barrier block_barrier, warp_barriers[MOST_THREADS / 32];
static Index blockIdx, blockDim, gridDim;
alignas(1024) u8 memory[1 << 18];  // the shared memory that the kernels declare
struct Range { const u8 *first, *last; };
static const Range* arrays;  // the arguments of the kernel
static int n_arrays;

#define threadIdx (current->index)

[[noreturn]] inline void fail(const char* why) {
    fprintf(stderr, "emulated GPU: %s\n", why);
    abort();
}

inline void wait_at(Barrier& barrier, unsigned size) {
    current->waits_at = &barrier;
    current->generation = barrier.generation;
    if (++barrier.arrived == size) {
        barrier.arrived = 0;
        ++barrier.generation;
    } else {
        swapcontext(&current->context, &scheduler);
    }
    current->waits_at = nullptr;
}
inline bool may_run(const Thread& thread) {
    return !thread.done && !(thread.waits_at && thread.waits_at->generation == thread.generation);
}
inline void __syncthreads() { wait_at(block_barrier, blockDim.x); }
inline void __syncwarp() { wait_at(warp_barriers[threadIdx.x / 32], 32); }
inline Thread& lane_of_warp(unsigned lane) { return threads[threadIdx.x / 32 * 32 + lane]; }

// ------------------------------------------------------------------------------ instructions

// Aligned memory may be read wherever one byte of it belongs to an array.
inline bool holds_part_of(const u8* from, int size) {
    for (int i = 0; i < n_arrays; ++i)
        if (from + size > arrays[i].first && from < arrays[i].last) return true;
    return false;
}

template <int SIZE>
void copy_async(void* to, const void* from, bool inside) {
    const u8* source = (const u8*)from;
    if ((uintptr_t)to % SIZE || (inside && (uintptr_t)from % SIZE)) fail("unaligned copy");
    const u8* target = (u8*)to;
    if (target < memory || target + SIZE > memory + sizeof memory) fail("not shared memory");
    if (inside && !holds_part_of(source, SIZE)) fail("copy from outside of all arrays");
    if (current->n_copies == MOST_COPIES) fail("too many copies");
    current->copies[current->n_copies++] = {to, from, SIZE, current->batch, inside};
}
inline void commit_copies() { ++current->batch; }
template <int PENDING>
void wait_copies() {
    int left = 0;
    for (int i = 0; i < current->n_copies; ++i) {
        const Copy copy = current->copies[i];
        if (copy.batch >= current->batch - PENDING) {
            current->copies[left++] = copy;
        } else if (copy.inside) {
            memcpy(copy.to, copy.from, copy.size);
        } else {
            memset(copy.to, 0, copy.size);
        }
    }
    current->n_copies = left;
}

inline void gather(unsigned (&r)[4], const void* row, bool transposed) {
    if ((uintptr_t)row % 16) fail("unaligned ldmatrix");
    current->row = (const u8*)row;
    __syncwarp();
    const unsigned lane = threadIdx.x % 32;
    for (unsigned matrix = 0; matrix < 4; ++matrix) {
        u8 bytes[4];
        for (unsigned e = 0; e < 4; ++e) {
            // Element e / 2 (two bytes) of this lane's row of the matrix or of its transpose.
            const unsigned along = lane % 4 * 2 + e / 2, across = lane / 4;
            const unsigned i = transposed ? along : across, j = transposed ? across : along;
            bytes[e] = lane_of_warp(matrix * 8 + i).row[j * 2 + e % 2];
        }
        memcpy(&r[matrix], bytes, 4);
    }
    __syncwarp();
}
inline void load_matrices(unsigned (&r)[4], const void* row) { gather(r, row, false); }
inline void load_transposed(unsigned (&r)[4], const void* row) { gather(r, row, true); }

inline unsigned byte_of(unsigned word, unsigned i) { return word >> (8 * i) & 255; }

inline void multiply_add(int (&sum)[4], const unsigned (&a)[4], uint2 b) {
    memcpy(current->a, a, 16);
    current->b[0] = b.x;
    current->b[1] = b.y;
    __syncwarp();
    const unsigned lane = threadIdx.x % 32;
    for (unsigned e = 0; e < 4; ++e) {
        const unsigned row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        for (unsigned k = 0; k < 32; ++k) {
            const Thread& left = lane_of_warp(row % 8 * 4 + k % 16 / 4);
            const Thread& right = lane_of_warp(column * 4 + k % 16 / 4);
            const unsigned x = byte_of(left.a[k / 16 * 2 + row / 8], k % 4);
            sum[e] += (int)x * (int8_t)byte_of(right.b[k / 16], k % 4);
        }
    }
    __syncwarp();
}

inline unsigned dot4(unsigned a, unsigned b, unsigned sum) {
    for (unsigned i = 0; i < 4; ++i) sum += byte_of(a, i) * byte_of(b, i);
    return sum;
}
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    unsigned result = 0;
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned from = selector >> (4 * i) & 7;
        result |= byte_of(from < 4 ? low : high, from % 4) << (8 * i);
    }
    return result;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((u64)high << 32 | low) >> (shift & 31));
}
inline u64 __double_as_longlong(double x) {
    u64 bits;
    memcpy(&bits, &x, 8);
    return bits;
}
inline i64 __double2ll_rn(double x) { return x == x ? (i64)nearbyint(x) : INT64_MIN; }
inline void atomicAdd(u64* to, u64 x) { *to += x; }
inline void atomicMax(u64* to, u64 x) { if (x > *to) *to = x; }

// ------------------------------------------------------------------------------ launches

template <int... I>
struct Indices {};
template <int N, int... I>
struct IndicesTo : IndicesTo<N - 1, N - 1, I...> {};
template <int... I>
struct IndicesTo<0, I...> { typedef Indices<I...> type; };

template <class... Parameters, int... I>
void call(void (*kernel)(Parameters...), void** arguments, Indices<I...>) {
    kernel(*(Parameters*)arguments[I]...);
}

static void (*body)(void**);
static void** body_arguments;
static void thread_main() {
    body(body_arguments);
    current->done = true;
    swapcontext(&current->context, &scheduler);
}

// Whether any thread of the warp could run.
inline bool run_warp(unsigned warp) {
    bool ran = false;
    for (bool busy = true; busy; ran |= busy) {
        busy = false;
        for (unsigned lane = 0; lane < 32; ++lane) {
            current = &threads[warp * 32 + lane];
            if (!may_run(*current)) continue;
            busy = true;
            swapcontext(&scheduler, &current->context);
        }
    }
    return ran;
}

inline void run_block() {
    for (size_t i = 0; i < sizeof memory; ++i) memory[i] = (u8)(i * 2654435761u >> 13);
    block_barrier = {};
    memset(warp_barriers, 0, sizeof warp_barriers);
    for (unsigned i = 0; i < blockDim.x; ++i) {
        Thread& thread = threads[i];
        thread.index = {i, 0, 0};
        thread.done = false;
        thread.waits_at = nullptr;
        thread.n_copies = thread.batch = 0;
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = stacks[i];
        thread.context.uc_stack.ss_size = STACK;
        makecontext(&thread.context, thread_main, 0);
    }
    // Each warp goes as far as it can before the next one starts, the last one first in every other
    // block: a barrier that is missing shows.
    const bool backwards = blockIdx.x % 2 == 1;
    for (bool busy = true; busy;) {
        busy = false;
        for (unsigned i = 0; i < blockDim.x / 32; ++i)
            busy |= run_warp(backwards ? blockDim.x / 32 - 1 - i : i);
    }
    for (unsigned i = 0; i < blockDim.x; ++i)
        if (!threads[i].done) fail("threads wait at different barriers");
}

inline void run_grid(const unsigned* grid, unsigned n_threads, const Range* ranges, int n_ranges) {
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {n_threads, 1, 1};
    arrays = ranges;
    n_arrays = n_ranges;
    for (unsigned z = 0; z < grid[2]; ++z)
        for (unsigned y = 0; y < grid[1]; ++y)
            for (unsigned x = 0; x < grid[0]; ++x) {
                blockIdx = {x, y, z};
                run_block();
            }
}

// A C function that launches a kernel: grid of three numbers, threads of a block, the memory of
// its arrays, pointers to its arguments.
#define LAUNCHER(kernel)                                                                          \
    template <class... Parameters>                                                                \
    void call_##kernel(void (*f)(Parameters...), void** arguments) {                              \
        call(f, arguments, typename IndicesTo<sizeof...(Parameters)>::type{});                    \
    }                                                                                             \
    extern "C" void launch_##kernel(const unsigned* grid, unsigned n_threads, const Range* ranges, \
                                    int n_ranges, void** arguments) {                             \
        body = [](void** a) { call_##kernel(kernel, a); };                                        \
        body_arguments = arguments;                                                               \
        run_grid(grid, n_threads, ranges, n_ranges);                                              \
    }
