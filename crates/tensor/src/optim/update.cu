// One step of an optimiser over all parameters, which stand one after the other, in one kernel. The gradient
// is multiplied by a factor first: clipping, and the mean over windows.

extern "C" __global__ void adam(wide count, float* parameters, const float* gradient, float* means,
                                float* squares, float factor, float first, float second, float epsilon,
                                float in_gradient, float keep, float rate, float root) {
    const wide i = thread_number();
    if (i >= count) return;
    const float parameter = parameters[i], g = fmaf(in_gradient, parameter, factor * gradient[i]);
    const float mean = fmaf(first, means[i] - g, g), square = fmaf(second, squares[i] - g * g, g * g);
    means[i] = mean;
    squares[i] = square;
    parameters[i] = fmaf(keep, parameter, -rate * mean / fmaf(sqrtf(square), root, epsilon));
}

extern "C" __global__ void sgd(wide count, float* parameters, const float* gradient, float* velocities,
                               float factor, float momentum, float decay, float rate) {
    const wide i = thread_number();
    if (i >= count) return;
    const float parameter = parameters[i];
    const float velocity = fmaf(momentum, velocities[i], fmaf(decay, parameter, factor * gradient[i]));
    velocities[i] = velocity;
    parameters[i] = fmaf(-rate, velocity, parameter);
}

// Gradients of all parameters, each wherever it is, put one after the other; zeros where there is none.
extern "C" __global__ void collect(wide count, int parameters, const wide* starts,
                                   const float* const* gradients, float* all, int adds) {
    const wide i = thread_number();
    if (i >= count) return;
    int low = 0, high = parameters;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (starts[middle] <= i)
            low = middle;
        else
            high = middle;
    }
    const float* from = gradients[low];
    put(all + i, from ? from[i - starts[low]] : 0.f, adds);
}

// Sums of squares over shares of the numbers, each by one block.
extern "C" __global__ void __launch_bounds__(256) squares(wide count, const float* values, double* parts) {
    const wide share = (count + gridDim.x - 1) / gridDim.x, first = share * blockIdx.x,
               end = min(first + share, count);
    double sum = 0.0;
    for (wide i = first + threadIdx.x; i < end; i += 256) sum += (double)values[i] * values[i];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// The root of their sum.
extern "C" __global__ void __launch_bounds__(256)
    norm_of_squares(wide count, const double* parts, float* output) {
    double sum = 0.0;
    for (wide i = threadIdx.x; i < count; i += 256) sum += parts[i];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) *output = (float)sqrt(sum);
}
