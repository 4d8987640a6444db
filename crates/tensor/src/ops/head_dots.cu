// The products of each head's columns with a vector of its own.

// Eight lanes have a row and a head. All lanes of a warp take part in sums, also those that have none.
extern "C" __global__ void __launch_bounds__(256)
    head_dots(wide count, const float* x, const float* vectors, int heads, int dimension, float* output) {
    const wide number = thread_number() / 8;
    const int lane = threadIdx.x % 8;
    float sum = 0.f;
    if (number < count) {
        const float* vector = vectors + place_of(number, heads).column * dimension;
        const float* values = x + number * dimension;
        for (int i = lane; i < dimension; i += 8) sum = fmaf(values[i], vector[i], sum);
    }
    sum = sum_of_lanes<8>(sum);
    if (number < count && lane == 0) output[number] = sum;
}

extern "C" __global__ void head_dots_rows(wide count, const float* upstream, const float* vectors, int heads,
                                          int dimension, float* gradient, int adds) {
    const wide i = thread_number();
    if (i >= count) return;
    const Place place = place_of(i, (wide)heads * dimension);
    const wide head = place_of(place.column, dimension).row;
    put(gradient + i, upstream[place.row * heads + head] * vectors[place.column], adds);
}

// What a share of the rows adds to the gradient of the vectors: a block has 32 columns and a share; its 8
// warps take turns at the rows.
extern "C" __global__ void __launch_bounds__(256)
    head_dots_vectors(wide rows, const float* x, const float* upstream, int heads, int dimension,
                      float* parts) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, columns = heads * dimension,
              column = blockIdx.y * 32 + lane;
    const wide share = (rows + gridDim.x - 1) / gridDim.x, first = share * blockIdx.x,
               end = min(first + share, rows);
    __shared__ float sums[8][32];
    float sum = 0.f;
    if (column < columns)
        for (wide row = first + warp; row < end; row += 8)
            sum = fmaf(upstream[row * heads + column / dimension], x[row * columns + column], sum);
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && column < columns) {
        for (int other = 1; other < 8; ++other) sum += sums[other][lane];
        parts[(wide)blockIdx.x * columns + column] = sum;
    }
}
