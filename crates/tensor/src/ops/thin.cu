// Dense layers with few outputs, as the last one of most tasks is: COLUMNS of them from INNER inputs. What
// counts is that the rows are read once.

// Sixteen lanes have a row.
extern "C" __global__ void __launch_bounds__(256)
    thin(wide rows, int inner, const float* __restrict__ x, const float* __restrict__ weight,
         const float* bias, float* output) {
    const wide row = thread_number() / 16;
    const int lane = threadIdx.x % 16;
    float sums[COLUMNS] = {};
    if (row < rows)
        for (int i = lane; i < inner; i += 16) {
            const float value = x[row * inner + i];
#pragma unroll
            for (int column = 0; column < COLUMNS; ++column)
                sums[column] = fmaf(value, __ldg(weight + i * COLUMNS + column), sums[column]);
        }
#pragma unroll
    for (int column = 0; column < COLUMNS; ++column) {
        sums[column] = sum_of_lanes<16>(sums[column]);
        if (row < rows && lane == 0)
            output[row * COLUMNS + column] = sums[column] + (bias ? bias[column] : 0.f);
    }
}

extern "C" __global__ void thin_rows(wide count, const float* upstream, const float* __restrict__ weight,
                                     float* gradient, int adds) {
    const wide i = thread_number();
    if (i >= count) return;
    const wide row = i / INNER;
    const int column_of_x = (int)(i % INNER);
    float sum = 0.f;
#pragma unroll
    for (int column = 0; column < COLUMNS; ++column)
        sum = fmaf(upstream[row * COLUMNS + column], __ldg(weight + column_of_x * COLUMNS + column), sum);
    put(gradient + i, sum, adds);
}

// What a share of the rows adds to the gradient of the weight, and behind it to that of the bias: a block has
// 32 columns of x and a share; its 8 warps take turns at the rows. The last column of x is the one that the
// bias stands for.
extern "C" __global__ void __launch_bounds__(256)
    thin_weights(wide rows, int inner, const float* __restrict__ x, const float* __restrict__ upstream,
                 float* parts) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, of_x = blockIdx.y * 32 + lane;
    const wide share = (rows + gridDim.x - 1) / gridDim.x, first = share * blockIdx.x,
               end = min(first + share, rows);
    __shared__ float all[8][32][COLUMNS];
    float sums[COLUMNS] = {};
    if (of_x <= inner)
        for (wide row = first + warp; row < end; row += 8) {
            const float value = of_x < inner ? x[row * inner + of_x] : 1.f;
#pragma unroll
            for (int column = 0; column < COLUMNS; ++column)
                sums[column] = fmaf(value, upstream[row * COLUMNS + column], sums[column]);
        }
#pragma unroll
    for (int column = 0; column < COLUMNS; ++column) all[warp][lane][column] = sums[column];
    __syncthreads();
    if (warp == 0 && of_x <= inner)
#pragma unroll
        for (int column = 0; column < COLUMNS; ++column) {
            float sum = 0.f;
            for (int other = 0; other < 8; ++other) sum += all[other][lane][column];
            parts[((wide)blockIdx.x * (inner + 1) + of_x) * COLUMNS + column] = sum;
        }
}
