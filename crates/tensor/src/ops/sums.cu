// Sums over the entries of each line. A group of LANES lanes has a segment, or all groups of a block have a
// long piece of a line; each lane has four columns (or the lanes go through the columns, where those cannot
// be divided so). COLUMNS is the width of a tile, WIDTH that of the rows, HEADS the parts of a row.

// The row that an entry adds, and where its value is.
__device__ __forceinline__ int row_of(const int* others, const int* origins, int own, int entry) {
    return own ? (origins ? origins[entry] : entry) : others[entry];
}

#ifdef COLUMNS
#define LANES (COLUMNS / 4)
// Small blocks: another begins as soon as one is done.
#define BLOCK 64
#define GROUPS (BLOCK / LANES)
#define QUARTERS (WIDTH / 4)
#define DEEP (WIDTH / HEADS)
// Rows that are loaded ahead of the first one's arrival, and the number where few are left.
#define AHEAD (LANES < 8 ? LANES : 8)
#define FEW 4

__device__ __forceinline__ unsigned lanes_of_group() {
    return LANES == 32 ? ALL_LANES : ((1u << (LANES & 31)) - 1u) << ((threadIdx.x & 31) / LANES * LANES);
}

// What the lanes of a group know of the entries that they go through together: each has the row, the place
// and the value of one.
struct Entries {
    int row, place, count;
    float value;
};

// Adds COUNT entries from `first` on, or as many as there are.
template <int COUNT> __device__ __forceinline__ void add_entries(float4& sum, const float4* from,
                                                                 unsigned group, const Entries& entries,
                                                                 int first, const float* values, int head) {
    float4 rows[COUNT];
    float factors[COUNT];
#pragma unroll
    for (int k = 0; k < COUNT; ++k) {
        const int other = __shfl_sync(group, entries.row, first + k, LANES);
        if (HEADS == 1) {
            factors[k] = __shfl_sync(group, entries.value, first + k, LANES);
        } else {
            const int at = __shfl_sync(group, entries.place, first + k, LANES);
            factors[k] = first + k < entries.count ? values[(wide)at * HEADS + head] : 0.f;
        }
        rows[k] = __ldg(from + (wide)other * QUARTERS);
    }
#pragma unroll
    for (int k = 0; k < COUNT; ++k) add_product(sum, factors[k], rows[k]);
}

