// Z = X' Y for packed codes X (n, p) and Y (n, l) in slices of signed bytes; with MISSING == 2 also
// M' Y. Exact in integers; blocks of rows add theirs to Z, so the order does not matter.
//
// A block takes a strip of columns of X and a group of columns of Y, and walks down its rows,
// STAGE_ROWS at a time. ldmatrix transposes 32 rows x 16 bytes in units of two bytes, and a byte
// permutation puts the same byte of four rows into one register. Masking out code i of every byte
// then gives one 16 x 32 factor; that it is 2^(BITS i) times too large is put right at the end.
// Half of the warps take the missing values where they are asked for.

constexpr int SEGMENTS = BITS / 2;         // of 16 bytes, for each warp
constexpr int M_TILES = SEGMENTS * CODES;  // always 4
constexpr int STRIP_WARPS = WARPS / KINDS;
constexpr int STRIP = STRIP_WARPS * SEGMENTS * 16;
constexpr int TILE = STAGE_ROWS * PITCH<STRIP>;
constexpr int STEPS = STAGE_ROWS / 32;
constexpr int STAGE_FRAGMENTS = STEPS * N_TILES * 32 * 8;
constexpr int STAGE = TILE + STAGE_FRAGMENTS;

typedef int Sums[M_TILES][N_TILES][4];

__device__ __forceinline__ unsigned of_kind(unsigned word, bool missing) {
    return MISSING == 2 && missing ? missing_codes(word) : present_codes(word);
}

__device__ __forceinline__ void add_stage(Sums& sums, const u8* stage, int strip_warp,
                                          bool missing) {
    const int lane = threadIdx.x % 32;
    const u8* rows = stage + lane * PITCH<STRIP> + strip_warp * SEGMENTS * 16;
    const uint2* fragments = (const uint2*)(stage + TILE) + lane;
#pragma unroll 2
    for (int step = 0; step < STEPS; ++step) {
        uint2 b[N_TILES];
#pragma unroll
        for (int n = 0; n < N_TILES; ++n) b[n] = fragments[(step * N_TILES + n) * 32];
#pragma unroll
        for (int segment = 0; segment < SEGMENTS; ++segment) {
            unsigned r[4];
            load_transposed(r, rows + step * 32 * PITCH<STRIP> + segment * 16);
            const unsigned bytes[4] = {
                of_kind(__byte_perm(r[0], r[1], 0x6420), missing),
                of_kind(__byte_perm(r[0], r[1], 0x7531), missing),
                of_kind(__byte_perm(r[2], r[3], 0x6420), missing),
                of_kind(__byte_perm(r[2], r[3], 0x7531), missing),
            };
#pragma unroll
            for (int i = 0; i < CODES; ++i) {
                unsigned a[4];
#pragma unroll
                for (int j = 0; j < 4; ++j) a[j] = bytes[j] & (FIRST_CODES << (BITS * i));
#pragma unroll
                for (int n = 0; n < N_TILES; ++n)
                    multiply_add(sums[segment * CODES + i][n], a, b[n]);
            }
        }
    }
}

// Adds a warp's sums to z (p, n_columns). Rows g and g + 8 of a tile are bytes 2 g and 2 g + 1.
__device__ __forceinline__ void add_to(u64* z, int* shared, const Sums& sums, i64 first_byte,
                                       i64 p, int n_columns, int group, int per_group) {
    const int lane = threadIdx.x % 32;
    const int first = group * per_group;
    const int width = min(per_group, n_columns - first);
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
        const int segment = m / CODES, i = m % CODES;
        __syncwarp();
        spread(shared, sums[m], 2, 1, BITS * i);
        __syncwarp();
        for (int e = lane; e < 16 * MOST_COLUMNS; e += 32) {
            const int r = e / MOST_COLUMNS, c = e % MOST_COLUMNS;
            const i64 column = (first_byte + segment * 16 + r) * CODES + i;
            if (column >= p || c >= width) continue;
            const i64 sum = joined(shared + r * SUMS_PITCH + c * SLICES);
            atomicAdd(z + column * n_columns + first + c, (u64)sum);
        }
    }
}

// blockIdx.x counts groups of columns of Y within strips (so neighbours find their rows in the
// cache), y runs of `run` stages of rows. z and z_missing hold two's complement sums.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
backward(const u8* data, i64 n_rows, i64 stride, i64 row_bytes, const u8* fragments, i64 all_stages,
         i64 run, u64* z, u64* z_missing, i64 p, int n_columns, int n_groups, int per_group) {
    extern __shared__ __align__(16) u8 memory[];
    const Rows x = {data, n_rows, stride, row_bytes};
    const int warp = threadIdx.x / 32, strip_warp = warp % STRIP_WARPS;
    const bool missing = warp >= STRIP_WARPS;
    const int group = blockIdx.x % n_groups;
    const i64 first_byte = (i64)(blockIdx.x / n_groups) * STRIP;
    const i64 first_stage = blockIdx.y * run, last_stage = min(first_stage + run, all_stages);
    fragments += group * all_stages * STAGE_FRAGMENTS;
    auto start = [&](i64 s) {
        u8* stage = memory + (s - first_stage) % STAGES * STAGE;
        if (s < last_stage) {
            fetch<STAGE_ROWS, STRIP>(stage, x, s * STAGE_ROWS, first_byte);
            fetch_fragments<STAGE_FRAGMENTS>(stage + TILE, fragments + s * STAGE_FRAGMENTS);
        }
        commit_copies();
    };
    Sums sums = {};
    for (int s = 0; s < STAGES - 1; ++s) start(first_stage + s);
    for (i64 s = first_stage; s < last_stage; ++s) {
        wait_copies<STAGES - 2>();
        __syncthreads();  // this stage is there for all, and the one before is used up
        start(s + STAGES - 1);
        u8* stage = memory + (s - first_stage) % STAGES * STAGE;
        if (ALIGN == 1) {
            realign<STAGE_ROWS, STRIP>(stage, x, s * STAGE_ROWS);
            __syncthreads();
        }
        add_stage(sums, stage, strip_warp, missing);
    }
    wait_copies<0>();
    __syncthreads();
    add_to(missing ? z_missing : z, (int*)memory + warp * 16 * SUMS_PITCH, sums,
           first_byte + strip_warp * SEGMENTS * 16, p, n_columns, group, per_group);
}
