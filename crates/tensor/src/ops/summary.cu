// The rows that score highest, as columns. Scores are rounded number by number in the order of the host,
// whose bits they have: equal and nearly equal scores are chosen in the same order.

// The sum of products from the first to the last, not fused; a sum begins with minus zero, as on the host.
__device__ __forceinline__ float dot_in_order(const float* x, const float* y, int length) {
    float sum = -0.f;
    for (int i = 0; i < length; ++i) sum = __fadd_rn(sum, __fmul_rn(x[i], y[i]));
    return sum;
}

__device__ __forceinline__ float length_of(const float* vector, int columns) {
    return fmaxf(__fsqrt_rn(dot_in_order(vector, vector, columns)), 1e-12f);
}

extern "C" __global__ void summary_scores(wide rows, const float* x, const float* vector, int columns,
                                          float* scores) {
    const wide row = thread_number();
    if (row < rows)
        scores[row] = __fdiv_rn(dot_in_order(x + row * columns, vector, columns), length_of(vector, columns));
}

// What was put aside for each column: the number of its row, which is too large where there is none, and its
// score.
struct Aside {
    natural row;
    float score;
};

extern "C" __global__ void summary(wide count, const float* x, wide rows, int columns, const Aside* aside,
                                   int chosen, float* output) {
    const wide i = thread_number();
    if (i >= count) return;
    const Place place = place_of(i, chosen);
    const Aside mine = aside[place.column];
    output[i] = (wide)mine.row < rows ? x[(wide)mine.row * columns + place.row] * tanhf(mine.score) : 0.f;
}

// The gradient of each score: a warp has a column.
extern "C" __global__ void __launch_bounds__(256)
    summary_to_scores(wide chosen, const float* x, wide rows, int columns, const Aside* aside,
                      const float* upstream, float* to_scores) {
    const wide column = thread_number() / 32;
    const int lane = threadIdx.x % 32;
    if (column >= chosen) return;
    const Aside mine = aside[column];
    if ((wide)mine.row >= rows) {
        if (lane == 0) to_scores[column] = 0.f;
        return;
    }
    float through = 0.f;
    for (int at = lane; at < columns; at += 32)
        through = fmaf(upstream[at * chosen + column], x[(wide)mine.row * columns + at], through);
    through = sum_of_lanes<32>(through);
    const float factor = tanhf(mine.score);
    if (lane == 0) to_scores[column] = through * (1.f - factor * factor);
}

// Adds to the gradient of rows: a thread has a column of what was chosen, and a number of its row. No row was
// chosen twice.
extern "C" __global__ void summary_to_rows(wide count, wide rows, int columns, const Aside* aside, int chosen,
                                           const float* vector, const float* upstream, const float* to_scores,
                                           float* gradient) {
    const wide i = thread_number();
    if (i >= count) return;
    const Place place = place_of(i, columns);
    const wide column = place.row, at = place.column;
    const Aside mine = aside[column];
    if ((wide)mine.row >= rows) return;
    const float slope = upstream[at * chosen + column] * tanhf(mine.score) +
                        to_scores[column] * vector[at] / length_of(vector, columns);
    gradient[(wide)mine.row * columns + at] += slope;
}

// The gradient of the vector: d(x p / |p|) / dp = x / |p| - (x p) p / |p|^3. A warp has a number of it.
extern "C" __global__ void __launch_bounds__(256)
    summary_to_vector(wide columns, const float* x, wide rows, const Aside* aside, int chosen,
                      const float* vector, const float* to_scores, float* gradient, int adds) {
    const wide at = thread_number() / 32;
    const int lane = threadIdx.x % 32;
    if (at >= columns) return;
    const float length = length_of(vector, (int)columns);
    float sum = 0.f;
    for (int column = lane; column < chosen; column += 32) {
        const Aside mine = aside[column];
        if ((wide)mine.row < rows)
            sum += to_scores[column] * (x[(wide)mine.row * columns + at] - mine.score * vector[at] / length) /
                   length;
    }
    sum = sum_of_lanes<32>(sum);
    if (lane == 0) put(gradient + at, sum, adds);
}
