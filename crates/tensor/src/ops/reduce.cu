// Sums in double precision: blocks have shares of the numbers, which follow from how many there are, and
// shares are added in order.

extern "C" __global__ void __launch_bounds__(256) sum_shares(wide count, const float* x, double* shares) {
    double sum = 0.0;
    for (wide i = thread_number(); i < count; i += (wide)gridDim.x * blockDim.x) sum += x[i];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) shares[blockIdx.x] = sum;
}

// One block: the sum of the shares, times a factor, divided by a whole number.
extern "C" __global__ void __launch_bounds__(256)
    total(wide count, const double* shares, float factor, wide divisor, float* output) {
    double sum = 0.0;
    for (wide i = threadIdx.x; i < count; i += blockDim.x) sum += shares[i];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) output[0] = (float)(sum * (double)factor / (double)divisor);
}

extern "C" __global__ void spread(wide count, const float* upstream, wide divisor, float* gradient,
                                  int adds) {
    const wide i = thread_number();
    if (i < count) put(gradient + i, (float)((double)upstream[0] / (double)divisor), adds);
}

// Sums of columns over a share of the rows: a block has 32 columns and a share; its 8 warps take turns at the
// rows.
extern "C" __global__ void __launch_bounds__(256)
    sum_rows(wide rows, const float* x, wide columns, double* shares) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const wide column = (wide)blockIdx.y * 32 + lane;
    const wide share = (rows + gridDim.x - 1) / gridDim.x, first = share * blockIdx.x,
               end = min(first + share, rows);
    __shared__ double sums[8][32];
    double sum = 0.0;
    if (column < columns)
        for (wide row = first + warp; row < end; row += 8) sum += x[row * columns + column];
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && column < columns) {
        for (int other = 1; other < 8; ++other) sum += sums[other][lane];
        shares[(wide)blockIdx.x * columns + column] = sum;
    }
}

// Adds the shares of each column in order: a warp has a column.
extern "C" __global__ void total_rows(wide columns, const double* shares, int count, wide divisor,
                                      float* output) {
    const wide column = thread_number() / 32;
    const int lane = threadIdx.x % 32;
    if (column >= columns) return;
    double sum = 0.0;
    for (int share = lane; share < count; share += 32) sum += shares[share * columns + column];
    sum = sum_of_lanes<32>(sum);
    if (lane == 0) output[column] = (float)(sum / (double)divisor);
}

extern "C" __global__ void spread_rows(wide count, const float* upstream, wide columns, wide divisor,
                                       float* gradient, int adds) {
    const wide i = thread_number();
    if (i >= count) return;
    const float factor = (float)(1.0 / (double)divisor);
    put(gradient + i, factor * upstream[place_of(i, columns).column], adds);
}