// OWN: rows of entries themselves. Values are null where all are one; permuted values stand in the order of
// the lines. First come the pieces of long lines, then the segments that are whole lines. A line of several
// pieces is put together, in order, by the block that comes last: `turns` is zero before and after.
extern "C" __global__ void __launch_bounds__(BLOCK)
    sums(int pieces, const int4* __restrict__ piece_of, const int4* __restrict__ heaps, int* turns, int count,
         const int4* __restrict__ segments, const int* __restrict__ others, const int* __restrict__ origins,
         const float* __restrict__ values, int permuted, int own, const float4* __restrict__ x,
         float4* output, float4* parts, int adds) {
    __shared__ float4 heaped[BLOCK];
    const int lane = threadIdx.x % LANES, mine = threadIdx.x / LANES;
    const bool together = blockIdx.x < pieces;
    const int number = together ? blockIdx.x : (blockIdx.x - pieces) * GROUPS + mine;
    if (!together && number >= count) return;
    const int quarter = blockIdx.y * LANES + lane;
    const unsigned group = lanes_of_group();
    const int4 segment = __ldg((together ? piece_of : segments) + number);
    const int length = segment.z - segment.y;
    const int begin = together ? segment.y + length * mine / GROUPS : segment.y,
              end = together ? segment.y + length * (mine + 1) / GROUPS : segment.z;
    const int head = HEADS == 1 ? 0 : quarter * 4 / DEEP;
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
    const float4* from = x + quarter;
    for (int first = begin; first < end; first += LANES) {
        const int entry = min(first + lane, end - 1);
        const bool there = first + lane < end;
        Entries entries;
        entries.row = row_of(others, origins, own, entry);
        entries.place = origins && !permuted ? origins[entry] : entry;
        entries.value = there ? 1.f : 0.f;
        entries.count = min(LANES, end - first);
        if (HEADS == 1 && values && there) entries.value = values[entries.place];
        int j = 0;
        for (; j + FEW < entries.count; j += AHEAD)
            add_entries<AHEAD>(sum, from, group, entries, j, values, head);
        if (j < entries.count) add_entries<FEW>(sum, from, group, entries, j, values, head);
    }
    int line = segment.x;
    if (together) {
        heaped[threadIdx.x] = sum;
        __syncthreads();
        if (mine > 0) return;
        for (int i = 1; i < GROUPS; ++i) sum = sum_of(sum, heaped[i * LANES + lane]);
        if (segment.w) {
            const int4 heap = __ldg(heaps + segment.w - 1);
            int* turn = turns + (segment.w - 1) * gridDim.y + blockIdx.y;
            parts[(wide)segment.x * QUARTERS + quarter] = sum;
            __threadfence();
            __syncwarp(group);
            int before = 0;
            if (lane == 0) before = atomicAdd(turn, 1);
            before = __shfl_sync(group, before, 0, LANES);
            if (before + 1 < heap.z - heap.y) return;
            if (lane == 0) *turn = 0;
            __threadfence();
            sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll 8
            for (int part = heap.y; part < heap.z; ++part)
                sum = sum_of(sum, __ldcg(parts + (wide)part * QUARTERS + quarter));
            line = heap.x;
        }
    }
    float4* to = output + (wide)line * QUARTERS + quarter;
    if (adds) sum = sum_of(sum, *to);
    __stcs(to, sum);
}
#endif

// The same for rows of any width: a warp has a segment and goes through its columns.
extern "C" __global__ void __launch_bounds__(256)
    sums_of_any(int count, const int4* segments, const int* others, const int* origins, const float* values,
                int permuted, int own, const float* x, float* output, float* parts, int adds, int width,
                int heads) {
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
extern "C" __global__ void sums_of_parts(wide count, const int4* cuts, const float* parts, float* output,
                                         int adds, int width) {
    const wide i = thread_number();
    if (i >= count) return;
    const int4 cut = cuts[i / width];
    const int column = (int)(i % width);
    float sum = 0.f;
#pragma unroll 8
    for (int part = cut.y; part < cut.z; ++part) sum += parts[(wide)part * width + column];
    put(output + (wide)cut.x * width + column, sum, adds);
}

// Values in the order of another numbering of the same entries.
extern "C" __global__ void permute(wide count, const int* origins, const float* values, float* permuted) {
    const wide i = thread_number();
    if (i < count) permuted[i] = values[origins[i]];
}

// Of each entry, the product of the factors of its line and of its other end. A warp has a segment.
extern "C" __global__ void __launch_bounds__(256)
    factored(int count, const int4* segments, const int* others, const float* factors,
             const int* line_of_part, float* values) {
    const int number = (int)(thread_number() / 32), lane = threadIdx.x % 32;
    if (number >= count) return;
    const int4 segment = __ldg(segments + number);
    const float mine = factors[segment.w ? line_of_part[segment.x] : segment.x];
    for (int entry = segment.y + lane; entry < segment.z; entry += 32)
        values[entry] = factors[others[entry]] * mine;
}

// For each entry and head, the product of the row of its line and the row of its other end. A warp has a
// segment; for each entry its lanes go through the columns of a head.
extern "C" __global__ void __launch_bounds__(256)
    dots(int count, const int4* segments, const int* others, const float* left, const float* right,
         float* output, int adds, int width, int heads, const int* line_of_part) {
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
            for (int column = lane; column < deep; column += 32)
                sum = fmaf(mine[head * deep + column], other[head * deep + column], sum);
            sum = sum_of_lanes<32>(sum);
            if (lane == 0) put(output + (wide)entry * heads + head, sum, adds);
        }
    }
}
