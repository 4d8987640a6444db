// Graph attention after the linear maps: scores of entries, their shares of each row, and the sum of
// neighbours by shares, in one pass over the entries of rows. Of a row and head the logarithm of its sum of
// exponentials is kept, from which the backward pass computes the shares again.
//
// Where WIDTH is defined, a group of LANES lanes has a segment and each lane four columns of one head, HEADS
// of them side by side; otherwise a warp has a segment and goes through heads and columns.

__device__ __forceinline__ float score_of(float sum, float slope) { return sum > 0.f ? sum : slope * sum; }
__device__ __forceinline__ float slope_of(float sum, float slope) { return sum > 0.f ? 1.f : slope; }

#ifdef WIDTH
#define LANES (WIDTH / 4)
#define DEEP (WIDTH / HEADS)
#define HEAD_LANES (DEEP / 4)

__device__ __forceinline__ unsigned lanes_of_group() {
    return LANES == 32 ? ALL_LANES : ((1u << (LANES & 31)) - 1u) << ((threadIdx.x & 31) / LANES * LANES);
}

extern "C" __global__ void __launch_bounds__(256)
    attend(int count, const int4* __restrict__ segments, const int* __restrict__ lines_of_parts,
           const int* __restrict__ others, const float* __restrict__ left, const float* __restrict__ right,
           const float4* __restrict__ x, float slope, float4* output, float* kept, float4* parts,
           float* about) {
    const int number = (int)(thread_number() / LANES);
    if (number >= count) return;
    const int lane = threadIdx.x % LANES, head = lane * 4 / DEEP;
    const unsigned group = lanes_of_group();
    const int4 segment = __ldg(segments + number);
    const int line = segment.w ? lines_of_parts[segment.x] : segment.x;
    const float mine = left[(wide)line * HEADS + head];
    float most = -INFINITE, sum = 0.f;
    float4 heard = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int first = segment.y; first < segment.z; first += LANES) {
        const int column = others[min(first + lane, segment.z - 1)];
        const int rest = min(LANES, segment.z - first);
        for (int j = 0; j < rest; j += 4) {
            float4 rows[4];
            float scores[4];
            float largest = most;
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int other = __shfl_sync(group, column, j + k, LANES);
                rows[k] = __ldg(x + (wide)other * LANES + lane);
                scores[k] = j + k < rest ? score_of(mine + __ldg(right + (wide)other * HEADS + head), slope)
                                         : -INFINITE;
                largest = fmaxf(largest, scores[k]);
            }
            // What was summed so far is brought down to the new largest score.
            const float down = expf(most - largest);
            most = largest;
            sum *= down;
            heard = make_float4(heard.x * down, heard.y * down, heard.z * down, heard.w * down);
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const float share = expf(scores[k] - most);
                sum += share;
                add_product(heard, share, rows[k]);
            }
        }
    }
    if (segment.w) {
        parts[(wide)segment.x * LANES + lane] = heard;
        if (lane % HEAD_LANES == 0) {
            about[(wide)segment.x * 2 * HEADS + head] = most;
            about[(wide)segment.x * 2 * HEADS + HEADS + head] = sum;
        }
        return;
    }
    const float factor = sum > 0.f ? 1.f / sum : 0.f;
    output[(wide)line * LANES + lane] =
        make_float4(heard.x * factor, heard.y * factor, heard.z * factor, heard.w * factor);
    if (lane % HEAD_LANES == 0) kept[(wide)line * HEADS + head] = most + logf(sum);
}

