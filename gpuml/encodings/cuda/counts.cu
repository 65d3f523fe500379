// For each column of packed codes: how many are missing, the sum of the others, the sum of their
// squares. A lane takes a word of a row (32 / BITS columns) and walks down `run` rows, four at a
// time: with their bytes transposed, dp4a adds four rows of a column at once. Code i of a byte is
// left where it is and makes sums 2^(BITS i) times too large, which is put right at the end.

constexpr int WARPS = 8;
constexpr int UNROLL = 4;  // words in flight: 4 UNROLL

__device__ __forceinline__ unsigned word_at(const Rows& x, i64 row, i64 offset) {
    if (row >= x.n_rows || offset >= x.row_bytes) return 0;
    const u8* at = x.row(row) + offset;
    if (ALIGN >= 4) return *(const unsigned*)at;
    // Aligned words only, and the second one only if it holds a byte of this row.
    const unsigned before = (unsigned)((u64)at & 3);
    const unsigned* words = (const unsigned*)(at - before);
    const unsigned high = offset + 4 - before < x.row_bytes ? words[1] : 0;
    return __funnelshift_r(words[0], high, before * 8);
}

struct Sums {
    unsigned missing[4 * CODES], total[4 * CODES], squares[4 * CODES];
};

__device__ __forceinline__ void add_rows(Sums& sums, const unsigned (&w)[4]) {
    const unsigned a = __byte_perm(w[0], w[1], 0x5140), b = __byte_perm(w[2], w[3], 0x5140);
    const unsigned c = __byte_perm(w[0], w[1], 0x7362), d = __byte_perm(w[2], w[3], 0x7362);
    const unsigned bytes[4] = {__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632),
                               __byte_perm(c, d, 0x5410), __byte_perm(c, d, 0x7632)};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const unsigned missing = missing_codes(bytes[j]), present = present_codes(bytes[j]);
#pragma unroll
        for (int i = 0; i < CODES; ++i) {
            const unsigned code = present & (FIRST_CODES << (BITS * i));
            const int k = j * CODES + i;
            sums.total[k] = dot4(code, EVERY_BYTE, sums.total[k]);
            sums.squares[k] = dot4(code, code, sums.squares[k]);
            const unsigned gone = missing & (EVERY_BYTE << (BITS * i));
            if (MISSING) sums.missing[k] = dot4(gone, EVERY_BYTE, sums.missing[k]);
        }
    }
}

// results: (3, p) missing, total, squares. run: at most 65536 rows, a multiple of 4 WARPS UNROLL.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
counts(const u8* data, i64 n_rows, i64 stride, i64 row_bytes, i64 run, u64* results, i64 p) {
    const Rows x = {data, n_rows, stride, row_bytes};
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const i64 offset = ((i64)blockIdx.x * 32 + lane) * 4;
    const i64 first = blockIdx.y * run, last = min(first + run, n_rows);
    Sums sums = {};
    for (i64 row = first + warp * 4 * UNROLL; row < last; row += WARPS * 4 * UNROLL) {
        unsigned words[UNROLL][4];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
            for (int j = 0; j < 4; ++j) words[u][j] = word_at(x, row + 4 * u + j, offset);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) add_rows(sums, words[u]);
    }
#pragma unroll
    for (int k = 0; k < 4 * CODES; ++k) {
        const i64 column = offset * CODES + k;
        const int shift = k % CODES * BITS;
        if (column >= p) continue;
        if (MISSING) atomicAdd(results + column, (u64)(sums.missing[k] >> shift));
        atomicAdd(results + p + column, (u64)(sums.total[k] >> shift));
        atomicAdd(results + 2 * p + column, (u64)(sums.squares[k] >> (2 * shift)));
    }
}
