// Memory filled with a number, and sums of two.

extern "C" __global__ void fill(wide count, float* at, float value) {
    wide i = thread_number();
    if (i < count) at[i] = value;
}

extern "C" __global__ void add(wide count, const float* x, float* sum) {
    wide i = thread_number();
    if (i < count) sum[i] += x[i];
}