// The backward pass over the entries of columns: the gradients of x and of the scores of columns, and of
// every entry's score.
extern "C" __global__ void __launch_bounds__(256)
    attend_back(int count, const int4* __restrict__ segments, const int* __restrict__ lines_of_parts,
                const int* __restrict__ others, const int* __restrict__ origins,
                const float* __restrict__ left, const float* __restrict__ right, const float4* __restrict__ x,
                float slope, const float* __restrict__ kept, const float* __restrict__ means,
                const float4* __restrict__ upstream, float* gradients_of_scores, float4* dx, int dx_adds,
                float* dright, int dright_adds, float4* parts, float* right_parts) {
    const int number = (int)(thread_number() / LANES);
    if (number >= count) return;
    const int lane = threadIdx.x % LANES, head = lane * 4 / DEEP;
    const unsigned group = lanes_of_group();
    const int4 segment = __ldg(segments + number);
    const int line = segment.w ? lines_of_parts[segment.x] : segment.x;
    const float mine = right[(wide)line * HEADS + head];
    const float4 own = x[(wide)line * LANES + lane];
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
    float sum_of_scores = 0.f;
    for (int first = segment.y; first < segment.z; first += LANES) {
        const int at = min(first + lane, segment.z - 1);
        const int row = others[at], origin = origins ? origins[at] : at;
        const int rest = min(LANES, segment.z - first);
        for (int j = 0; j < rest; j += 4) {
            float4 rows[4];
            float before[4], logarithms[4], expected[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int other = __shfl_sync(group, row, j + k, LANES);
                rows[k] = __ldg(upstream + (wide)other * LANES + lane);
                before[k] = mine + __ldg(left + (wide)other * HEADS + head);
                logarithms[k] = __ldg(kept + (wide)other * HEADS + head);
                expected[k] = __ldg(means + (wide)other * HEADS + head);
            }
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int entry = __shfl_sync(group, origin, j + k, LANES);
                float dot = own.x * rows[k].x + own.y * rows[k].y + own.z * rows[k].z + own.w * rows[k].w;
#pragma unroll
                for (int step = HEAD_LANES / 2; step > 0; step /= 2)
                    dot += __shfl_xor_sync(group, dot, step, LANES);
                if (j + k >= rest) continue;
                const float share = expf(score_of(before[k], slope) - logarithms[k]);
                const float change = share * (dot - expected[k]) * slope_of(before[k], slope);
                add_product(sum, share, rows[k]);
                sum_of_scores += change;
                if (lane % HEAD_LANES == 0) gradients_of_scores[(wide)entry * HEADS + head] = change;
            }
        }
    }
    float4* to = (segment.w ? parts : dx) + (wide)segment.x * LANES + lane;
    if (dx_adds && !segment.w) sum = sum_of(sum, *to);
    *to = sum;
    if (lane % HEAD_LANES == 0)
        put((segment.w ? right_parts : dright) + (wide)segment.x * HEADS + head, sum_of_scores,
            dright_adds && !segment.w);
}
#endif

