// Y = X W for packed codes X (n, p) and W (p, l) in slices of signed bytes; with MISSING == 2 plus
// M W_missing. Exact in integers, so the result does not depend on the order of the sums.
//
// A block takes WARPS * M_TILES * 16 rows and a group of columns of W, and walks along the columns
// of X, STAGE_BYTES bytes of each row at a time. ldmatrix gives a lane a word of a row; a shift and
// a mask make its codes i, i + CODES, ... bytes: four neighbours along the sum of one multiply-add.
// So step (i, half) of the sum has the codes i of 32 neighbouring bytes, and the fragments of W
// are laid out to match (slices.cu).

constexpr int BLOCK_ROWS = WARPS * M_TILES * 16;
constexpr int TILE = BLOCK_ROWS * PITCH<STAGE_BYTES>;
constexpr int STEPS = STAGE_BYTES / 32 * CODES;
constexpr int STEP_FRAGMENTS = KINDS * N_TILES * 32;  // of 8 bytes
constexpr int STAGE_FRAGMENTS = STEPS * STEP_FRAGMENTS * 8;
constexpr int STAGE = TILE + STAGE_FRAGMENTS;

typedef int Sums[M_TILES][N_TILES][4];

// Adds the products of codes `i` of `words` with one step's fragments.
__device__ __forceinline__ void add_step(Sums& sums, const unsigned (&words)[M_TILES][4], int i,
                                         const uint2* fragments) {
    unsigned a[M_TILES][4];
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
        for (int r = 0; r < 4; ++r) a[m][r] = (words[m][r] >> (BITS * i)) & FIRST_CODES;
    }
#pragma unroll
    for (int n = 0; n < N_TILES; ++n) {
        const uint2 b = fragments[n * 32];
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) multiply_add(sums[m][n], a[m], b);
    }
}

__device__ __forceinline__ void add_stage(Sums& sums, const u8* stage) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp * M_TILES * 16 + lane % 16;
    const u8* rows = stage + row * PITCH<STAGE_BYTES> + lane / 16 * 16;
    const uint2* fragments = (const uint2*)(stage + TILE) + lane;
#pragma unroll 1
    for (int half = 0; half < STAGE_BYTES / 32; ++half) {
        unsigned words[M_TILES][4], missing[M_TILES][4];
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
            load_matrices(words[m], rows + m * 16 * PITCH<STAGE_BYTES> + half * 32);
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                missing[m][r] = missing_codes(words[m][r]);
                words[m][r] = present_codes(words[m][r]);
            }
        }
#pragma unroll
        for (int i = 0; i < CODES; ++i) {
            const uint2* step = fragments + (half * CODES + i) * STEP_FRAGMENTS;
            add_step(sums, words, i, step);
            if (KINDS == 2) add_step(sums, missing, i, step + N_TILES * 32);
        }
    }
}

struct Result {
    OUT* y;  // (n_rows, n_columns), C order
    const double* scales;
    int n_columns, group, per_group, add;
};

__device__ __forceinline__ void store(int* memory, const Sums& sums, const Rows& x, i64 first_row,
                                      const Result& result) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first = result.group * result.per_group;
    const int width = min(result.per_group, result.n_columns - first);
    int* shared = memory + warp * 16 * SUMS_PITCH;
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
        __syncwarp();
        spread(shared, sums[m], 1, 8, 0);
        __syncwarp();
        for (int e = lane; e < 16 * MOST_COLUMNS; e += 32) {
            const int r = e / MOST_COLUMNS, c = e % MOST_COLUMNS;
            const i64 row = first_row + (warp * M_TILES + m) * 16 + r;
            if (row >= x.n_rows || c >= width) continue;
            const i64 whole = joined(shared + r * SUMS_PITCH + c * SLICES);
            const double value = whole * result.scales[first + c];
            OUT* y = result.y + row * result.n_columns + first + c;
            *y = (OUT)(result.add ? *y + value : value);
        }
    }
}

// Sums over stages [first_stage, last_stage) of all_stages. Neighbouring blocks take the groups of
// columns of the same rows, which they find in the cache.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
forward(const u8* data, i64 n_rows, i64 stride, i64 row_bytes, const u8* fragments, i64 all_stages,
        i64 first_stage, i64 last_stage, const double* scales, OUT* y, int n_columns, int n_groups,
        int per_group, int add) {
    extern __shared__ __align__(16) u8 memory[];
    const Rows x = {data, n_rows, stride, row_bytes};
    const int group = blockIdx.x % n_groups;
    const i64 first_row = (i64)(blockIdx.x / n_groups) * BLOCK_ROWS;
    fragments += group * all_stages * STAGE_FRAGMENTS;
    auto start = [&](i64 s) {
        u8* stage = memory + (s - first_stage) % STAGES * STAGE;
        if (s < last_stage) {
            fetch<BLOCK_ROWS, STAGE_BYTES>(stage, x, first_row, s * STAGE_BYTES);
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
            realign<BLOCK_ROWS, STAGE_BYTES>(stage, x, first_row);
            __syncthreads();
        }
        add_stage(sums, stage);
    }
    wait_copies<0>();
    __syncthreads();
    store((int*)memory, sums, x, first_row, {y, scales, n_columns, group, per_group, add});
}
