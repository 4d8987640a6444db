// Cross entropy from logits, with one class for each row.

// The class of a row and its weight, zero where the row does not count. A class that there is not has a
// weight of NaN: what is computed from it is none either, which is seen, and no memory is read
// that is not there.
struct Class {
    int number;
    float weight;
};

__device__ __forceinline__ Class class_of(wide row, int columns, const float* classes, const float* by_class,
                                          const float* by_row) {
    Class found;
    found.number = 0;
    const float given = classes[row];
    if (given == -1.f) {
        found.weight = 0.f;
    } else if (given >= 0.f && given < (float)columns && given == truncf(given)) {
        found.number = (int)given;
        found.weight = (by_class ? by_class[found.number] : 1.f) * (by_row ? by_row[row] : 1.f);
    } else {
        found.weight = NO_NUMBER;
    }
    return found;
}

// A warp has a row at a time. Puts the logarithm of the sum of exponentials of each row aside; sums losses in
// double precision.
extern "C" __global__ void __launch_bounds__(256)
    entropy_shares(wide rows, const float* x, int columns, const float* classes, const float* by_class,
                   const float* by_row, float* logarithms, double* shares) {
    const int lane = threadIdx.x % 32;
    double loss = 0.0;
    for (wide row = thread_number() / 32; row < rows; row += (wide)gridDim.x * blockDim.x / 32) {
        const Class found = class_of(row, columns, classes, by_class, by_row);
        float logarithm = 0.f;
        if (found.weight != 0.f) {
            const float* values = x + row * columns;
            float largest = -INFINITE;
            for (int column = lane; column < columns; column += 32) largest = fmaxf(largest, values[column]);
            largest = most_of_lanes<32>(largest);
            double sum = 0.0;
            for (int column = lane; column < columns; column += 32)
                sum += (double)expf(values[column] - largest);
            sum = sum_of_lanes<32>(sum);
            logarithm = (float)((double)largest + log(sum));
            const float own = found.number < columns ? values[found.number] : 0.f;
            if (lane == 0) loss += (double)found.weight * ((double)logarithm - (double)own);
        }
        if (lane == 0) logarithms[row] = logarithm;
    }
    loss = sum_of_block(loss);
    if (threadIdx.x == 0) shares[blockIdx.x] = loss;
}

extern "C" __global__ void entropy_back(wide count, const float* x, int columns, const float* classes,
                                        const float* by_class, const float* by_row, const float* logarithms,
                                        const float* upstream, float scale, float* gradient, int adds) {
    const wide i = thread_number();
    if (i >= count) return;
    const Place place = place_of(i, columns);
    const Class found = class_of(place.row, columns, classes, by_class, by_row);
    float slope = 0.f;
    if (found.weight != 0.f) {
        const float factor = upstream[0] * scale * found.weight;
        slope = factor * expf(x[i] - logarithms[place.row]);
        if (place.column == found.number) slope -= factor;
    }
    put(gradient + i, slope, adds);
}
