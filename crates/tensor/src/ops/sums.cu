// Sums over the entries of each line. A group of LANES lanes has a segment; each lane has four columns (or the lanes go through the
// columns, where those cannot be divided so). COLUMNS is the width of a tile, WIDTH that of the rows, HEADS the parts of a row.

// The row that an entry adds, and where its value is.
__device__ __forceinline__ int row_of(const int* others, const int* origins, int own, int entry) {
    return own ? (origins ? origins[entry] : entry) : others[entry];
}

#ifdef COLUMNS
#define LANES (COLUMNS / 4)
#define QUARTERS (WIDTH / 4)
#define DEEP (WIDTH / HEADS)
// Rows that are asked for before the first of them is there.
#define AHEAD (LANES < 8 ? LANES : 8)

__device__ __forceinline__ unsigned lanes_of_group() {
    return LANES == 32 ? ALL_LANES : ((1u << (LANES & 31)) - 1u) << ((threadIdx.x & 31) / LANES * LANES);
}

// OWN: rows of entries themselves. Values are null where all are one; permuted values stand in the order of the lines.
extern "C" __global__ void __launch_bounds__(256)
    sums(int count, const int4* __restrict__ segments, const int* __restrict__ others, const int* __restrict__ origins,
         const float* __restrict__ values, int permuted, int own, const float4* __restrict__ x, float4* output, float4* parts,
         int adds) {
    const int number = (int)(thread_number() / LANES);
    if (number >= count) return;
    const int lane = threadIdx.x % LANES;
    const int quarter = blockIdx.y * LANES + lane;
    const unsigned group = lanes_of_group();
    const int4 segment = __ldg(segments + number);
    const int head = HEADS == 1 ? 0 : quarter * 4 / DEEP;
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
    const float4* from = x + quarter;
    for (int first = segment.y; first < segment.z; first += LANES) {
        const int mine = min(first + lane, segment.z - 1);
        const bool there = first + lane < segment.z;
        const int row = row_of(others, origins, own, mine);
        const int place = origins && !permuted ? origins[mine] : mine;
        float value = there ? 1.f : 0.f;
        if (HEADS == 1 && values && there) value = values[place];
        const int rest = min(LANES, segment.z - first);
        for (int j = 0; j < rest; j += AHEAD) {
            float4 rows[AHEAD];
            float factors[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                const int other = __shfl_sync(group, row, j + k, LANES);
                if (HEADS == 1) {
                    factors[k] = __shfl_sync(group, value, j + k, LANES);
                } else {
                    const int at = __shfl_sync(group, place, j + k, LANES);
                    factors[k] = j + k < rest ? values[(wide)at * HEADS + head] : 0.f;
                }
                rows[k] = __ldg(from + (wide)other * QUARTERS);
            }
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) add_product(sum, factors[k], rows[k]);
        }
    }
    float4* to = (segment.w ? parts : output) + (wide)segment.x * QUARTERS + quarter;
    if (adds && !segment.w) sum = sum_of(sum, *to);
    __stcs(to, sum);
}
#endif

// The same for rows of any width: a warp has a segment and goes through its columns.
extern "C" __global__ void __launch_bounds__(256)
    sums_of_any(int count, const int4* segments, const int* others, const int* origins, const float* values, int permuted, int own,
                const float* x, float* output, float* parts, int adds, int width, int heads) {
    const int number = (int)(thread_number() / 32), lane = threadIdx.x % 32;
    if (number >= count) return;
    const int4 segment = segments[number];
    const int deep = width / heads;
    for (int column = lane; column < width; column += 32) {
        float sum = 0.f;
        for (int entry = segment.y; entry < segment.z; ++entry) {
            const int place = origins && !permuted ? origins[entry] : entry;
            const float factor = values ? values[(wide)place * heads + column / deep] : 1.f;
            sum = fmaf(factor, x[(wide)row_of(others, origins, own, entry) * width + column], sum);
        }
        put((segment.w ? parts : output) + (wide)segment.x * width + column, sum, adds && !segment.w);
    }
}

// Puts lines that were cut together from their parts, in order.
extern "C" __global__ void sums_of_parts(wide count, const int4* cuts, const float* parts, float* output, int adds, int width) {
    const wide i = thread_number();
    if (i >= count) return;
    const int4 cut = cuts[i / width];
    const int column = (int)(i % width);
    float sum = 0.f;
    for (int part = cut.y; part < cut.z; ++part) sum += parts[(wide)part * width + column];
    put(output + (wide)cut.x * width + column, sum, adds);
}

// Values in the order of another numbering of the same entries.
extern "C" __global__ void permute(wide count, const int* origins, const float* values, float* permuted) {
    const wide i = thread_number();
    if (i < count) permuted[i] = values[origins[i]];
}

// For each entry and head, the product of the row of its line and the row of its other end. A warp has a segment; for each entry
// its lanes go through the columns of a head.
extern "C" __global__ void __launch_bounds__(256)
    dots(int count, const int4* segments, const int* others, const float* left, const float* right, float* output,
         int adds, int width, int heads, const int* line_of_part) {
    const int number = (int)(thread_number() / 32), lane = threadIdx.x % 32;
    if (number >= count) return;
    const int4 segment = segments[number];
    const int line = segment.w ? line_of_part[segment.x] : segment.x;
    const int deep = width / heads;
    const float* mine = left + (wide)line * width;
    for (int entry = segment.y; entry < segment.z; ++entry) {
        const float* other = right + (wide)others[entry] * width;
        for (int head = 0; head < heads; ++head) {
            float sum = 0.f;
            for (int column = lane; column < deep; column += 32) sum = fmaf(mine[head * deep + column], other[head * deep + column], sum);
            sum = sum_of_lanes<32>(sum);
            if (lane == 0) put(output + (wide)entry * heads + head, sum, adds);
        }
    }
}
