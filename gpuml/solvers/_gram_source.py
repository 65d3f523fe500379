"""CUDA source of sums over rows: of their columns, and of the products of these."""

# Rows of any dtype are read as they are. A block of threads has some of them on their way to its
# shared memory while it converts others there and multiplies those in its tensor cores: no copy of
# the rows is written down, and only half of the symmetric matrix is computed.
SOURCE = """
typedef long long i64;

// `count` rows of an atom: number first, first + step, ..., or those listed there. A part has
// `rows` of them, and the first part is number `part`.
struct Segment { i64 atom, first, step, count, listed, rows, part; };

__device__ inline i64 row_at(const Segment& s, const i64* numbers, i64 i) {
    const i64 row = s.first + i * s.step;
    return s.listed ? numbers[row] : row;
}

// Sums of w [x, y, 1], by atom (a segment each): a block of them, a thread for each column.
template <class X, class Y, class W>
__global__ void sums(const X* x, i64 x_row, const Y* y, i64 y_row, const W* weight,
                     const i64* numbers, int p, int q, const Segment* segments, int n_segments,
                     double* total) {
    const i64 atom = blockIdx.x;
    const int j = blockIdx.y * blockDim.x + threadIdx.x;
    if (j >= q) return;
    double sum = 0;
    for (int k = 0; k < n_segments; ++k) {
        const Segment s = segments[k];
        if (s.atom != atom) continue;
        double own = 0;
        #pragma unroll 8
        for (i64 i = 0; i < s.count; ++i) {
            const i64 row = row_at(s, numbers, i);
            const double value = j < p ? (double)x[row * x_row + j]
                : j < q - 1 ? (double)y[row * y_row + j - p] : 1.0;
            own += weight ? (double)weight[row] * value : value;
        }
        // A row stands for all those between it and the next one.
        sum += own * (double)s.rows;
    }
    total[atom * q + j] = sum;
}

__device__ inline void multiply(double* c, const double* a, const double* b) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3},"
        "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
          "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
    #pragma unroll
    for (int k = 0; k < 4; ++k)
        #pragma unroll
        for (int half = 0; half < 2; ++half)
            asm volatile(
                "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                : "+d"(c[2 * half]), "+d"(c[2 * half + 1]) : "d"(a[2 * k + half]), "d"(b[k]));
#endif
}

// Columns that a block reads: a panel, and half of one beside it. In a tile, four more: lanes that
// read different rows read from different banks.
#define GROUPS ((STRIPS + 1) / 2)
#define PANEL (32 * GROUPS)
#define COLUMNS (PANEL + HALF)
#define WIDTH (COLUMNS + 4)
#define WARPS (THREADS / 32)
#define OWN (DEPTH / WARPS)
#define ALL 0xffffffffu

// Which pieces of 16 x 8 of the matrix a warp has: those of two strips of 16 rows, a long one and
// a short one on the diagonal.
template <bool DIAGONAL, int WARP> struct Pieces {
    static constexpr int first = DIAGONAL ? STRIPS - 1 - WARP : 2 * WARP;
    static constexpr int second = DIAGONAL ? WARP - 2 * WARPS + STRIPS : 2 * WARP + 1;
    static constexpr int n_first = !DIAGONAL ? HALF / 8 : first < 0 ? 0 : 2 * first + 2;
    static constexpr int n_second = !DIAGONAL ? HALF / 8
        : second < 0 || second >= first ? 0 : 2 * second + 2;
};
#define MOST_PIECES (STRIPS < 8 ? 2 * STRIPS : 18)

template <class Own> __device__ inline void add(double (*c)[4], const double* rows,
                                                const double* columns) {
    double a[2][8];
    #pragma unroll
    for (int k = 0; k < 8; ++k) {
        const double* from = rows + k / 2 * 4 * WIDTH + k % 2 * 8;
        if (Own::n_first) a[0][k] = from[Own::first * 16];
        if (Own::n_second) a[1][k] = from[Own::second * 16];
    }
    // Both strips have the first pieces, but not all of them.
    constexpr int most = Own::n_first > Own::n_second ? Own::n_first : Own::n_second;
    #pragma unroll
    for (int t = 0; t < most; ++t) {
        double b[4];
        #pragma unroll
        for (int k = 0; k < 4; ++k) b[k] = columns[k * 4 * WIDTH + t * 8];
        if (t < Own::n_first) multiply(c[t], a[0], b);
        if (t < Own::n_second) multiply(c[Own::n_first + t], a[1], b);
    }
}

template <class Own> __device__ inline void write(double (*c)[4], int row0, int column0, int q,
                                                  double* part) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int t = 0; t < Own::n_first + Own::n_second; ++t) {
        const int strip = t < Own::n_first ? Own::first : Own::second;
        const int piece = t < Own::n_first ? t : t - Own::n_first;
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int i = row0 + strip * 16 + lane / 4 + k / 2 * 8;
            const int j = column0 + piece * 8 + lane % 4 * 2 + k % 2;
            if (i < q && j <= i) part[(i64)i * q + j] = c[t][k];
        }
    }
}

template <int SIZE> __device__ inline void copy_if(bool wanted, void* to, const void* from) {
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile(
        "{ .reg .pred wanted; setp.ne.s32 wanted, %3, 0;"
        "@wanted cp.async.ca.shared.global [%0], [%1], %2; }"
        :: "r"(at), "l"(from), "n"(SIZE), "r"((int)wanted));
}

// What a block has read and not yet converted, each thread for itself.
template <class X, class Y, class W> struct Stage {
    X x[DEPTH][COLUMNS];
    Y y[DEPTH][32];
    W weight[DEPTH];
};

template <bool DIAGONAL, class X, class Y, class W>
__device__ inline void one_part(const X* x, i64 x_row, const Y* y, i64 y_row, const W* weight,
                                const i64* numbers, int p, int q, const Segment& s,
                                const double* shifts, int row0, int column0, double* shared,
                                double* shift_of, double* part) {
    constexpr int groups = DIAGONAL ? GROUPS : COLUMNS / 32;
    auto stages = reinterpret_cast<Stage<X, Y, W>*>(shared + 2 * DEPTH * WIDTH);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const i64 begin = (blockIdx.y - s.part) * s.rows, end = min(begin + s.rows, s.count);

    // Column number g of this lane, in groups of 32: those of the panel come first.
    auto column = [&](int g) { return g * 32 + lane + (g < GROUPS ? row0 : column0 - PANEL); };
    #pragma unroll
    for (int g = 0; g < groups; ++g) {
        const int c = column(g);
        if (warp == 0) shift_of[g * 32 + lane] = c < q - 1 ? shifts[s.atom * (q - 1) + c] : 0.0;
    }
    // Columns behind the last stay zero.
    for (int j = threadIdx.x; j < 2 * DEPTH * WIDTH; j += THREADS) shared[j] = 0;
    __syncthreads();

    // The column behind the features that this lane has, and where it is in a tile, if it is there.
    const int behind = p + lane;
    const bool in_panel = behind >= row0 && behind < min(q, row0 + PANEL);
    const bool in_half = !DIAGONAL && behind >= column0 && behind < min(q, column0 + HALF);
    const int behind_at = in_panel ? behind - row0 : behind - column0 + PANEL;
    const bool has_behind = in_panel || in_half, is_target = has_behind && behind < q - 1;
    // Lane r of a warp has the number of its row r.
    auto number = [&](i64 at) {
        const i64 i = at + warp * OWN + lane % OWN;
        return i < end ? row_at(s, numbers, i) : i64(-1);
    };
    i64 mine = number(begin);
    auto fetch = [&](i64 at, int stage) {
        Stage<X, Y, W>& to = stages[stage];
        #pragma unroll
        for (int r = 0; r < OWN; ++r) {
            const i64 row = __shfl_sync(ALL, mine, r);
            const int own = warp * OWN + r;
            const X* from = x + row * x_row;
            #pragma unroll
            for (int g = 0; g < groups; ++g)
                copy_if<sizeof(X)>(row >= 0 && column(g) < p, &to.x[own][g * 32 + lane],
                                   from + column(g));
            copy_if<sizeof(Y)>(row >= 0 && is_target, &to.y[own][lane], y + row * y_row + lane);
            if (WEIGHTED)
                copy_if<sizeof(W)>(row >= 0 && lane == r, &to.weight[own], weight + row);
        }
        asm volatile("cp.async.commit_group;");
        mine = number(at + DEPTH);
    };
    auto put = [&](double* tile, i64 at, const Stage<X, Y, W>& from) {
        const i64 left = end - at - warp * OWN;
        double root[OWN], own_root = 1.0;
        if (WEIGHTED && lane < OWN && lane < left)
            own_root = sqrt((double)from.weight[warp * OWN + lane]);
        #pragma unroll
        for (int r = 0; r < OWN; ++r) root[r] = WEIGHTED ? __shfl_sync(ALL, own_root, r) : 1.0;
        // Stores may be to what is read later, for all that a compiler knows: reads come first.
        X ahead[2][OWN];
        auto read = [&](int g) {
            #pragma unroll
            for (int r = 0; r < OWN; ++r) ahead[g % 2][r] = from.x[warp * OWN + r][g * 32 + lane];
        };
        read(0);
        #pragma unroll
        for (int g = 0; g < groups; ++g) {
            const double shift = shift_of[g * 32 + lane];
            double away[OWN];
            if (g + 1 < groups) read(g + 1);
            #pragma unroll
            for (int r = 0; r < OWN; ++r) {
                away[r] = (double)ahead[g % 2][r] - shift;
                if (WEIGHTED) away[r] *= root[r];
                if (r >= left) away[r] = 0.0;
            }
            if (column(g) >= p) continue;
            #pragma unroll
            for (int r = 0; r < OWN; ++r) tile[(warp * OWN + r) * WIDTH + g * 32 + lane] = away[r];
        }
        if (has_behind) {
            const double shift = shift_of[behind_at];
            double away[OWN];
            #pragma unroll
            for (int r = 0; r < OWN; ++r) {
                away[r] = is_target ? (double)from.y[warp * OWN + r][lane] - shift : 1.0;
                away[r] = r < left ? away[r] * root[r] : 0.0;
            }
            #pragma unroll
            for (int r = 0; r < OWN; ++r) tile[(warp * OWN + r) * WIDTH + behind_at] = away[r];
        }
    };

    double c[MOST_PIECES][4] = {};
    #pragma unroll
    for (int k = 0; k < STAGES - 1; ++k) fetch(begin + k * DEPTH, k);
    int stage = 0, parity = 0;
    for (i64 at = begin; at < end; at += DEPTH) {
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2));
        double* tile = shared + parity * DEPTH * WIDTH;
        put(tile, at, stages[stage]);
        __syncthreads();
        fetch(at + (STAGES - 1) * DEPTH, stage ? stage - 1 : STAGES - 1);
        #pragma unroll 1
        for (int k = 0; k < DEPTH; k += 16) {
            const double* rows = tile + (k + lane % 4) * WIDTH + lane / 4;
            const double* columns = rows + (DIAGONAL ? 0 : PANEL);
            if (warp == 0) add<Pieces<DIAGONAL, 0>>(c, rows, columns);
            else if (warp == 1) add<Pieces<DIAGONAL, 1>>(c, rows, columns);
            else if (warp == 2) add<Pieces<DIAGONAL, 2>>(c, rows, columns);
            else add<Pieces<DIAGONAL, 3>>(c, rows, columns);
        }
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        parity ^= 1;
    }
    if (warp == 0) write<Pieces<DIAGONAL, 0>>(c, row0, column0, q, part);
    else if (warp == 1) write<Pieces<DIAGONAL, 1>>(c, row0, column0, q, part);
    else if (warp == 2) write<Pieces<DIAGONAL, 2>>(c, row0, column0, q, part);
    else write<Pieces<DIAGONAL, 3>>(c, row0, column0, q, part);
}

// One part of sums w z z' of z = [x - c, y - d, 1]: rows of a panel of the matrix, and columns of
// the same one up to the diagonal, or of half of one before it.
template <class X, class Y, class W>
__global__ void __launch_bounds__(THREADS, 2)
products(const X* x, i64 x_row, const Y* y, i64 y_row, const W* weight, const i64* numbers,
         int p, int q, const Segment* segments, int n_segments, const double* shifts,
         double* parts) {
    extern __shared__ double shared[];
    __shared__ double shift_of[COLUMNS];
    // Panel I has 2 I halves before it, so that it begins with part I^2.
    int panel = (int)sqrtf((float)blockIdx.x);
    while (panel * panel > (int)blockIdx.x) --panel;
    while ((panel + 1) * (panel + 1) <= (int)blockIdx.x) ++panel;
    const int half = blockIdx.x - panel * panel, row0 = panel * PANEL;
    int low = 0;
    for (int high = n_segments; high - low > 1;) {
        const int middle = (low + high) / 2;
        if (segments[middle].part <= blockIdx.y) low = middle; else high = middle;
    }
    double* part = parts + (i64)blockIdx.y * q * q;
#if HALF
    if (half < 2 * panel)
        one_part<false>(x, x_row, y, y_row, weight, numbers, p, q, segments[low], shifts, row0,
                        half * HALF, shared, shift_of, part);
    else
#endif
        one_part<true>(x, x_row, y, y_row, weight, numbers, p, q, segments[low], shifts, row0,
                       row0, shared, shift_of, part);
}

// Adds up the parts of each atom, ends[a] to ends[a + 1], and writes both halves.
extern "C" __global__ void add_parts(const double* parts, const i64* ends, int q, double* total) {
    const i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x, size = (i64)q * q;
    if (at >= size) return;
    const i64 i = at / q, j = at % q, atom = blockIdx.y;
    if (j > i) return;
    double sum = 0;
    #pragma unroll 8
    for (i64 k = ends[atom]; k < ends[atom + 1]; ++k) sum += parts[k * size + at];
    total[atom * size + at] = sum;
    total[atom * size + j * q + i] = sum;
}
"""
