// What dense layers do besides their product.

// Adds a bias to every row, and takes the positive part.
extern "C" __global__ void finish(wide count, float* values, const float* bias, wide columns, int positive) {
    const wide i = thread_number();
    if (i >= count) return;
    float value = values[i];
    if (bias) value += bias[i % columns];
    values[i] = positive ? fmaxf(value, 0.f) : value;
}

// A gradient where the output was positive, and nothing elsewhere.
extern "C" __global__ void only_positive(wide count, const float* output, float* upstream) {
    const wide i = thread_number();
    if (i < count && !(output[i] > 0.f)) upstream[i] = 0.f;
}

// Sums of some columns over a share of the rows: a block has 32 columns and a share; its 8 warps take turns
// at the rows.
extern "C" __global__ void __launch_bounds__(256)
    column_sums(wide rows, const float* values, wide stride, int columns, float* parts) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = blockIdx.y * 32 + lane;
    const wide share = (rows + gridDim.x - 1) / gridDim.x, first = share * blockIdx.x,
               end = min(first + share, rows);
    __shared__ float sums[8][32];
    float sum = 0.f;
    if (column < columns)
        for (wide row = first + warp; row < end; row += 8) sum += values[row * stride + column];
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && column < columns) {
        for (int other = 1; other < 8; ++other) sum += sums[other][lane];
        parts[(wide)blockIdx.x * columns + column] = sum;
    }
}

// Adds the shares of each column in order, in double precision: a warp has a column.
extern "C" __global__ void column_sums_of_shares(wide columns, const float* parts, wide stride, int shares,
                                                 float* output, int adds) {
    const wide column = thread_number() / 32;
    const int lane = threadIdx.x % 32;
    if (column >= columns) return;
    double sum = 0.0;
    for (int share = lane; share < shares; share += 32) sum += parts[share * stride + column];
    sum = sum_of_lanes<32>(sum);
    if (lane == 0) put(output + column, (float)sum, adds);
}
