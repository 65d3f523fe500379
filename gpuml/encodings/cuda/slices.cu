// A matrix V (n, l) as slices of signed bytes, in the order in which the tensor cores want them.
// Macros: IN (float or double), SLICES.
//
// V[k, c] is about scale_c * (d_0 256^(SLICES - 1) + ... + d_(SLICES - 1)) with digits d in
// [-128, 127], where scale_c = (largest |V[:, c]|) / LARGEST_WHOLE.

constexpr double LARGEST_WHOLE = 127.0 * (1ull << (8 * (SLICES - 1)));

// Largest magnitude in each column as the bits of a double, which order as they do; nan is larger.
extern "C" __global__ void column_peaks(const IN* v, i64 n_rows, int n_columns, u64* peaks) {
    const i64 thread = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    const i64 step = (i64)gridDim.x * blockDim.x / n_columns * n_columns;
    if (thread >= step) return;
    u64 peak = 0;
    for (i64 i = thread; i < n_rows * n_columns; i += step) {
        const u64 bits = __double_as_longlong(fabs((double)v[i]));
        peak = bits > peak ? bits : peak;
    }
    u64* total = peaks + thread % n_columns;
    if (peak > *(volatile u64*)total) atomicMax(total, peak);  // most threads find theirs too small
}

// The digit above `lower` others, as a byte. Taking a digit off and dividing by 256 is the same as
// rounding the quotient to the nearest, that is (whole + 128) >> 8; so many times at once.
__device__ __forceinline__ unsigned digit(i64 whole, int lower) {
    const u64 halves = 0x80808080ull & ((1ull << (8 * lower)) - 1);
    return (unsigned)((whole + (i64)halves) >> (8 * lower)) & 255;
}

// Which row of V is at `place` of a step. Forward (codes > 0): the columns of X in code i of 32
// neighbouring bytes. Backward (codes == 0): 32 rows, as ldmatrix transposes them.
__device__ __forceinline__ i64 row_at(i64 step, int place, int codes) {
    if (codes > 0) return (step / codes * 32 + place) * codes + step % codes;
    const int t = place % 16 / 4, j = place % 4;
    return step * 32 + place / 16 * 16 + j / 2 * 8 + t * 2 + j % 2;
}

// fragments[group, step, kind, tile of 8 columns, lane]: column lane / 4 of the tile, which is
// slice n % SLICES of column n / SLICES of the group. A warp takes a step.
extern "C" __global__ void slice(const IN* v, i64 n_rows, int n_columns, const double* peaks,
                                 uint2* fragments, i64 n_steps, int n_groups, int per_group,
                                 int n_tiles, int kind, int n_kinds, int codes) {
    const int lane = threadIdx.x % 32;
    const i64 warp = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    for (i64 s = warp; s < n_groups * n_steps; s += (i64)gridDim.x * blockDim.x / 32) {
        const int group = (int)(s / n_steps);
        i64 rows[8];  // at the places of this lane's 8 bytes
        for (int j = 0; j < 8; ++j)
            rows[j] = row_at(s % n_steps, j / 4 * 16 + lane % 4 * 4 + j % 4, codes);
        uint2* to = fragments + (s * n_kinds + kind) * n_tiles * 32 + lane;
        for (int tile = 0; tile < n_tiles; ++tile) {
            const int n = tile * 8 + lane / 4, column = group * per_group + n / SLICES;
            unsigned bytes[2] = {0, 0};
            if (n / SLICES < per_group && column < n_columns) {
                const double peak = peaks[column];
                // Below that its inverse is no number, and 0 is as good.
                const double inverse = peak > 1e-290 ? LARGEST_WHOLE / peak : 0.0;
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    const double value = rows[j] < n_rows ? v[rows[j] * n_columns + column] : IN(0);
                    const i64 whole = __double2ll_rn(value * inverse);
                    bytes[j / 4] |= digit(whole, SLICES - 1 - n % SLICES) << (j % 4 * 8);
                }
            }
            to[tile * 32] = {bytes[0], bytes[1]};
        }
    }
}
