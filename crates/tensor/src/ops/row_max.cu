// The largest neighbour, number by number. A warp has a segment of a line and goes through the columns.

// Whether a value is to replace the best. What is not a number is, so that it is not hidden.
__device__ __forceinline__ bool is_better(float value, float best) { return value > best || value != value; }

// The largest of each line or part, and the entry it is from: the first of several that are equal, -1 where
// there is none.
extern "C" __global__ void __launch_bounds__(256)
    row_max(int count, const int4* segments, const int* others, const float* x, int width, float* output,
            int* from, float* best_of_parts, int* from_of_parts) {
    const int number = (int)(thread_number() / 32), lane = threadIdx.x % 32;
    if (number >= count) return;
    const int4 segment = segments[number];
    for (int column = lane; column < width; column += 32) {
        float best = 0.f;
        int place = -1;
        for (int entry = segment.y; entry < segment.z; ++entry) {
            const float value = x[(wide)others[entry] * width + column];
            if (place < 0 || is_better(value, best)) {
                best = value;
                place = entry;
            }
        }
        const wide at = (wide)segment.x * width + column;
        (segment.w ? best_of_parts : output)[at] = best;
        (segment.w ? from_of_parts : from)[at] = place;
    }
}

// Lines that were cut, from their parts in order.
extern "C" __global__ void row_max_of_parts(wide count, const int4* cuts, const float* best_of_parts,
                                            const int* from_of_parts, wide width, float* output, int* from) {
    const wide i = thread_number();
    if (i >= count) return;
    const Place place = place_of(i, width);
    const int4 cut = cuts[place.row];
    wide at = (wide)cut.y * width + place.column;
    float best = best_of_parts[at];
    int entry = from_of_parts[at];
    for (int part = cut.y + 1; part < cut.z; ++part) {
        at += width;
        if (is_better(best_of_parts[at], best)) {
            best = best_of_parts[at];
            entry = from_of_parts[at];
        }
    }
    output[(wide)cut.x * width + place.column] = best;
    from[(wide)cut.x * width + place.column] = entry;
}

// For each column of the matrix, the gradients of the rows in which its entry was the largest.
extern "C" __global__ void __launch_bounds__(256)
    row_max_back(int count, const int4* segments, const int* others, const int* origins, const int* from,
                 const float* upstream, int width, float* gradient, float* parts, int adds) {
    const int number = (int)(thread_number() / 32), lane = threadIdx.x % 32;
    if (number >= count) return;
    const int4 segment = segments[number];
    for (int column = lane; column < width; column += 32) {
        float sum = 0.f;
        for (int entry = segment.y; entry < segment.z; ++entry) {
            const wide at = (wide)others[entry] * width + column;
            if (from[at] == (origins ? origins[entry] : entry)) sum += upstream[at];
        }
        put((segment.w ? parts : gradient) + (wide)segment.x * width + column, sum, adds && !segment.w);
    }
}
