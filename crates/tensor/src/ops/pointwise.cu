// Operations number by number: a thread has a number.

// What activations are called in arguments.
#define RELU 0
#define ELU 1
#define SIGMOID 2
#define TANH 3

extern "C" __global__ void activate(wide count, const float* x, float* output, int kind, float parameter) {
    const wide i = thread_number();
    if (i >= count) return;
    const float value = x[i];
    float y;
    switch (kind) {
        case RELU:
            y = value > 0.f ? value : parameter * value;
            break;
        case ELU:
            y = value > 0.f ? value : parameter * expm1f(fminf(value, 0.f));
            break;
        case SIGMOID:
            y = sigmoid(value);
            break;
        default:
            y = tanhf(value);
    }
    output[i] = y;
}

// The slope follows from the value.
extern "C" __global__ void activate_back(wide count, const float* output, const float* upstream,
                                         float* gradient, int adds, int kind, float parameter) {
    const wide i = thread_number();
    if (i >= count) return;
    const float y = output[i];
    float slope;
    switch (kind) {
        case RELU:
            slope = y > 0.f ? 1.f : parameter;
            break;
        case ELU:
            slope = y > 0.f ? 1.f : y + parameter;
            break;
        case SIGMOID:
            slope = y * (1.f - y);
            break;
        default:
            slope = 1.f - y * y;
    }
    put(gradient + i, upstream[i] * slope, adds);
}

extern "C" __global__ void scaled(wide count, const float* x, float factor, float* output, int adds) {
    const wide i = thread_number();
    if (i < count) put(output + i, factor * x[i], adds);
}

extern "C" __global__ void combined(wide count, const float* x, const float* y, float of_x, float of_y,
                                    float* output) {
    const wide i = thread_number();
    if (i < count) output[i] = fmaf(of_y, y[i], of_x * x[i]);
}

extern "C" __global__ void multiplied(wide count, const float* x, const float* y, float* output, int adds) {
    const wide i = thread_number();
    if (i < count) put(output + i, x[i] * y[i], adds);
}

extern "C" __global__ void with_row(wide count, const float* x, const float* row, wide columns,
                                    float* output) {
    const wide i = thread_number();
    if (i < count) output[i] = x[i] + row[place_of(i, columns).column];
}

// Copies or adds columns: those of `from` begin at `from_start` in rows of `from_stride`, those of `to`
// likewise.
extern "C" __global__ void copy_columns(wide count, wide columns, const float* from, wide from_stride,
                                        wide from_start, float* to, wide to_stride, wide to_start, int adds) {
    const wide i = thread_number();
    if (i >= count) return;
    const Place place = place_of(i, columns);
    put(to + place.row * to_stride + to_start + place.column,
        from[place.row * from_stride + from_start + place.column], adds);
}

// Columns in their place among more of them, the others zero.
extern "C" __global__ void widen_columns(wide count, wide columns, const float* from, wide width, wide start,
                                         float* to, int adds) {
    const wide i = thread_number();
    if (i >= count) return;
    const Place place = place_of(i, columns);
    const wide column = place.column - start;
    const bool taken = column >= 0 && column < width;
    if (taken)
        put(to + i, from[place.row * width + column], adds);
    else if (!adds)
        to[i] = 0.f;
}

// The rows that indices name.
extern "C" __global__ void gathered(wide count, wide columns, const natural* indices, const float* x,
                                    float* output, int adds) {
    const wide i = thread_number();
    if (i >= count) return;
    const Place place = place_of(i, columns);
    put(output + i, x[(wide)indices[place.row] * columns + place.column], adds);
}

// Mixes the bits of a number: the finaliser of SplitMix64, as on the host.
__device__ __forceinline__ unsigned long long mixed(unsigned long long value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
    return value ^ (value >> 31);
}

// What decides about a number is its place in a larger matrix: its row there is given, or counted from the
// first.
extern "C" __global__ void dropped(wide count, wide columns, const float* x, unsigned long long key,
                                   unsigned long long bound, float factor, wide first, const natural* rows,
                                   float* output, int adds) {
    const wide i = thread_number();
    if (i >= count) return;
    unsigned long long at = (unsigned long long)(first * columns + i);
    if (rows) {
        const Place place = place_of(i, columns);
        at = (unsigned long long)rows[place.row] * (unsigned long long)columns +
             (unsigned long long)place.column;
    }
    const unsigned long long hash = mixed(key + at * 0x9E3779B97F4A7C15ull) >> 32;
    put(output + i, (hash < bound ? factor : 0.f) * x[i], adds);
}
