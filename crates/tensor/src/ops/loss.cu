// Losses of predictions against targets, with a weight for each row where weights are given.

// What losses are called in arguments.
#define SQUARED 0
#define ABSOLUTE 1
#define BINARY 2

__device__ __forceinline__ float loss_of(int kind, float x, float target) {
    if (kind == SQUARED) return (x - target) * (x - target);
    if (kind == ABSOLUTE) return fabsf(x - target);
    // log(1 + exp(x)) - target * x, without an exponential that could be too large.
    return fmaf(-x, target, fmaxf(x, 0.f)) + log1pf(expf(-fabsf(x)));
}

__device__ __forceinline__ float slope_of(int kind, float x, float target) {
    if (kind == SQUARED) return 2.f * (x - target);
    if (kind == ABSOLUTE) return x > target ? 1.f : x < target ? -1.f : 0.f;
    return sigmoid(x) - target;
}

// Sums in double precision over shares that follow from how many numbers there are.
extern "C" __global__ void __launch_bounds__(256)
    loss_shares(wide count, const float* x, const float* target, const float* weights, wide columns, int kind,
                double* shares) {
    double sum = 0.0;
    for (wide i = thread_number(); i < count; i += (wide)gridDim.x * blockDim.x) {
        const float weight = weights ? weights[place_of(i, columns).row] : 1.f;
        // A row that does not count may hold anything, also what is not a number.
        if (weight != 0.f) sum += (double)weight * (double)loss_of(kind, x[i], target[i]);
    }
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) shares[blockIdx.x] = sum;
}

extern "C" __global__ void loss_back(wide count, const float* x, const float* target, const float* weights,
                                     wide columns, int kind, const float* upstream, float scale,
                                     float* gradient, int adds) {
    const wide i = thread_number();
    if (i >= count) return;
    const float weight = weights ? weights[place_of(i, columns).row] : 1.f;
    const float slope = weight != 0.f ? upstream[0] * scale * weight * slope_of(kind, x[i], target[i]) : 0.f;
    put(gradient + i, slope, adds);
}