extern "C" __global__ void __launch_bounds__(256)
    attend_any(int count, const int4* segments, const int* lines_of_parts, const int* others,
               const float* left, const float* right, const float* x, float slope, float* output, float* kept,
               float* parts, float* about, int width, int heads) {
    const int number = (int)(thread_number() / 32), lane = threadIdx.x % 32, deep = width / heads;
    if (number >= count) return;
    const int4 segment = segments[number];
    const int line = segment.w ? lines_of_parts[segment.x] : segment.x;
    for (int head = 0; head < heads; ++head) {
        const float mine = left[(wide)line * heads + head];
        float most = -INFINITE, sum = 0.f;
        for (int entry = segment.y + lane; entry < segment.z; entry += 32)
            most = fmaxf(most, score_of(mine + right[(wide)others[entry] * heads + head], slope));
        most = most_of_lanes<32>(most);
        for (int entry = segment.y + lane; entry < segment.z; entry += 32)
            sum += expf(score_of(mine + right[(wide)others[entry] * heads + head], slope) - most);
        sum = sum_of_lanes<32>(sum);
        const float factor = segment.w ? 1.f : sum > 0.f ? 1.f / sum : 0.f;
        float* to = (segment.w ? parts : output) + (wide)segment.x * width + head * deep;
        for (int column = lane; column < deep; column += 32) {
            float heard = 0.f;
            for (int entry = segment.y; entry < segment.z; ++entry) {
                const wide other = others[entry];
                const float share = expf(score_of(mine + right[other * heads + head], slope) - most);
                heard = fmaf(share, x[other * width + head * deep + column], heard);
            }
            to[column] = heard * factor;
        }
        if (lane == 0 && segment.w) {
            about[(wide)segment.x * 2 * heads + head] = most;
            about[(wide)segment.x * 2 * heads + heads + head] = sum;
        } else if (lane == 0) {
            kept[(wide)line * heads + head] = most + logf(sum);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
    attend_back_any(int count, const int4* segments, const int* lines_of_parts, const int* others,
                    const int* origins, const float* left, const float* right, const float* x, float slope,
                    const float* kept, const float* means, const float* upstream, float* gradients_of_scores,
                    float* dx, int dx_adds, float* dright, int dright_adds, float* parts, float* right_parts,
                    int width, int heads) {
    const int number = (int)(thread_number() / 32), lane = threadIdx.x % 32, deep = width / heads;
    if (number >= count) return;
    const int4 segment = segments[number];
    const int line = segment.w ? lines_of_parts[segment.x] : segment.x;
    for (int head = 0; head < heads; ++head) {
        const float mine = right[(wide)line * heads + head];
        const float* own = x + (wide)line * width + head * deep;
        float sum_of_scores = 0.f;
        for (int entry = segment.y; entry < segment.z; ++entry) {
            const wide other = others[entry];
            float dot = 0.f;
            for (int column = lane; column < deep; column += 32)
                dot = fmaf(own[column], upstream[other * width + head * deep + column], dot);
            dot = sum_of_lanes<32>(dot);
            const float before = mine + left[other * heads + head];
            const float share = expf(score_of(before, slope) - kept[other * heads + head]);
            const float change = share * (dot - means[other * heads + head]) * slope_of(before, slope);
            sum_of_scores += change;
            if (lane == 0)
                gradients_of_scores[(wide)(origins ? origins[entry] : entry) * heads + head] = change;
        }
        float* to = (segment.w ? parts : dx) + (wide)segment.x * width + head * deep;
        for (int column = lane; column < deep; column += 32) {
            float sum = 0.f;
            for (int entry = segment.y; entry < segment.z; ++entry) {
                const wide other = others[entry];
                const float share =
                    expf(score_of(mine + left[other * heads + head], slope) - kept[other * heads + head]);
                sum = fmaf(share, upstream[other * width + head * deep + column], sum);
            }
            put(to + column, sum, dx_adds && !segment.w);
        }
        if (lane == 0)
            put((segment.w ? right_parts : dright) + (wide)segment.x * heads + head, sum_of_scores,
                dright_adds && !segment.w);
    }
}

// Puts lines that were cut together from their parts: a thread has a column of such a line.
extern "C" __global__ void attend_parts(wide count, const int4* cuts, const float* parts, const float* about,
                                        float* output, float* kept, int width, int heads) {
    const wide i = thread_number();
    if (i >= count) return;
    const int4 cut = cuts[i / width];
    const int column = (int)(i % width), deep = width / heads, head = column / deep;
    float most = -INFINITE, sum = 0.f, heard = 0.f;
    for (int part = cut.y; part < cut.z; ++part) most = fmaxf(most, about[(wide)part * 2 * heads + head]);
    for (int part = cut.y; part < cut.z; ++part) {
        const float factor = expf(about[(wide)part * 2 * heads + head] - most);
        sum = fmaf(factor, about[(wide)part * 2 * heads + heads + head], sum);
        heard = fmaf(factor, parts[(wide)part * width + column], heard);
    }
    output[(wide)cut.x * width + column] = heard / sum;
    if (column % deep == 0) kept[(wide)cut.x * heads + head] = most + logf(sum);
}

// Of each row and head, the product of its output and its gradient: the mean of the gradients of its shares,
// by share.
extern "C" __global__ void __launch_bounds__(256)
    attend_means(wide count, const float* output, const float* upstream, int deep, float* means) {
    const wide number = thread_number() / 8;
    const int lane = threadIdx.x % 8;
    float sum = 0.f;
    if (number < count)
        for (int i = lane; i < deep; i += 8)
            sum = fmaf(output[number * deep + i], upstream[number * deep + i], sum);
    sum = sum_of_lanes<8>(sum);
    if (number < count && lane == 0) means[number] = sum;
}
