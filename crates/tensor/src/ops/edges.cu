// Numbers for each entry and head of a sparse matrix: scores, and shares of the entries of a line. A warp has
// a segment: a line, or a part of one that was cut. Lines that were cut take three steps: their parts, what
// relates the parts, and the parts again.

__device__ __forceinline__ int segment_number() { return (int)(thread_number() / 32); }

extern "C" __global__ void __launch_bounds__(256)
    edge_scores(int count, const int4* segments, const int* lines_of_parts, const int* others,
                const float* left, const float* right, int heads, float slope, float* scores) {
    const int number = segment_number(), lane = threadIdx.x % 32;
    if (number >= count) return;
    const int4 segment = segments[number];
    const float* mine = left + (wide)(segment.w ? lines_of_parts[segment.x] : segment.x) * heads;
    const int length = (segment.z - segment.y) * heads;
    for (int i = lane; i < length; i += 32) {
        const int entry = segment.y + i / heads, head = i % heads;
        const float sum = mine[head] + right[(wide)others[entry] * heads + head];
        scores[(wide)entry * heads + head] = sum > 0.f ? sum : slope * sum;
    }
}

// The gradient of what scores were before negative ones were flattened, in place.
extern "C" __global__ void edge_scores_back(wide count, const float* scores, float slope, float* upstream) {
    const wide i = thread_number();
    if (i < count && !(scores[i] > 0.f)) upstream[i] *= slope;
}

// Sums over the entries of lines of rows with few columns, one for each entry: lanes go through the entries,
// not the columns.
extern "C" __global__ void __launch_bounds__(256)
    sums_of_narrow(int count, const int4* segments, const int* origins, const float* x, int width,
                   float* output, float* parts, int adds) {
    const int number = segment_number(), lane = threadIdx.x % 32;
    if (number >= count) return;
    const int4 segment = segments[number];
    for (int column = 0; column < width; ++column) {
        float sum = 0.f;
        for (int entry = segment.y + lane; entry < segment.z; entry += 32)
            sum += x[(wide)(origins ? origins[entry] : entry) * width + column];
        sum = sum_of_lanes<32>(sum);
        if (lane == 0)
            put((segment.w ? parts : output) + (wide)segment.x * width + column, sum, adds && !segment.w);
    }
}

// Shares of whole lines. Of a part, its largest score, and the sum of exponentials relative to it.
extern "C" __global__ void __launch_bounds__(256)
    softmax(int count, const int4* segments, const float* scores, int heads, float* shares, float* largest,
            float* sums) {
    const int number = segment_number(), lane = threadIdx.x % 32;
    if (number >= count) return;
    const int4 segment = segments[number];
    for (int head = 0; head < heads; ++head) {
        float most = -INFINITE, sum = 0.f;
        for (int entry = segment.y + lane; entry < segment.z; entry += 32)
            most = fmaxf(most, scores[(wide)entry * heads + head]);
        most = most_of_lanes<32>(most);
        for (int entry = segment.y + lane; entry < segment.z; entry += 32) {
            const float value = expf(scores[(wide)entry * heads + head] - most);
            // Read again by the same lane.
            shares[(wide)entry * heads + head] = value;
            sum += value;
        }
        sum = sum_of_lanes<32>(sum);
        if (segment.w) {
            if (lane == 0) {
                largest[(wide)segment.x * heads + head] = most;
                sums[(wide)segment.x * heads + head] = sum;
            }
        } else {
            const float factor = 1.f / sum;
            for (int entry = segment.y + lane; entry < segment.z; entry += 32)
                shares[(wide)entry * heads + head] *= factor;
        }
    }
}

