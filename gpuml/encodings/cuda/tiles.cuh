// Tiles of packed rows and fragments of the other factor on their way through shared memory, and
// sums on their way out. Macros: WARPS, STAGES (tiles in shared memory), N_TILES (tiles of 8
// columns of the other factor), SLICES (bytes that make up one number of the other factor).

constexpr int THREADS = 32 * WARPS;
constexpr int KINDS = MISSING == 2 ? 2 : 1;  // products with values, products with missing ones

// 16 bytes more than the row: so ldmatrix reads eight rows without a bank conflict.
template <int BYTES>
constexpr int PITCH = BYTES + 16;

// Starts copying the PIECE bytes at place `at` of rows `row`, row + DOWN, ... of a tile.
template <int ROWS, int BYTES, int PIECE, int DOWN>
__device__ __forceinline__ void fetch_pieces(u8* tile, const Rows& x, i64 first_row, i64 first_byte,
                                             int row, int at) {
    const u8* source = x.row(first_row + row);
    const i64 left = x.n_rows - first_row;
    u8* to = tile + row * PITCH<BYTES> + at;
#pragma unroll 8
    for (int i = 0; i < ROWS; i += DOWN) {
        const i64 offset = first_byte + at - (ALIGN == 1 ? (i64)((u64)source & 15) : 0);
        const bool wanted = ROWS % DOWN == 0 || row + i < ROWS;
        const bool inside = row + i < left && offset < x.row_bytes;
        if (wanted) copy_async<PIECE>(to, inside ? source + offset : x.data, inside);
        source += DOWN * x.stride;
        to += DOWN * PITCH<BYTES>;
    }
}

// Starts copying bytes [first_byte, first_byte + BYTES) of ROWS rows. What lies beyond the matrix
// comes as zeros or as bytes of the next row: it meets zeros of the other factor, or its sums are
// not stored. A piece is read when its first byte belongs to the row, so it never leaves the
// (aligned) memory that the row is in. Rows at any address come in pieces of 16 aligned bytes,
// with up to 15 bytes of something else before them, see `realign`.
template <int ROWS, int BYTES>
__device__ __forceinline__ void fetch(u8* tile, const Rows& x, i64 first_row, i64 first_byte) {
    constexpr int PIECE = ALIGN == 1 ? 16 : ALIGN;
    constexpr int ACROSS = BYTES / PIECE, DOWN = THREADS / ACROSS;  // threads along a row, rows
    static_assert(THREADS % ACROSS == 0, "every thread keeps to one piece of its rows");
    fetch_pieces<ROWS, BYTES, PIECE, DOWN>(tile, x, first_row, first_byte,
                                           threadIdx.x / ACROSS, threadIdx.x % ACROSS * PIECE);
    if (ALIGN == 1)
        fetch_pieces<ROWS, BYTES, PIECE, THREADS>(tile, x, first_row, first_byte,
                                                  threadIdx.x, BYTES);
}

// Moves each row of a fetched tile to the start of its place. A row is moved by one warp, in order,
// and read before it is written.
template <int ROWS, int BYTES>
__device__ __forceinline__ void realign(u8* tile, const Rows& x, i64 first_row) {
    constexpr int WORDS = BYTES / 4;
    constexpr int ACROSS = WORDS < 32 ? WORDS : 32;
    constexpr int DOWN = 32 / ACROSS;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int row = warp * DOWN + lane / ACROSS; row < ROWS; row += WARPS * DOWN) {
        const unsigned before = (unsigned)((u64)x.row(first_row + row) & 15);
        unsigned* words = (unsigned*)(tile + row * PITCH<BYTES>);
        for (int i = lane % ACROSS; i < WORDS; i += ACROSS) {
            const unsigned low = words[i + before / 4], high = words[i + before / 4 + 1];
            __syncwarp();
            words[i] = __funnelshift_r(low, high, before % 4 * 8);
            __syncwarp();
        }
    }
}

// Starts copying fragments of the other factor; they lie in memory in the order of their use.
template <int BYTES>
__device__ __forceinline__ void fetch_fragments(u8* to, const u8* from) {
#pragma unroll 4
    for (int i = threadIdx.x * 16; i < BYTES; i += THREADS * 16)
        copy_async<16>(to + i, from + i, true);
}

constexpr int SUMS_PITCH = N_TILES * 8 + 4;  // of 16 rows of sums in shared memory
constexpr int MOST_COLUMNS = N_TILES * 8 / SLICES;  // of the other factor in one group

// Puts the sums of a warp's 16 x (8 N_TILES) tile where all its lanes can read them: row g of the
// tensor cores' layout becomes row `stretch * g`, row g + 8 becomes row `stretch * g + second`.
__device__ __forceinline__ void spread(int* sums, const int (&tile)[N_TILES][4], int stretch,
                                       int second, int shift) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int* top = sums + stretch * g * SUMS_PITCH + 2 * t;
    int* bottom = top + second * SUMS_PITCH;
#pragma unroll
    for (int n = 0; n < N_TILES; ++n) {
        top[8 * n] = tile[n][0] >> shift;
        top[8 * n + 1] = tile[n][1] >> shift;
        bottom[8 * n] = tile[n][2] >> shift;
        bottom[8 * n + 1] = tile[n][3] >> shift;
    }
}

// One sum from the sums of its slices, the highest first.
__device__ __forceinline__ i64 joined(const int* slices) {
    i64 whole = slices[0];
#pragma unroll
    for (int s = 1; s < SLICES; ++s) whole = whole * 256 + slices[s];
    return whole;
}
