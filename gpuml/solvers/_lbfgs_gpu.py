"""Steps of `solvers.lbfgs` on a GPU: what a pass decides and moves is one kernel.

A model has a block of threads. They form the inner products that the step is judged by, one of them
decides and runs the recursion of two loops, and all of them move the vectors. So a pass takes one
launch for any number of models, besides those of the gradient, and one look: at a few numbers of
each model. What is computed, and in which order, is as in `lbfgs` and `_secants`.
"""

from functools import cache
from typing import Any

import numpy as np

from gpuml._arrays import Array, to_host
from gpuml.solvers import _step_rules as rules
from gpuml.solvers._secants import EPS, MEMORY

THREADS = 256
# Numbers of a model, in the order of the kernel's enum.
STEP, SLOPE, VIOLATION, BEST, WAITED, ITERATIONS, DONE, STALLED, FORESEEN, N_NUMBERS = range(10)
# What there is of each model besides W, on the GPU.
ARRAYS = ("W", "trials", "gradients", "bases", "directions", "tables", "aheads", "numbers")

_SOURCE = """
#define ROWS (2 * MEMORY + 1)
#define COLS (MEMORY + 1)
// Of a trial: its products with the basis, then these.
#define SIZE ROWS
#define SLOPE_THERE (ROWS + 1)
#define CURVED (ROWS + 2)
#define TURNED (ROWS + 3)
#define SUMS (ROWS + 4)
typedef long long i64;

enum { STEP, SLOPE, VIOLATION, BEST, WAITED, ITERATIONS, DONE, STALLED, FORESEEN, NUMBERS };

// Which of the remembered changes is the oldest, and how many there are.
struct Order {
    int first, count;
    __device__ int slot(int i) const { return (first + i) % MEMORY; }
};

// Sums of all threads, and one maximum, which every thread has afterwards.
__device__ void over_block(double* sums, double& largest, double (*shared)[SUMS + 1]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    #pragma unroll
    for (int j = 0; j < SUMS; ++j) {
        for (int other = 16; other; other /= 2)
            sums[j] += __shfl_xor_sync(0xffffffffu, sums[j], other);
        if (lane == 0) shared[warp][j] = sums[j];
    }
    for (int other = 16; other; other /= 2)
        largest = fmax(largest, __shfl_xor_sync(0xffffffffu, largest, other));
    if (lane == 0) shared[warp][SUMS] = largest;
    __syncthreads();
    #pragma unroll
    for (int j = 0; j < SUMS; ++j) {
        sums[j] = 0;
        for (int w = 0; w < warps; ++w) sums[j] += shared[w][j];
    }
    largest = 0;
    for (int w = 0; w < warps; ++w) largest = fmax(largest, shared[w][SUMS]);
    __syncthreads();
}

// Where the secant of the slopes has its zero, kept away from both ends.
__device__ double shortened(double first, double slope) {
    if (!isfinite(slope)) return 0.1;
    const double total = slope - first;
    return fmin(fmax(total > 0 ? -first / total : 0.8, 0.1), 0.8);
}

// Weights of the basis that make up the quasi-Newton direction.
__device__ void two_loops(const double (*products)[COLS], const Order order, double* weights) {
    double first[MEMORY], second[MEMORY], inverse[MEMORY], scale = 1;
    for (int i = 0; i < order.count; ++i) {
        const double curved = products[1 + 2 * i][1 + i], size = products[2 + 2 * i][1 + i];
        first[i] = second[i] = 0;
        inverse[i] = curved > EPS * size && size > 0 ? 1 / curved : 0;
    }
    for (int t = order.count - 1; t >= 0; --t) {
        const int i = order.slot(t);
        double left = products[1 + 2 * i][0];
        for (int j = 0; j < order.count; ++j) left -= first[j] * products[1 + 2 * i][1 + j];
        first[i] = inverse[i] * left;
    }
    for (int t = 0; t < order.count; ++t) {
        const int i = order.slot(t);
        if (inverse[i] != 0) scale = products[1 + 2 * i][1 + i] / products[2 + 2 * i][1 + i];
    }
    for (int t = 0; t < order.count; ++t) {
        const int i = order.slot(t);
        double middle = products[0][1 + i], along = 0;
        for (int j = 0; j < order.count; ++j) {
            middle -= first[j] * products[2 + 2 * j][1 + i];
            along += second[j] * products[1 + 2 * j][1 + i];
        }
        second[i] = first[i] - inverse[i] * (scale * middle + along);
    }
    weights[0] = -scale;
    for (int i = 0; i < order.count; ++i) {
        weights[1 + 2 * i] = -second[i];
        weights[2 + 2 * i] = scale * first[i];
    }
}

// Products of the basis with gradient and images after a trial that was kept, or was not.
__device__ void follow(double (*products)[COLS], double* ahead, const double* seen, double step,
                       bool kept, int filled, int slot) {
    const double turned = seen[SIZE] - seen[0];
    double change[COLS], image[COLS];
    for (int j = 0; j < COLS; ++j) change[j] = step * ahead[j], image[j] = 0;
    image[0] = turned;
    for (int i = 0; i < filled; ++i) image[1 + i] = seen[2 + 2 * i] - products[2 + 2 * i][0];
    change[0] = step * seen[SLOPE_THERE];
    change[1 + slot] = seen[CURVED];
    image[1 + slot] = seen[TURNED];
    for (int j = 0; j < 1 + 2 * filled; ++j) {
        products[j][1 + slot] = kept ? seen[j] - products[j][0] : 0;
        if (kept) products[j][0] = seen[j];
    }
    if (kept) {
        products[0][0] = seen[SIZE];
        for (int i = 0; i < filled; ++i) products[0][1 + i] = seen[2 + 2 * i];
        products[0][1 + slot] = turned;
    }
    for (int j = 0; j < COLS; ++j) {
        products[1 + 2 * slot][j] = kept ? change[j] : 0;
        products[2 + 2 * slot][j] = kept ? image[j] : 0;
    }
    ahead[1 + slot] = 0;
}

// Whether a trial is kept; its model's numbers, and the step to try next if it is not.
__device__ bool judge(double* number, const double* seen, double largest, double size,
                      double precision) {
    const double first = fabs(number[SLOPE]), slope = seen[SLOPE_THERE], step = number[STEP];
    const bool kept = slope <= SURE_OVERSHOOT * first
                      || (slope <= OVERSHOOT * first && seen[SIZE] <= size);
    number[ITERATIONS] += 1;
    number[FORESEEN] = kept && step == 1 && fabs(slope) <= FORESEEN_SHARE * first;
    if (kept) number[VIOLATION] = largest;
    const double shorter = step * shortened(number[SLOPE], slope);
    const bool better = number[VIOLATION] < GAIN * number[BEST];
    number[WAITED] = better ? 0 : number[WAITED] + 1;
    if (better) number[BEST] = number[VIOLATION];
    const double root = sqrt(precision);
    const bool is_near = slope <= first / root;
    if ((!kept && shorter < root && (is_near || shorter < EPS))
        || (number[WAITED] >= PATIENCE && first <= precision)) number[STALLED] = 1;
    number[STEP] = kept ? 1 : shorter;
    return kept;
}

extern "C" __global__ void lbfgs_step(
    const double* __restrict__ G, const double* __restrict__ images, double* W, double* trials,
    double* gradients, double* bases, double* directions, double* tables, double* aheads,
    double* numbers, int n, int n_before, int first, int count, int slot, double tol,
    double precision, int is_restart
) {
    const i64 m = blockIdx.x;
    const Order after = {first, count};
    double* number = numbers + m * NUMBERS;
    if (number[DONE] != 0 || number[STALLED] != 0) return;
    __shared__ double shared[THREADS / 32][SUMS + 1];
    __shared__ double products[ROWS][COLS], ahead[COLS], weights[ROWS], own[NUMBERS];
    __shared__ bool kept, fresh;
    double* basis = bases + m * ROWS * n;
    double *w = W + m * n, *trial = trials + m * n, *gradient = gradients + m * n;
    double* direction = directions + m * n;
    const double *g = is_restart ? gradient : G + m * n, *image = images + m * n;
    for (int j = threadIdx.x; j < ROWS * COLS; j += blockDim.x)
        products[j / COLS][j % COLS] = tables[m * ROWS * COLS + j];
    if (threadIdx.x < COLS) ahead[threadIdx.x] = aheads[m * COLS + threadIdx.x];
    if (threadIdx.x < NUMBERS) own[threadIdx.x] = number[threadIdx.x];
    __syncthreads();
    const double step = own[STEP];
    const int n_basis = 1 + 2 * n_before;
    double sums[SUMS], largest = 0;
    #pragma unroll
    for (int j = 0; j < SUMS; ++j) sums[j] = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const double there = g[i], its_image = image[i], ahead_of = direction[i];
        const double more = there - gradient[i];
        #pragma unroll
        for (int j = 0; j < ROWS; ++j) if (j < n_basis) sums[j] += basis[(i64)j * n + i] * there;
        sums[SIZE] += there * its_image;
        sums[SLOPE_THERE] += there * ahead_of;
        sums[CURVED] += more * (step * ahead_of);
        sums[TURNED] += more * (its_image - basis[i]);
        largest = fmax(largest, fabs(there));
    }
    over_block(sums, largest, shared);
    if (threadIdx.x == 0) {
        kept = false;
        if (is_restart) {
            products[0][0] = sums[SIZE];
        } else {
            kept = judge(own, sums, largest, products[0][0], precision);
            follow(products, ahead, sums, step, kept, n_before, slot);
        }
        fresh = own[STEP] >= 1 && own[STALLED] == 0;
        if (fresh) {
            two_loops(products, after, weights);
            double slope = 0;
            for (int c = 0; c < COLS; ++c) ahead[c] = 0;
            for (int j = 0; j < 1 + 2 * after.count; ++j) {
                slope += weights[j] * products[j][0];
                for (int c = 0; c < COLS; ++c) ahead[c] += weights[j] * products[j][c];
            }
            own[SLOPE] = slope;
            const bool more = fabs(slope) > 2 * ENOUGH * tol * tol;
            if (own[VIOLATION] <= tol && !more) own[DONE] = 1;
        }
    }
    __syncthreads();
    const double next = own[DONE] != 0 || own[STALLED] != 0 ? 0 : own[STEP];
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        double *change = basis + (i64)(1 + 2 * slot) * n, *turned = change + n;
        if (is_restart) {
            basis[i] = image[i];
        } else {
            change[i] = kept ? step * direction[i] : 0;
            turned[i] = kept ? image[i] - basis[i] : 0;
        }
        if (kept) {
            w[i] = trial[i];
            gradient[i] = g[i];
            basis[i] = image[i];
        }
        if (fresh) {
            double sum = 0;
            for (int j = 0; j < 1 + 2 * after.count; ++j) sum += weights[j] * basis[(i64)j * n + i];
            direction[i] = sum;
        }
        trial[i] = next > 0 ? w[i] + next * direction[i] : w[i];
    }
    for (int j = threadIdx.x; j < ROWS * COLS; j += blockDim.x)
        tables[m * ROWS * COLS + j] = products[j / COLS][j % COLS];
    if (threadIdx.x < COLS) aheads[m * COLS + threadIdx.x] = ahead[threadIdx.x];
    if (threadIdx.x < NUMBERS) number[threadIdx.x] = own[threadIdx.x];
}
"""


