// The transpose of a pattern. Entries come to their lines in any order and are sorted there, so that it is
// the same in every run. A key is the line that an entry comes from, and its number.

typedef unsigned long long key;

// A warp has a segment. `next` counts what has come to each line.
extern "C" __global__ void __launch_bounds__(256)
    scatter(int count, const int4* segments, const int* line_of_part, const int* others, const int* starts,
            int* next, key* keys) {
    const int number = (int)(thread_number() / 32), lane = threadIdx.x % 32;
    if (number >= count) return;
    const int4 segment = __ldg(segments + number);
    const key from = segment.w ? line_of_part[segment.x] : segment.x;
    for (int entry = segment.y + lane; entry < segment.z; entry += 32) {
        const int line = others[entry];
        keys[starts[line] + atomicAdd(next + line, 1)] = from << 32 | (key)entry;
    }
}

__device__ __forceinline__ void put_apart(key sorted, int at, int* others, int* origins) {
    others[at] = (int)(sorted >> 32);
    origins[at] = (int)(sorted & 0xffffffffu);
}

// A warp sorts a line of at most 32 entries in its lanes.
extern "C" __global__ void __launch_bounds__(256)
    sort_short(int lines, const int* starts, const key* keys, int* others, int* origins) {
    const int line = (int)(thread_number() / 32), lane = threadIdx.x % 32;
    if (line >= lines) return;
    const int start = starts[line], length = starts[line + 1] - start;
    if (length > 32) return;
    key mine = lane < length ? keys[start + lane] : ~(key)0;
#pragma unroll
    for (int size = 2; size <= 32; size *= 2) {
#pragma unroll
        for (int step = size / 2; step > 0; step /= 2) {
            const key other = __shfl_xor_sync(ALL_LANES, mine, step);
            const bool ascends = (lane & size) == 0, is_first = (lane & step) == 0;
            if ((mine > other) == (ascends == is_first)) mine = other;
        }
    }
    if (lane < length) put_apart(mine, start + lane, others, origins);
}

__device__ __forceinline__ void put_in_order(key* keys, wide low, wide high, int length) {
    if (high >= length || keys[low] < keys[high]) return;
    const key larger = keys[low];
    keys[low] = keys[high];
    keys[high] = larger;
}

// A block sorts a longer line where it is. The smaller of two always goes to the front, so that what lies
// behind the end, up to the next power of two, need not be there: it would stay.
extern "C" __global__ void __launch_bounds__(1024)
    sort_long(const int* lines, const int* starts, key* keys, int* others, int* origins) {
    const int line = lines[blockIdx.x], start = starts[line], length = starts[line + 1] - start;
    key* mine = keys + start;
    for (wide size = 2; size < 2 * (wide)length; size *= 2) {
        const wide half = size / 2, pairs = (length + size - 1) / size * half;
        for (wide pair = threadIdx.x; pair < pairs; pair += blockDim.x) {
            const wide first = pair / half * size, place = pair % half;
            put_in_order(mine, first + place, first + size - 1 - place, length);
        }
        __syncthreads();
        for (wide step = half / 2; step > 0; step /= 2) {
            for (wide pair = threadIdx.x; pair < pairs; pair += blockDim.x) {
                const wide low = pair / step * 2 * step + pair % step;
                put_in_order(mine, low, low + step, length);
            }
            __syncthreads();
        }
    }
    for (int place = threadIdx.x; place < length; place += blockDim.x)
        put_apart(mine[place], start + place, others, origins);
}
