"""CUDA kernels of k-means: labels of rows for many runs, and sums of rows by label.

Of each row it is known by how much its nearest centre is nearer than the next one, so that its
label stays while its own centre and the one that moved most of the others have moved by less
(`solvers._near_centres` does the same in CPU memory). A kernel computes distances of the other rows
alone, and one adds to the sums of each centre only rows with another label than before. Sums come
in an order that depends on the number of rows, and on nothing else: a run has the same bits
whichever others are beside it.
"""

from functools import cache
from typing import Any

# Rows of a block that labels. Its threads compare ROWS of them (half as many in float64) with
# CENTRES centres at a time, FEATURES features after the other.
TILE, THREADS, ROWS, CENTRES, FEATURES = 2048, 128, 2, 8, 8
# Blocks that sum rows by label have WARPS warps. Their lanes have a feature each, of SLICE centres.
WARPS, SLICE = 4, 32
# Labels that a thread reads at once.
READS = 8
# Sums of a centre besides those of features: of weights, of rows of some weight, of rows.
EXTRA = 3

_SOURCE = """
typedef long long i64;
#define ALL 0xffffffffu
#define LABEL_WARPS (THREADS / 32)
#define PADDING(S) (int)(128 / sizeof(S) / FEATURES)

__device__ constexpr float largest(float) { return 3.402823466e38f; }
__device__ constexpr double largest(double) { return 1.7976931348623157e308; }

// The rows of this block's tile whose label is not certain, by their numbers in the tile.
__device__ int uncertain(const int* labels, const float* until, const double* travelled, i64 size,
                         int* before, unsigned short* list) {
    __shared__ int found;
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    for (int at = threadIdx.x; at - lane < size; at += THREADS * READS) {
        int old[READS], count = 0;
        float end[READS];
        unsigned those[READS];
        #pragma unroll
        for (int u = 0; u < READS; ++u) {
            const int i = at + u * THREADS;
            old[u] = i < size ? labels[i] : 0, end[u] = i < size ? until[i] : 0.0f;
        }
        #pragma unroll
        for (int u = 0; u < READS; ++u) {
            const int i = at + u * THREADS;
            if (i < size) before[i] = old[u];
            const double gone = travelled[max(old[u], 0)];
            const bool is = old[u] < 0 || !(end[u] > __double2float_ru(gone));
            count += __popc(those[u] = __ballot_sync(ALL, i < size && is));
        }
        // In any order: each row is compared for itself.
        int place = lane == 0 ? atomicAdd(&found, count) : 0;
        place = __shfl_sync(ALL, place, 0);
        #pragma unroll
        for (int u = 0; u < READS; ++u) {
            if (those[u] >> lane & 1)
                list[place + __popc(those[u] & ((1u << lane) - 1))] = at + u * THREADS;
            place += __popc(those[u]);
        }
    }
    __syncthreads();
    return found;
}

// What rows are compared by: `coefs` (k, p) are -2 x the centres, `lengths` (k,) their squares, and
// what these come to is `scale` x as much in the units of bounds, but for `slack`.
template <class S> struct Compared { const S *X, *coefs, *lengths; double scale, slack; };

// Labels the `n_left` rows of a list and says for how long; returns how many are in doubt, which
// come first in the list then, unless the result is `final`.
template <class S, int OWN>
__device__ int nearest(Compared<S> by, int p, int k, const double* travelled, i64 first, bool final,
                       int n_left, unsigned short* list, char* shared, int* labels, float* until) {
    constexpr int BATCH = THREADS * OWN, STEP = THREADS / FEATURES, LOADS = BATCH / STEP;
    constexpr int CENTRE_LOADS = (CENTRES + STEP - 1) / STEP;
    __shared__ i64 starts[BATCH];
    __shared__ __align__(16) S of_centres[FEATURES][CENTRES];
    __shared__ int n_doubtful;
    // Lanes that write the same features write to different banks.
    auto of_rows = reinterpret_cast<S(*)[BATCH + PADDING(S)]>(shared);
    const int t = threadIdx.x, f = t % FEATURES, j0 = t / FEATURES;
    S ahead[LOADS], centres_ahead[CENTRE_LOADS];
    // Numbers that are read while those before them are worked on.
    auto fetch = [&](int c0, int f0) {
        #pragma unroll
        for (int l = 0; l < LOADS; ++l)
            ahead[l] = f0 + f < p ? by.X[starts[j0 + l * STEP] + f0 + f] : S(0);
        #pragma unroll
        for (int l = 0; l < CENTRE_LOADS; ++l) {
            const int c = j0 + l * STEP;
            const bool there = c < CENTRES && c0 + c < k && f0 + f < p;
            centres_ahead[l] = there ? by.coefs[(i64)(c0 + c) * p + f0 + f] : S(0);
        }
    };
    if (t == 0) n_doubtful = 0;
    __syncthreads();
    for (int at = 0; at < n_left; at += BATCH) {
        const int count = min(BATCH, n_left - at);
        for (int j = t; j < BATCH; j += THREADS)
            starts[j] = (first + list[at + min(j, count - 1)]) * p;
        S square[OWN], least[OWN], next[OWN];
        int label[OWN];
        #pragma unroll
        for (int u = 0; u < OWN; ++u)
            square[u] = 0, least[u] = next[u] = largest(S(0)), label[u] = 0;
        __syncthreads();
        fetch(0, 0);
        for (int c0 = 0; c0 < k; c0 += CENTRES) {
            S away[OWN][CENTRES];
            #pragma unroll
            for (int c = 0; c < CENTRES; ++c)
                away[0][c] = c0 + c < k ? by.lengths[c0 + c] : largest(S(0));
            #pragma unroll
            for (int u = 1; u < OWN; ++u)
                #pragma unroll
                for (int c = 0; c < CENTRES; ++c) away[u][c] = away[0][c];
            for (int f0 = 0; f0 < p; f0 += FEATURES) {
                __syncthreads();
                #pragma unroll
                for (int l = 0; l < LOADS; ++l) of_rows[f][j0 + l * STEP] = ahead[l];
                #pragma unroll
                for (int l = 0; l < CENTRE_LOADS; ++l)
                    if (j0 + l * STEP < CENTRES) of_centres[f][j0 + l * STEP] = centres_ahead[l];
                __syncthreads();
                if (f0 + FEATURES < p) fetch(c0, f0 + FEATURES);
                else if (c0 + CENTRES < k) fetch(c0 + CENTRES, 0);
                #pragma unroll
                for (int g = 0; g < FEATURES; ++g) {
                    S x[OWN];
                    #pragma unroll
                    for (int u = 0; u < OWN; ++u) {
                        x[u] = of_rows[g][t + u * THREADS];
                        if (c0 == 0) square[u] = fma(x[u], x[u], square[u]);
                    }
                    #pragma unroll
                    for (int c = 0; c < CENTRES; ++c) {
                        const S coef = of_centres[g][c];
                        #pragma unroll
                        for (int u = 0; u < OWN; ++u) away[u][c] = fma(coef, x[u], away[u][c]);
                    }
                }
            }
            #pragma unroll
            for (int u = 0; u < OWN; ++u)
                #pragma unroll
                for (int c = 0; c < CENTRES; ++c) {
                    const S value = away[u][c];
                    if (value < least[u])
                        next[u] = least[u], least[u] = value, label[u] = c0 + c;
                    else if (value < next[u])
                        next[u] = value;
                }
        }
        unsigned short row[OWN];
        #pragma unroll
        for (int u = 0; u < OWN; ++u)
            row[u] = t + u * THREADS < count ? list[at + t + u * THREADS] : 0;
        __syncthreads();
        #pragma unroll
        for (int u = 0; u < OWN; ++u) {
            if (t + u * THREADS >= count) break;
            const double low = ((double)square[u] + least[u]) * by.scale;
            const double high = ((double)square[u] + next[u]) * by.scale;
            const double near = sqrt(fmax(low, 0.0) + by.slack);
            const double gap = sqrt(fmax(high - by.slack, 0.0)) - near;
            if (final || gap > 0) {
                labels[row[u]] = label[u];
                until[row[u]] = __double2float_rd(gap + travelled[label[u]]);
            } else {
                list[atomicAdd(&n_doubtful, 1)] = row[u];
            }
        }
        __syncthreads();
    }
    return n_doubtful;
}

// The nearest centre of each row (n, p) of each run that is `alive`. `coefs` (runs, k, p) are -2 x
// the centres, `lengths` (runs, k) their squares. Lengths of rows and centres are multiplied by
// `unit` in `until` (runs, n) and `travelled` (runs, k), and in what is `single`, if given: then
// products are float32, and others only of rows that these leave in doubt.
extern "C" __global__ void __launch_bounds__(THREADS)
label(const T* X, const float* single_X, i64 n, int p, int k, int n_alive, const int* alive,
      const int* sizes, const T* coefs, const T* lengths, const float* single_coefs,
      const float* single_lengths, const double* slacks, double unit, const double* travelled,
      int* before, int* labels, float* until) {
    __shared__ unsigned short list[TILE];
    __shared__ __align__(16) char shared[FEATURES * (THREADS * ROWS * 4 + 16)];
    // Blocks of one tile after the other: they read the same rows.
    const i64 run = alive[blockIdx.x % n_alive], first = blockIdx.x / n_alive * (i64)TILE;
    const i64 size = n - first < TILE ? n - first : TILE;
    const int own_k = sizes[run];
    before += run * n + first, labels += run * n + first, until += run * n + first;
    travelled += run * k;
    int n_left = uncertain(labels, until, travelled, size, before, list);
    if (single_X) {
        const Compared<float> by = {single_X, single_coefs + run * k * p, single_lengths + run * k,
                                    1.0, slacks[2 * run]};
        n_left = nearest<float, ROWS>(by, p, own_k, travelled, first, false, n_left, list, shared,
                                   labels, until);
    }
    const Compared<T> by = {X, coefs + run * k * p, lengths + run * k, unit * unit,
                            slacks[2 * run + 1]};
    nearest<T, ROWS * 4 / sizeof(T)>(by, p, own_k, travelled, first, true, n_left, list, shared,
                                       labels, until);
}

// Sums by label of rows with another label than before, of each tile: `parts` (runs, tiles, k, p +
// EXTRA). How many rows these are is added to `changed` (runs,). `fresh`: sums of all rows.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
count(const T* X, const T* weight, i64 n, int p, int k, const int* alive, const int* before,
      const int* labels, int fresh, i64 tile, double* parts, int* changed) {
    __shared__ double sums[WARPS][SLICE][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int n_slices = (k + SLICE - 1) / SLICE, width = p + EXTRA;
    const int slice = blockIdx.z % n_slices * SLICE, f = blockIdx.z / n_slices * 32 + lane;
    const int n_centres = min(SLICE, k - slice);
    const i64 run = alive[blockIdx.x], begin = blockIdx.y * tile;
    const i64 end = begin + tile < n ? begin + tile : n;
    before += run * n, labels += run * n;
    for (int c = 0; c < n_centres; ++c) sums[warp][c][lane] = 0;
    int n_moved = 0, next_now[READS], next_then[READS];
    auto fetch = [&](i64 at) {
        #pragma unroll
        for (int r = 0; r < READS; ++r) {
            const i64 i = at + 32 * r + lane;
            next_now[r] = i < end ? labels[i] : -1, next_then[r] = i < end ? before[i] : -1;
        }
    };
    // Sums are those of rows in their order, of each warp.
    auto add = [&](i64 at, int into, int out_of) {
        const bool is_in = into >= 0 && into < n_centres;
        const bool is_out = out_of >= 0 && out_of < n_centres;
        unsigned left = __ballot_sync(ALL, into != out_of && (is_in || is_out));
        while (left) {
            // Some rows at a time, which are read side by side.
            int row[4];
            double value[4];
            #pragma unroll
            for (int u = 0; u < 4; ++u) {
                row[u] = __ffs(left) - 1;
                left &= left - 1;
                if (row[u] < 0) continue;
                const i64 i = at + row[u];
                const double w = weight ? (double)weight[i] : 1.0;
                value[u] = f < p ? w * X[i * p + f] : f == p ? w : f == p + 1 ? w > 0 : 1.0;
            }
            #pragma unroll
            for (int u = 0; u < 4; ++u) {
                if (row[u] < 0) break;
                const int to = __shfl_sync(ALL, into, row[u]);
                const int from = __shfl_sync(ALL, out_of, row[u]);
                if (to >= 0 && to < n_centres) sums[warp][to][lane] += value[u];
                if (from >= 0 && from < n_centres) sums[warp][from][lane] -= value[u];
            }
        }
    };
    const i64 step = 32 * READS * WARPS;
    fetch(begin + 32 * READS * warp);
    for (i64 at = begin + 32 * READS * warp; at < end; at += step) {
        int now[READS], then[READS];
        #pragma unroll
        for (int r = 0; r < READS; ++r) now[r] = next_now[r], then[r] = next_then[r];
        fetch(at + step);
        #pragma unroll
        for (int r = 0; r < READS; ++r) {
            n_moved += now[r] != then[r];
            add(at + 32 * r, now[r] - slice, fresh ? -1 : then[r] - slice);
        }
    }
    if (blockIdx.z == 0) {
        n_moved = __reduce_add_sync(ALL, n_moved);
        if (lane == 0 && n_moved) atomicAdd(changed + run, n_moved);
    }
    __syncthreads();
    if (f < width) {
        parts += ((blockIdx.x * (i64)gridDim.y + blockIdx.y) * k + slice) * width + f;
        for (int c = warp; c < n_centres; c += WARPS) {
            double sum = 0;
            for (int w = 0; w < WARPS; ++w) sum += sums[w][c][lane];
            parts[(i64)c * width] = sum;
        }
    }
}

// Adds the parts of all tiles to the sums (runs, k, p + EXTRA) of the runs that are `alive`.
extern "C" __global__ void add_parts(const double* parts, int n_tiles, i64 n_sums, const int* alive,
                                     int fresh, double* sums) {
    const i64 j = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (j >= n_sums) return;
    const i64 run = alive[blockIdx.y];
    parts += blockIdx.y * (i64)n_tiles * n_sums + j;
    double sum = 0;
    for (int tile = 0; tile < n_tiles; ++tile) sum += parts[tile * n_sums];
    sums[run * n_sums + j] = fresh ? sum : sums[run * n_sums + j] + sum;
}

// Moves centres (runs, k, p) to the means of their rows, unless these are `given`, and says of each
// run in `told` (runs, 3): rows that changed, squared moves together, centres without rows.
extern "C" __global__ void __launch_bounds__(THREADS)
move(int p, int k, const int* alive, const int* sizes, const double* sums, int given,
     double longest, double rounding, double unit, const T* centres, T* moved, T* coefs,
     T* lengths, float* single_coefs, float* single_lengths, double* slacks,
     const double* travelled, double* gone, double* steps, const int* changed, double* told) {
    __shared__ int n_empty;
    __shared__ double others, most;
    __shared__ int fastest;
    const i64 run = alive[blockIdx.x];
    const int own_k = sizes[run], lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    centres += run * k * p, moved += run * k * p, coefs += run * k * p, lengths += run * k;
    single_coefs += run * k * p, single_lengths += run * k;
    travelled += run * k, gone += run * k, steps += run * k, sums += run * k * (p + EXTRA);
    if (threadIdx.x == 0) n_empty = 0;
    __syncthreads();
    for (int c = warp; c < own_k; c += LABEL_WARPS) {
        const double* sum = sums + (i64)c * (p + EXTRA);
        const bool is_empty = sum[p + 1] <= 0;
        double step = 0, length = 0;
        for (int f = lane; f < p; f += 32) {
            const i64 at = (i64)c * p + f;
            const T old = centres[at];
            const T now = given ? moved[at] : is_empty ? old : T(sum[f] / sum[p]);
            moved[at] = now, coefs[at] = T(-2) * now, single_coefs[at] = -2 * (now * unit);
            const double away = (double)now - old;
            step += away * away, length += (double)now * now;
        }
        for (int other = 16; other; other /= 2) {
            step += __shfl_xor_sync(ALL, step, other);
            length += __shfl_xor_sync(ALL, length, other);
        }
        if (lane == 0) {
            steps[c] = step, lengths[c] = T(length), single_lengths[c] = length * unit * unit;
            if (is_empty) atomicAdd(&n_empty, 1);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        double total = 0, longer = longest;
        most = others = 0, fastest = -1;
        for (int c = 0; c < own_k; ++c) {
            total += steps[c], longer = fmax(longer, (double)lengths[c]);
            if (steps[c] > most) others = most, most = steps[c], fastest = c;
            else others = fmax(others, steps[c]);
        }
        // In the units of bounds, of float32 and of T.
        slacks[2 * run] = rounding * FLT_EPS * longer * unit * unit;
        slacks[2 * run + 1] = rounding * T_EPS * longer * unit * unit;
        told[run * 3] = changed[run], told[run * 3 + 1] = total, told[run * 3 + 2] = n_empty;
    }
    __syncthreads();
    for (int c = threadIdx.x; c < own_k; c += THREADS)
        gone[c] = travelled[c] + (sqrt(steps[c]) + sqrt(c == fastest ? others : most)) * unit;
}

// Weighted squared distances of rows from their centres, of each tile and lane: (runs, tiles, 32
// WARPS).
extern "C" __global__ void __launch_bounds__(32 * WARPS)
costs(const T* X, const T* weight, i64 n, int p, int k, const T* centres, const int* labels,
      i64 tile, double* parts) {
    const int lane = threadIdx.x % 32;
    const i64 run = blockIdx.x, begin = blockIdx.y * tile;
    const i64 end = begin + tile < n ? begin + tile : n;
    double cost = 0;
    labels += run * n, centres += run * k * p;
    for (i64 at = begin + threadIdx.x / 32 * 32; at < end; at += 32 * WARPS) {
        // Lanes beyond the end read the last row, which counts nothing there.
        const i64 own = at + lane < end ? at + lane : end - 1;
        const int own_label = labels[own];
        const double own_weight = at + lane < end ? (weight ? (double)weight[own] : 1.0) : 0.0;
        for (int j = 0; j < 32; j += 4) {
            double square[4] = {0, 0, 0, 0};
            const T *row[4], *centre[4];
            #pragma unroll
            for (int u = 0; u < 4; ++u) {
                row[u] = X + (at + j + u < end ? at + j + u : end - 1) * p;
                centre[u] = centres + (i64)__shfl_sync(ALL, own_label, j + u) * p;
            }
            for (int f = lane; f < p; f += 32)
                #pragma unroll
                for (int u = 0; u < 4; ++u) {
                    const double away = (double)row[u][f] - centre[u][f];
                    square[u] += away * away;
                }
            #pragma unroll
            for (int u = 0; u < 4; ++u) cost += __shfl_sync(ALL, own_weight, j + u) * square[u];
        }
    }
    parts[(run * gridDim.y + blockIdx.y) * (32 * WARPS) + threadIdx.x] = cost;
}
"""
# Rounding of float32 and float64.
_EPS = {"float32": "1.1920929e-7", "float64": "2.220446049250313e-16"}


@cache
def source(dtype: str) -> str:
    """The kernels of rows of a dtype."""
    kind = {"float32": "float", "float64": "double"}[dtype]
    names = ("TILE", "THREADS", "ROWS", "CENTRES", "FEATURES", "READS")
    values = {each: globals()[each] for each in names}
    values |= {"WARPS": WARPS, "SLICE": SLICE, "EXTRA": EXTRA}
    values |= {"FLT_EPS": _EPS["float32"], "T_EPS": _EPS[dtype]}
    defined = "".join(f"#define {name} {value}\n" for name, value in values.items())
    return f"typedef {kind} T;\n{defined}{_SOURCE}"


@cache
def kernels(dtype: str) -> Any:
    """What has a function for each of them: `label`, `count`, `add_parts`, `move`, `costs`."""
    import cupy

    return cupy.RawModule(code=source(dtype), options=("--std=c++17",))