@cache
def _kernel() -> Any:
    import cupy

    values = {
        "MEMORY": MEMORY,
        "THREADS": THREADS,
        "EPS": EPS,
        "FORESEEN_SHARE": rules.FORESEEN,
    }
    names = ("OVERSHOOT", "SURE_OVERSHOOT", "GAIN", "PATIENCE", "ENOUGH")
    values |= {name: getattr(rules, name) for name in names}
    defined = "".join(f"#define {name} ({value!r})\n" for name, value in values.items())
    return cupy.RawKernel(defined + _SOURCE, "lbfgs_step")


class Iteration:
    """What changes from pass to pass, as in `lbfgs`: all of it on the GPU.

    Models that are done stay where they are, as no trial of theirs is made.
    """

    def __init__(self, problem: Any, W: Array, tol: float, looks: bool):
        import cupy

        self.problem, self.tol, self.looks, self.shape = problem, tol, looks, W.shape
        grid, n = W.shape[:2], W.shape[2] * W.shape[3]
        self.W = cupy.array(W, dtype=cupy.float64, order="C")  # a copy: steps are taken in it
        self.gradients = cupy.array(problem.gradient(W, begins=True), order="C")
        self.trials, self.directions = cupy.empty_like(self.W), cupy.empty_like(self.W)
        # Entries that are not filled yet are not used, but must not be nan.
        self.bases = cupy.zeros((*grid, 2 * MEMORY + 1, n))
        self.tables = cupy.zeros((*grid, 2 * MEMORY + 1, MEMORY + 1))
        self.aheads = cupy.zeros((*grid, MEMORY + 1))
        self.numbers = cupy.zeros((*grid, N_NUMBERS))
        self.seen: np.ndarray = np.zeros((*grid, N_NUMBERS))  # what the host knows of them
        self.numbers[..., STEP] = 1.0
        largest = cupy.abs(self.gradients).max(axis=(-2, -1))
        self.numbers[..., VIOLATION] = self.numbers[..., BEST] = largest
        self.restart(problem)

    @property
    def going(self) -> np.ndarray:
        """Models (C, S) that are not done."""
        return (self.seen[..., DONE] == 0) & (self.seen[..., STALLED] == 0)

    @property
    def violation(self) -> np.ndarray:
        """The largest component (C, S) of the gradient."""
        return self.seen[..., VIOLATION]

    @property
    def n_iter(self) -> np.ndarray:
        """Passes (C, S) of each model."""
        return self.seen[..., ITERATIONS].astype(np.int32)

    @property
    def stalled(self) -> np.ndarray:
        """Models (C, S) whose steps had come down to rounding."""
        return self.seen[..., STALLED] != 0

    @property
    def left(self) -> float:
        """How many times more than enough the next step promises, of the model that has most."""
        return rules.promised(self.seen[..., SLOPE], self.violation, self.going, self.tol)

    def closed(self) -> Array:
        """W, with one step more for the models whose last one went as foreseen."""
        number = np.moveaxis(self.seen, -1, 0)
        last = (number[DONE] != 0) & (number[FORESEEN] != 0) & (number[STEP] >= 1)
        if self.looks or not last.any():
            return self.W
        import cupy

        return cupy.where(cupy.asarray(last)[..., None, None], self.W + self.directions, self.W)

    def restart(self, problem: Any) -> None:
        """Forget what an earlier preconditioner taught, and start from a better one."""
        self.problem, self.first, self.count = problem, 0, 0
        self._launch(self.gradients, problem.precondition(self.gradients), 0.0, is_restart=True)

    def advance(self, precision: float) -> None:
        """One pass: try a step for every model, keep it or shorten it."""
        G = self.problem.gradient(self.trials)
        self._launch(G, self.problem.precondition(G), precision, is_restart=False)

    def select(self, problem: Any, index: np.ndarray) -> None:
        """Continue with some of the candidates only."""
        import cupy

        self.problem, chosen = problem, cupy.asarray(index)
        for name in ARRAYS:
            setattr(self, name, cupy.take(getattr(self, name), chosen, axis=0))
        self.seen, self.shape = self.seen[index], self.W.shape

    def _launch(self, G, image, precision, *, is_restart):
        import cupy

        n_before, slot = self.count, 0
        if not is_restart:
            slot = self.first if self.count == MEMORY else self.count
            self.first = (self.first + (self.count == MEMORY)) % MEMORY
            self.count = min(self.count + 1, MEMORY)
        G, image = (cupy.ascontiguousarray(a) for a in (G, image))
        given = (G, image, *(getattr(self, name) for name in ARRAYS))
        sizes = (self.shape[2] * self.shape[3], n_before, self.first, self.count, slot)
        bounds = (np.float64(self.tol), np.float64(precision), np.int32(is_restart))
        n_models = self.shape[0] * self.shape[1]
        _kernel()((n_models,), (THREADS,), (*given, *map(np.int32, sizes), *bounds))
        self.seen = to_host(self.numbers)