// Of each line that was cut and head: what the exponentials of each part are to be multiplied by, in place of
// the sums. A warp has one.
extern "C" __global__ void __launch_bounds__(256)
    softmax_relate(wide count, const int4* cuts, int heads, const float* largest, float* sums) {
    const wide number = thread_number() / 32;
    const int lane = threadIdx.x % 32;
    if (number >= count) return;
    const Place place = place_of(number, heads);
    const int4 cut = cuts[place.row];
    float most = -INFINITE, sum = 0.f;
    for (int part = cut.y + lane; part < cut.z; part += 32)
        most = fmaxf(most, largest[(wide)part * heads + place.column]);
    most = most_of_lanes<32>(most);
    for (int part = cut.y + lane; part < cut.z; part += 32) {
        const wide at = (wide)part * heads + place.column;
        sum = fmaf(expf(largest[at] - most), sums[at], sum);
    }
    sum = sum_of_lanes<32>(sum);
    for (int part = cut.y + lane; part < cut.z; part += 32) {
        const wide at = (wide)part * heads + place.column;
        sums[at] = expf(largest[at] - most) / sum;
    }
}

// Multiplies the exponentials of parts by what relates them to their line.
extern "C" __global__ void __launch_bounds__(256)
    softmax_finish(int count, const int4* segments, int heads, const float* factors, float* shares) {
    const int number = segment_number(), lane = threadIdx.x % 32;
    if (number >= count) return;
    const int4 segment = segments[number];
    if (!segment.w) return;
    const int length = (segment.z - segment.y) * heads;
    for (int i = lane; i < length; i += 32)
        shares[(wide)segment.y * heads + i] *= factors[(wide)segment.x * heads + i % heads];
}

// Gradients of whole lines: share (upstream - mean). Of a part, what it adds to the mean of its line.
extern "C" __global__ void __launch_bounds__(256)
    softmax_back(int count, const int4* segments, const float* shares, const float* upstream, int heads,
                 float* means, float* gradient, int adds) {
    const int number = segment_number(), lane = threadIdx.x % 32;
    if (number >= count) return;
    const int4 segment = segments[number];
    for (int head = 0; head < heads; ++head) {
        float mean = 0.f;
        for (int entry = segment.y + lane; entry < segment.z; entry += 32) {
            const wide at = (wide)entry * heads + head;
            mean = fmaf(shares[at], upstream[at], mean);
        }
        mean = sum_of_lanes<32>(mean);
        if (segment.w) {
            if (lane == 0) means[(wide)segment.x * heads + head] = mean;
            continue;
        }
        for (int entry = segment.y + lane; entry < segment.z; entry += 32) {
            const wide at = (wide)entry * heads + head;
            put(gradient + at, shares[at] * (upstream[at] - mean), adds);
        }
    }
}

// Of each line that was cut and head: its mean, in the place of what each part adds to it. A warp has one.
extern "C" __global__ void __launch_bounds__(256)
    softmax_back_relate(wide count, const int4* cuts, int heads, float* means) {
    const wide number = thread_number() / 32;
    const int lane = threadIdx.x % 32;
    if (number >= count) return;
    const Place place = place_of(number, heads);
    const int4 cut = cuts[place.row];
    float mean = 0.f;
    for (int part = cut.y + lane; part < cut.z; part += 32) mean += means[(wide)part * heads + place.column];
    mean = sum_of_lanes<32>(mean);
    for (int part = cut.y + lane; part < cut.z; part += 32) means[(wide)part * heads + place.column] = mean;
}

extern "C" __global__ void __launch_bounds__(256)
    softmax_back_finish(int count, const int4* segments, const float* shares, const float* upstream,
                        int heads, const float* means, float* gradient, int adds) {
    const int number = segment_number(), lane = threadIdx.x % 32;
    if (number >= count) return;
    const int4 segment = segments[number];
    if (!segment.w) return;
    const int length = (segment.z - segment.y) * heads;
    for (int i = lane; i < length; i += 32) {
        const wide at = (wide)segment.y * heads + i;
        put(gradient + at, shares[at] * (upstream[at] - means[(wide)segment.x * heads + i % heads]), adds);
    }
}
