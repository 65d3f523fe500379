// The machine instructions that the kernels are built on, one function each (compute capability
// 8.0 and later). Nothing else in the sources is PTX, so that tests can run them on a CPU with
// these functions replaced.

typedef unsigned char u8;
typedef long long i64;
typedef unsigned long long u64;

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return (unsigned)__cvta_generic_to_shared(pointer);
}

// Starts copying SIZE bytes to shared memory; zeros where the source is not `inside`.
template <int SIZE>
__device__ __forceinline__ void copy_async(void* to, const void* from, bool inside) {
    const int size = inside ? SIZE : 0;
    if constexpr (SIZE == 16) {
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                     :: "r"(shared_address(to)), "l"(from), "r"(size));
    } else {
        asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2, %3;"
                     :: "r"(shared_address(to)), "l"(from), "n"(SIZE), "r"(size));
    }
}

// Ends a batch of copies, and waits until at most `PENDING` younger batches are under way.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;"); }

template <int PENDING>
__device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}

// Four 8 x 16 byte matrices of shared memory, whose rows the lanes point at (lane i: row i % 8 of
// matrix i / 8). Lane i gets bytes 4 (i % 4) .. + 3 of row i / 4 of each.
__device__ __forceinline__ void load_matrices(unsigned (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)));
}

// The same, transposed in units of two bytes: lane i gets bytes 2 (i / 4), + 1 of row 2 (i % 4) in
// the low half of each result and of the row after it in the high half.
__device__ __forceinline__ void load_transposed(unsigned (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)));
}

// sum += a b for unsigned bytes a (16 x 32) and signed bytes b (32 x 8), on the tensor cores.
// With g = lane / 4 and t = lane % 4, a lane holds
//     a[0], a[1]: row g, g + 8, places 4 t .. 4 t + 3;   a[2], a[3]: places 16 + 4 t .. + 3 of them
//     b.x, b.y:   column g, places 4 t .. 4 t + 3 and 16 + 4 t .. + 3
//     sum:        (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1)
__device__ __forceinline__ void multiply_add(int (&sum)[4], const unsigned (&a)[4], uint2 b) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

// sum + the products of four pairs of unsigned bytes.
__device__ __forceinline__ unsigned dot4(unsigned a, unsigned b, unsigned sum) {
    return __dp4a(a, b, sum);
}
