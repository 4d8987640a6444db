// What all kernels share. Compiled by NVRTC without any header.

typedef long long wide;
typedef unsigned int natural;
#define ALL_LANES 0xffffffffu

// The thread's number in a grid of one dimension.
__device__ __forceinline__ wide thread_number() { return (wide)blockIdx.x * blockDim.x + threadIdx.x; }

__device__ __forceinline__ float sigmoid(float x) { return 1.f / (1.f + expf(-x)); }

// What is kept of the sum before: nothing where there is none yet, also where memory holds NaN.
__device__ __forceinline__ void put(float* at, float value, int adds) { *at = adds ? *at + value : value; }

__device__ __forceinline__ void add_product(float4& sum, float factor, const float4& x) {
    sum.x = fmaf(factor, x.x, sum.x);
    sum.y = fmaf(factor, x.y, sum.y);
    sum.z = fmaf(factor, x.z, sum.z);
    sum.w = fmaf(factor, x.w, sum.w);
}

__device__ __forceinline__ float4 sum_of(const float4& a, const float4& b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Sums over a group of lanes, always in the same order: every lane gets the sum.
template <int LANES, typename T> __device__ __forceinline__ T sum_of_lanes(T value) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) value += __shfl_xor_sync(ALL_LANES, value, step, LANES);
    return value;
}

template <int LANES> __device__ __forceinline__ float most_of_lanes(float value) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2)
        value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, step, LANES));
    return value;
}

// The sum over a block of at most 1024 threads, in the first thread.
template <typename T> __device__ T sum_of_block(T value) {
    __shared__ T parts[32];
    value = sum_of_lanes<32>(value);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : T(0);
        value = sum_of_lanes<32>(value);
    }
    __syncthreads();
    return value;
}

#define INFINITE __int_as_float(0x7f800000)
#define NO_NUMBER __int_as_float(0x7fc00000)

// The row and the column of a number in a matrix: in 32 bits where those are enough, which is several times
// faster.
struct Place {
    wide row, column;
};

__device__ __forceinline__ Place place_of(wide i, wide columns) {
    Place place;
    if (((i | columns) >> 32) == 0) {
        const natural row = (natural)i / (natural)columns;
        place.row = row;
        place.column = (natural)i - row * (natural)columns;
    } else {
        place.row = i / columns;
        place.column = i - place.row * columns;
    }
    return place;
}
