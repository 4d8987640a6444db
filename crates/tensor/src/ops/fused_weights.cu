// The gradients of a cell's weights from those of its gates, on tensor cores: one pass over input, state and gates, where separate products
// would read the gates several times. Macros are those of fused_cells.cu.
//
// Rows are what is summed over: each block takes tiles of 32 in turns, fetched some tiles ahead, and has all of the result in registers: its 16
// warps stand four by four over it. What blocks come to is added up in order.

#define LSTM 0
#define GRU 1
#define GATED 2
#define GROUPS (CELL == GATED ? 3 : 4)
#define X_GROUPS (CELL == LSTM ? 4 : 3)
#define STATE_WIDTH (CELL == LSTM ? 2 * WIDTH : WIDTH)
#define H_COLUMNS (CELL == LSTM ? 4 * WIDTH : 3 * WIDTH)
#define FEATURES (INPUT + (STATE ? WIDTH : 0))
#define COLUMNS (GROUPS * WIDTH)
#define RESET (CELL == GATED && STATE)

#define ROWS 32
#define STAGES 3
#define A_STRIDE (FEATURES + 8)
#define R_STRIDE (WIDTH + 8)
#define B_STRIDE (COLUMNS + 8)
#define STAGE (ROWS * (A_STRIDE + B_STRIDE + (RESET ? R_STRIDE : 0)))
#define M_TILES (FEATURES / 64)
#define N_TILES (COLUMNS / 32)

extern __shared__ float shared[];

__device__ __forceinline__ unsigned rounded(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

__device__ __forceinline__ void multiply_add(float* sum, const unsigned* a, const unsigned* b) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Sixteen bytes to shared memory, or zeros where there is no such row.
__device__ __forceinline__ void fetch16(float* to, const float* from, bool there) {
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    const int bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes));
}

// Some columns of ROWS rows, each row by neighbouring threads.
template <int WIDE> __device__ __forceinline__ void fetch_rows(float* to, int stride, const float* from, wide from_stride, wide first, wide rows) {
    for (int i = threadIdx.x; i < ROWS * WIDE / 4; i += 512) {
        const int row = i / (WIDE / 4), column = i % (WIDE / 4) * 4;
        const bool there = first + row < rows;
        fetch16(to + row * stride + column, from + (there ? first + row : 0) * from_stride + column, there);
    }
}

// Sixteen features of eight rows.
__device__ __forceinline__ void take(unsigned* a, const float* tile, int stride, int row, int feature) {
    const int lane = threadIdx.x & 31;
    const float* at = tile + (row + (lane & 3)) * stride + feature + (lane >> 2);
    a[0] = rounded(at[0]);
    a[1] = rounded(at[8]);
    a[2] = rounded(at[4 * stride]);
    a[3] = rounded(at[4 * stride + 8]);
}

extern "C" __global__ void __launch_bounds__(512, 1)
    fused_weights(wide rows, const float* __restrict__ x, const float* __restrict__ state, const float* __restrict__ reset,
                  const float* __restrict__ gates, float* parts) {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int first_m = warp % 4 * M_TILES, first_n = warp / 4 * N_TILES;
    const wide tiles = (rows + ROWS - 1) / ROWS;
    float sums[M_TILES][N_TILES][4] = {};
    auto fetch = [&](wide tile, int stage) {
        if (tile < tiles) {
            float* at = shared + stage * STAGE;
            fetch_rows<INPUT>(at, A_STRIDE, x, INPUT, tile * ROWS, rows);
            if (STATE) fetch_rows<WIDTH>(at + INPUT, A_STRIDE, state, STATE_WIDTH, tile * ROWS, rows);
            fetch_rows<COLUMNS>(at + ROWS * A_STRIDE, B_STRIDE, gates, COLUMNS, tile * ROWS, rows);
            if (RESET) fetch_rows<WIDTH>(at + ROWS * (A_STRIDE + B_STRIDE), R_STRIDE, reset, WIDTH, tile * ROWS, rows);
        }
        asm volatile("cp.async.commit_group;");
    };
    for (int stage = 0; stage < STAGES - 1; ++stage) fetch(blockIdx.x + (wide)stage * gridDim.x, stage);
    int stage = 0;
    for (wide tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        fetch(tile + (wide)(STAGES - 1) * gridDim.x, (stage + STAGES - 1) % STAGES);
        const float* a_tile = shared + stage * STAGE;
        const float* b_tile = a_tile + ROWS * A_STRIDE;
        const float* r_tile = b_tile + ROWS * B_STRIDE;
        stage = (stage + 1) % STAGES;
#pragma unroll
        for (int k = 0; k < ROWS; k += 8) {
            unsigned a[M_TILES][4], r[M_TILES][4];
#pragma unroll
            for (int m = 0; m < M_TILES; ++m) {
                take(a[m], a_tile, A_STRIDE, k, (first_m + m) * 16);
                // What of the state was let through stands in for it where n is concerned.
                if (RESET && (first_m + m) * 16 >= INPUT) take(r[m], r_tile, R_STRIDE, k, (first_m + m) * 16 - INPUT);
            }
#pragma unroll
            for (int n = 0; n < N_TILES; ++n) {
                const float* at = b_tile + (k + (lane & 3)) * B_STRIDE + (first_n + n) * 8 + (lane >> 2);
                const unsigned b[2] = {rounded(at[0]), rounded(at[4 * B_STRIDE])};
#pragma unroll
                for (int m = 0; m < M_TILES; ++m) {
                    const bool through = RESET && (first_m + m) * 16 >= INPUT && (first_n + n) * 8 >= 2 * WIDTH;
                    multiply_add(sums[m][n], through ? r[m] : a[m], b);
                }
            }
        }
    }
    asm volatile("cp.async.wait_all;");
    float* to = parts + (wide)blockIdx.x * FEATURES * COLUMNS;
#pragma unroll
    for (int m = 0; m < M_TILES; ++m)
#pragma unroll
        for (int n = 0; n < N_TILES; ++n)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int feature = (first_m + m) * 16 + (lane >> 2) + 8 * half, column = (first_n + n) * 8 + 2 * (lane & 3);
                *(float2*)(to + feature * COLUMNS + column) = make_float2(sums[m][n][2 * half], sums[m][n][2 * half + 1]);
            }
}

// Adds up what blocks came to, in order, and puts it where it belongs: a thread has a number.
extern "C" __global__ void __launch_bounds__(256)
    fused_weights_sum(int blocks, const float* __restrict__ parts, float* dx_weight, int x_adds, float* dh_weight, int h_adds) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= FEATURES * COLUMNS) return;
    const int feature = i / COLUMNS, group = i % COLUMNS / WIDTH, unit = i % WIDTH;
    float* to = nullptr;
    int adds = 0;
    if (feature < INPUT) {
        // Of a gated recurrent unit, n has a part from the input and one from the state.
        const int part = CELL == GRU ? (group == 3 ? 2 : group == 2 ? -1 : group) : group;
        if (part >= 0 && dx_weight) to = dx_weight + feature * X_GROUPS * WIDTH + part * WIDTH + unit;
        adds = x_adds;
    } else if ((CELL != GRU || group < 3) && dh_weight) {
        to = dh_weight + (feature - INPUT) * H_COLUMNS + group * WIDTH + unit;
        adds = h_adds;
    }
    if (!to) return;
    float sum = 0.f;
    for (int block = 0; block < blocks; ++block) sum += parts[(wide)block * FEATURES * COLUMNS + i];
    put(to, sum, adds);
}
