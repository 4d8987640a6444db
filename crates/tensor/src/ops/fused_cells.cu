// Recurrent cells with their products inside, on tensor cores: factors are rounded to TF32, sums are kept in single precision. The weights
// stay in shared memory while tiles of rows stream past, so pre-activations are never written to memory.
//
// CELL is the kind of cell, WIDTH that of the state (16, 32 or 64), INPUT that of the input (a multiple of 8), STATE whether there is a
// state before, DX whether the gradient of the input is wanted. A block has 16 warps or fewer: each has 16 rows of the tile and 16 units, all gates of
// them. What the parts of a row of gates are is the same as in cells.cu.

#define LSTM 0
#define GRU 1
#define GATED 2

#define UNITS (WIDTH / 16)
#define TILE (16 * WARPS / UNITS)
#define THREADS (32 * WARPS)
#define EIGHTHS (WIDTH / 8)
#define GROUPS (CELL == GATED ? 3 : 4)
#define X_GROUPS (CELL == LSTM ? 4 : 3)
#define H_GROUPS (CELL == LSTM ? 4 : CELL == GRU ? 3 : 2)
#define STATE_WIDTH (CELL == LSTM ? 2 * WIDTH : WIDTH)
#define X_STRIDE (INPUT + 4)
#define H_STRIDE (WIDTH + 4)
#define D_STRIDE (GROUPS * WIDTH + 4)

extern __shared__ float shared[];

// The group of gates that part `number` of an input's (or a state's) product goes to.
__device__ __forceinline__ constexpr int x_group(int number) { return CELL == GRU && number == 2 ? 3 : number; }

__device__ __forceinline__ unsigned rounded(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

__device__ __forceinline__ void multiply_add(float* sum, const unsigned* a, uint2 b) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

// A weight of `inner` by 8 * `tiles` numbers in the order in which the products take them: for every eight of its rows and eight of its columns
// two numbers a lane. The number at (k, n) is at weight[k * by_inner + n * by_column].
__device__ __forceinline__ void pack(uint2* to, const float* weight, int inner, int tiles, int by_inner, int by_column) {
    const int all = inner / 8 * tiles * 32;
    for (int i = threadIdx.x; i < all; i += blockDim.x) {
        const int lane = i & 31, tile = (i >> 5) % tiles, k = (i >> 5) / tiles * 8 + (lane & 3), n = tile * 8 + (lane >> 2);
        to[i] = make_uint2(rounded(weight[(wide)k * by_inner + (wide)n * by_column]), rounded(weight[(wide)(k + 4) * by_inner + (wide)n * by_column]));
    }
}

// Sixteen rows and eight columns of a tile, as a product takes them.
template <bool ROUND> __device__ __forceinline__ void take(unsigned* a, const float* tile, int stride, int row, int column) {
    const int lane = threadIdx.x & 31;
    const float* at = tile + (row + (lane >> 2)) * stride + column + (lane & 3);
    a[0] = __float_as_uint(at[0]);
    a[1] = __float_as_uint(at[8 * stride]);
    a[2] = __float_as_uint(at[4]);
    a[3] = __float_as_uint(at[8 * stride + 4]);
    if (ROUND)
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = rounded(__uint_as_float(a[i]));
}

__device__ __forceinline__ float soft_step(float x) { return __fdividef(1.f, 1.f + __expf(-x)); }
__device__ __forceinline__ float soft_sign(float x) { return 1.f - __fdividef(2.f, __expf(2.f * x) + 1.f); }
__device__ __forceinline__ float2 both(float2 x, float (*f)(float)) { return make_float2(f(x.x), f(x.y)); }
__device__ __forceinline__ float2 plus(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ __forceinline__ float2 minus(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ __forceinline__ float2 times(float2 a, float2 b) { return make_float2(a.x * b.x, a.y * b.y); }
__device__ __forceinline__ float2 rest(float2 a) { return make_float2(1.f - a.x, 1.f - a.y); }
__device__ __forceinline__ float2 pair_at(const float* at) { return *(const float2*)at; }
__device__ __forceinline__ void put_pair(float* at, float2 value, int adds) { *(float2*)at = adds ? plus(*(float2*)at, value) : value; }
__device__ __forceinline__ float2 of(const float* sums, int half) { return make_float2(sums[2 * half], sums[2 * half + 1]); }

#ifdef FORWARD
#define X_PACKED (INPUT / 8 * X_GROUPS * EIGHTHS * 32)
#define H_PACKED (STATE ? EIGHTHS * H_GROUPS * EIGHTHS * 32 : 0)
#define N_PACKED (STATE && CELL == GATED ? EIGHTHS * EIGHTHS * 32 : 0)
#define X_LOADS ((TILE * INPUT / 4 + THREADS - 1) / THREADS)
#define H_LOADS 2

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    fused_forward(int rows, const float* __restrict__ x, const float* __restrict__ x_weight, const float* __restrict__ bias,
                  const float* __restrict__ state, const float* __restrict__ h_weight, const float* __restrict__ h_bias, float* cell, float* aside,
                  float* output) {
    uint2* packed_x = (uint2*)shared;
    uint2* packed_h = packed_x + X_PACKED;
    uint2* packed_n = packed_h + H_PACKED;
    float* tile_x = (float*)(packed_n + N_PACKED);
    float* tile_h = tile_x + TILE * X_STRIDE;
    float* tile_r = tile_h + (STATE ? TILE * H_STRIDE : 0);
    pack(packed_x, x_weight, INPUT, X_GROUPS * EIGHTHS, X_GROUPS * WIDTH, 1);
    const int h_columns = CELL == GATED ? 3 * WIDTH : H_GROUPS * WIDTH;
    if (STATE) pack(packed_h, h_weight, WIDTH, H_GROUPS * EIGHTHS, h_columns, 1);
    if (STATE && CELL == GATED) pack(packed_n, h_weight + 2 * WIDTH, WIDTH, EIGHTHS, h_columns, 1);
    const int thread = threadIdx.x, warp = thread >> 5, lane = thread & 31, t = lane & 3;
    const int units = warp % UNITS, first_row = warp / UNITS * 16;
    const int tiles = (rows + TILE - 1) / TILE;
    float4 next_x[X_LOADS], next_h[H_LOADS];
    auto fetch = [&](int tile) {
#pragma unroll
        for (int i = 0; i < X_LOADS; ++i) {
            const int id = i * THREADS + thread, row = id / (INPUT / 4);
            const wide at = (wide)tile * TILE + row;
            next_x[i] = row < TILE && at < rows ? __ldcs((const float4*)x + at * (INPUT / 4) + id % (INPUT / 4)) : make_float4(0.f, 0.f, 0.f, 0.f);
        }
        if (STATE)
#pragma unroll
            for (int i = 0; i < H_LOADS; ++i) {
                const int id = i * THREADS + thread, row = id / (WIDTH / 4);
                const wide at = (wide)tile * TILE + row;
                next_h[i] = at < rows ? *(const float4*)(state + at * STATE_WIDTH + id % (WIDTH / 4) * 4) : make_float4(0.f, 0.f, 0.f, 0.f);
            }
    };
    int tile = blockIdx.x;
    if (tile < tiles) fetch(tile);
    for (; tile < tiles; tile += gridDim.x) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < X_LOADS; ++i) {
            const int id = i * THREADS + thread, row = id / (INPUT / 4);
            if (row < TILE)
                *(uint4*)(tile_x + row * X_STRIDE + id % (INPUT / 4) * 4) =
                    make_uint4(rounded(next_x[i].x), rounded(next_x[i].y), rounded(next_x[i].z), rounded(next_x[i].w));
        }
        if (STATE)
#pragma unroll
            for (int i = 0; i < H_LOADS; ++i) {
                const int id = i * THREADS + thread;
                *(float4*)(tile_h + id / (WIDTH / 4) * H_STRIDE + id % (WIDTH / 4) * 4) = next_h[i];
            }
        __syncthreads();
        if (tile + gridDim.x < tiles) fetch(tile + gridDim.x);
        float sums[2 * GROUPS][4] = {};
#pragma unroll 4
        for (int k = 0; k < INPUT / 8; ++k) {
            unsigned a[4];
            take<false>(a, tile_x, X_STRIDE, first_row, k * 8);
#pragma unroll
            for (int part = 0; part < X_GROUPS; ++part)
#pragma unroll
                for (int j = 0; j < 2; ++j)
                    multiply_add(sums[2 * x_group(part) + j], a, packed_x[((k * X_GROUPS + part) * EIGHTHS + units * 2 + j) * 32 + lane]);
        }
        if (STATE)
#pragma unroll 4
            for (int k = 0; k < EIGHTHS; ++k) {
                unsigned a[4];
                take<true>(a, tile_h, H_STRIDE, first_row, k * 8);
#pragma unroll
                for (int part = 0; part < H_GROUPS; ++part)
#pragma unroll
                    for (int j = 0; j < 2; ++j)
                        multiply_add(sums[2 * part + j], a, packed_h[((k * H_GROUPS + part) * EIGHTHS + units * 2 + j) * 32 + lane]);
            }
        if (CELL == GATED && STATE) {
#pragma unroll
            for (int j = 0; j < 2; ++j)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int row = first_row + (lane >> 2) + 8 * half, unit = units * 16 + j * 8 + 2 * t;
                    const wide at = (wide)tile * TILE + row;
                    const float2 r = both(plus(of(sums[2 + j], half), pair_at(bias + WIDTH + unit)), soft_step);
                    const float2 passed = times(r, pair_at(tile_h + row * H_STRIDE + unit));
                    *(uint2*)(tile_r + row * H_STRIDE + unit) = make_uint2(rounded(passed.x), rounded(passed.y));
                    if (at < rows) {
                        *(float2*)(cell + at * 3 * WIDTH + WIDTH + unit) = r;
                        *(float2*)(aside + at * WIDTH + unit) = passed;
                    }
                }
            __syncthreads();
#pragma unroll 4
            for (int k = 0; k < EIGHTHS; ++k) {
                unsigned a[4];
                take<false>(a, tile_r, H_STRIDE, first_row, k * 8);
#pragma unroll
                for (int j = 0; j < 2; ++j) multiply_add(sums[4 + j], a, packed_n[(k * EIGHTHS + units * 2 + j) * 32 + lane]);
            }
        }
#pragma unroll
        for (int j = 0; j < 2; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = first_row + (lane >> 2) + 8 * half, unit = units * 16 + j * 8 + 2 * t;
                const wide at = (wide)tile * TILE + row;
                if (at >= rows) continue;
                float* to = cell + at * GROUPS * WIDTH + unit;
                if (CELL == LSTM) {
                    const float2 in = both(plus(of(sums[j], half), pair_at(bias + unit)), soft_step);
                    const float2 forget = both(plus(of(sums[2 + j], half), pair_at(bias + WIDTH + unit)), soft_step);
                    const float2 gate = both(plus(of(sums[4 + j], half), pair_at(bias + 2 * WIDTH + unit)), soft_sign);
                    const float2 out = both(plus(of(sums[2 * (GROUPS - 1) + j], half), pair_at(bias + 3 * WIDTH + unit)), soft_step);
                    float2 c = times(in, gate);
                    if (STATE) c = plus(c, times(forget, pair_at(state + at * STATE_WIDTH + WIDTH + unit)));
                    const float2 tangent = both(c, soft_sign);
                    *(float2*)to = in;
                    *(float2*)(to + WIDTH) = forget;
                    *(float2*)(to + 2 * WIDTH) = gate;
                    *(float2*)(to + 3 * WIDTH) = out;
                    *(float2*)(aside + at * WIDTH + unit) = tangent;
                    *(float2*)(output + at * 2 * WIDTH + unit) = times(out, tangent);
                    *(float2*)(output + at * 2 * WIDTH + WIDTH + unit) = c;
                    continue;
                }
                const float2 before = STATE ? pair_at(tile_h + row * H_STRIDE + unit) : make_float2(0.f, 0.f);
                float2 keep, fresh;
                if (CELL == GRU) {
                    const float2 r = both(plus(plus(of(sums[j], half), pair_at(bias + unit)), pair_at(h_bias + unit)), soft_step);
                    keep = both(plus(plus(of(sums[2 + j], half), pair_at(bias + WIDTH + unit)), pair_at(h_bias + WIDTH + unit)), soft_step);
                    const float2 hidden = plus(of(sums[4 + j], half), pair_at(h_bias + 2 * WIDTH + unit));
                    fresh = both(plus(plus(of(sums[2 * (GROUPS - 1) + j], half), pair_at(bias + 2 * WIDTH + unit)), times(r, hidden)), soft_sign);
                    *(float2*)to = r;
                    *(float2*)(to + WIDTH) = keep;
                    *(float2*)(to + 2 * WIDTH) = hidden;
                    *(float2*)(to + 3 * WIDTH) = fresh;
                } else {
                    keep = both(plus(of(sums[j], half), pair_at(bias + unit)), soft_step);
                    fresh = both(plus(of(sums[4 + j], half), pair_at(bias + 2 * WIDTH + unit)), soft_sign);
                    *(float2*)to = keep;
                    *(float2*)(to + 2 * WIDTH) = fresh;
                }
                *(float2*)(output + at * WIDTH + unit) = plus(fresh, times(keep, minus(before, fresh)));
            }
    }
}
#endif

#ifdef BACKWARD
#define H_PACKED (STATE ? H_GROUPS * EIGHTHS * EIGHTHS * 32 : 0)
#define N_PACKED (STATE && CELL == GATED ? EIGHTHS * EIGHTHS * 32 : 0)
#define X_TILES (INPUT / 8)
#define X_PACKED (DX ? X_GROUPS * EIGHTHS * X_TILES * 32 : 0)
#define X_MINE (X_TILES / UNITS)

// Adds up the product of some groups of a tile of gates with a packed weight.
template <int MINE, int COUNT, bool OF_INPUT>
__device__ __forceinline__ void times_gates(float (*sums)[4], const float* gates, const uint2* packed, int tiles, int first_row, int first_tile) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int part = 0; part < COUNT; ++part)
#pragma unroll 4
        for (int k = 0; k < EIGHTHS; ++k) {
            unsigned a[4];
            take<false>(a, gates, D_STRIDE, first_row, (OF_INPUT ? x_group(part) : part) * WIDTH + k * 8);
#pragma unroll
            for (int j = 0; j < MINE; ++j) multiply_add(sums[j], a, packed[((part * EIGHTHS + k) * tiles + first_tile + j) * 32 + lane]);
        }
}

// Keeps gradients of two units of a gate: in memory for the weights, in the tile for products, in a sum for the biases.
__device__ __forceinline__ void keep_gate(float2 value, bool there, float* gates, float* tile, float2& sum) {
    if (there) *(float2*)gates = value;
    *(uint2*)tile = make_uint2(rounded(value.x), rounded(value.y));
    sum = plus(sum, value);
}

extern "C" __global__ void __launch_bounds__(THREADS, 16 / WARPS)
    fused_backward(int rows, const float* __restrict__ cell, const float* __restrict__ aside, const float* __restrict__ state,
                   const float* __restrict__ upstream, const float* __restrict__ x_weight, const float* __restrict__ h_weight, float* gates,
                   float* before, int adds, float* dx, int dx_adds, float* parts) {
    uint2* packed_h = (uint2*)shared;
    uint2* packed_n = packed_h + H_PACKED;
    uint2* packed_x = packed_n + N_PACKED;
    float* tile_d = (float*)(packed_x + X_PACKED);
    const int h_columns = CELL == GATED ? 3 * WIDTH : H_GROUPS * WIDTH;
    if (STATE) pack(packed_h, h_weight, H_GROUPS * WIDTH, EIGHTHS, 1, h_columns);
    if (STATE && CELL == GATED) pack(packed_n, h_weight + 2 * WIDTH, WIDTH, EIGHTHS, 1, h_columns);
    if (DX) pack(packed_x, x_weight, X_GROUPS * WIDTH, X_TILES, 1, X_GROUPS * WIDTH);
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, t = lane & 3;
    const int units = warp % UNITS, first_row = warp / UNITS * 16;
    const int tiles = (rows + TILE - 1) / TILE;
    float2 sums_of_gates[GROUPS][2] = {};
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        // What each thread needs of its four pairs of units, asked for before anything is written.
        float2 loaded[4][7], direct[4];
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const int j = q >> 1, half = q & 1, row = first_row + (lane >> 2) + 8 * half, unit = units * 16 + j * 8 + 2 * t;
            const wide at = (wide)tile * TILE + row;
#pragma unroll
            for (int i = 0; i < 7; ++i) loaded[q][i] = make_float2(0.f, 0.f);
            if (at >= rows) continue;
#pragma unroll
            for (int group = 0; group < GROUPS; ++group) loaded[q][group] = pair_at(cell + at * GROUPS * WIDTH + group * WIDTH + unit);
            loaded[q][4] = pair_at(upstream + at * STATE_WIDTH + unit);
            if (CELL == LSTM) {
                loaded[q][5] = pair_at(upstream + at * STATE_WIDTH + WIDTH + unit);
                loaded[q][6] = pair_at(aside + at * WIDTH + unit);
                if (STATE) direct[q] = pair_at(state + at * STATE_WIDTH + WIDTH + unit);
            } else if (STATE) {
                loaded[q][5] = pair_at(state + at * WIDTH + unit);
            }
        }
        __syncthreads();
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const int j = q >> 1, half = q & 1, row = first_row + (lane >> 2) + 8 * half, unit = units * 16 + j * 8 + 2 * t;
            const wide at = (wide)tile * TILE + row;
            const bool there = at < rows;
            float* to = gates + at * GROUPS * WIDTH + unit;
            float* in_tile = tile_d + row * D_STRIDE + unit;
            const float2 g = loaded[q][4];
            if (CELL == LSTM) {
                const float2 in = loaded[q][0], forget = loaded[q][1], gate = loaded[q][2], out = loaded[q][GROUPS - 1], tangent = loaded[q][6];
                const float2 dc = plus(times(times(g, out), rest(times(tangent, tangent))), loaded[q][5]);
                keep_gate(times(times(dc, gate), times(in, rest(in))), there, to, in_tile, sums_of_gates[0][j]);
                const float2 c = STATE && there ? direct[q] : make_float2(0.f, 0.f);
                keep_gate(times(times(dc, c), times(forget, rest(forget))), there, to + WIDTH, in_tile + WIDTH, sums_of_gates[1][j]);
                keep_gate(times(times(dc, in), rest(times(gate, gate))), there, to + 2 * WIDTH, in_tile + 2 * WIDTH, sums_of_gates[2][j]);
                keep_gate(times(times(g, tangent), times(out, rest(out))), there, to + 3 * WIDTH, in_tile + 3 * WIDTH,
                          sums_of_gates[GROUPS - 1][j]);
                if (there && before) put_pair(before + at * STATE_WIDTH + WIDTH + unit, times(dc, forget), adds);
                direct[q] = make_float2(0.f, 0.f);
            } else if (CELL == GRU) {
                const float2 r = loaded[q][0], keep = loaded[q][1], hidden = loaded[q][2], fresh = loaded[q][GROUPS - 1];
                const float2 dn = times(times(g, rest(keep)), rest(times(fresh, fresh))), dhidden = times(dn, r);
                keep_gate(times(times(dhidden, hidden), rest(r)), there, to, in_tile, sums_of_gates[0][j]);
                keep_gate(times(times(g, minus(loaded[q][5], fresh)), times(keep, rest(keep))), there, to + WIDTH, in_tile + WIDTH,
                          sums_of_gates[1][j]);
                keep_gate(dhidden, there, to + 2 * WIDTH, in_tile + 2 * WIDTH, sums_of_gates[2][j]);
                keep_gate(dn, there, to + 3 * WIDTH, in_tile + 3 * WIDTH, sums_of_gates[GROUPS - 1][j]);
                direct[q] = times(g, keep);
            } else {
                const float2 keep = loaded[q][0], fresh = loaded[q][2], stays = times(g, rest(keep));
                keep_gate(times(times(stays, keep), minus(loaded[q][5], fresh)), there, to, in_tile, sums_of_gates[0][j]);
                keep_gate(times(stays, rest(times(fresh, fresh))), there, to + 2 * WIDTH, in_tile + 2 * WIDTH, sums_of_gates[2][j]);
                if (!STATE) keep_gate(make_float2(0.f, 0.f), there, to + WIDTH, in_tile + WIDTH, sums_of_gates[1][j]);
                direct[q] = times(g, keep);
            }
        }
        __syncthreads();
        float sums[2][4] = {};
        if (CELL == GATED && STATE) {
            // Through r to the state: from the gradient of n first.
#pragma unroll 4
            for (int k = 0; k < EIGHTHS; ++k) {
                unsigned a[4];
                take<false>(a, tile_d, D_STRIDE, first_row, 2 * WIDTH + k * 8);
#pragma unroll
                for (int j = 0; j < 2; ++j) multiply_add(sums[j], a, packed_n[(k * EIGHTHS + units * 2 + j) * 32 + lane]);
            }
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                const int j = q >> 1, half = q & 1, row = first_row + (lane >> 2) + 8 * half, unit = units * 16 + j * 8 + 2 * t;
                const wide at = (wide)tile * TILE + row;
                const float2 r = loaded[q][1], passed = times(of(sums[j], half), r);
                keep_gate(times(times(passed, loaded[q][5]), rest(r)), at < rows, gates + at * GROUPS * WIDTH + WIDTH + unit,
                          tile_d + row * D_STRIDE + WIDTH + unit, sums_of_gates[1][j]);
                direct[q] = plus(direct[q], passed);
            }
#pragma unroll
            for (int j = 0; j < 2; ++j)
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[j][i] = 0.f;
            __syncthreads();
        }
        if (STATE && before) {
            times_gates<2, H_GROUPS, false>(sums, tile_d, packed_h, EIGHTHS, first_row, units * 2);
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                const int j = q >> 1, half = q & 1, row = first_row + (lane >> 2) + 8 * half, unit = units * 16 + j * 8 + 2 * t;
                const wide at = (wide)tile * TILE + row;
                if (at < rows) put_pair(before + at * STATE_WIDTH + unit, plus(of(sums[j], half), direct[q]), adds);
            }
        }
#if DX
        {
            float sums_x[X_MINE][4] = {};
            times_gates<X_MINE, X_GROUPS, true>(sums_x, tile_d, packed_x, X_TILES, first_row, units * X_MINE);
#pragma unroll
            for (int j = 0; j < X_MINE; ++j)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int row = first_row + (lane >> 2) + 8 * half, column = (units * X_MINE + j) * 8 + 2 * t;
                    const wide at = (wide)tile * TILE + row;
                    if (at < rows) put_pair(dx + at * INPUT + column, of(sums_x[j], half), dx_adds);
                }
        }
#endif
    }
    // Sums of the gates over all rows of this block: over the lanes that share a unit, then over the groups of rows, in order.
    __syncthreads();
#pragma unroll
    for (int group = 0; group < GROUPS; ++group)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            float2 sum = sums_of_gates[group][j];
#pragma unroll
            for (int step = 4; step < 32; step *= 2) {
                sum.x += __shfl_xor_sync(ALL_LANES, sum.x, step);
                sum.y += __shfl_xor_sync(ALL_LANES, sum.y, step);
            }
            if (lane < 4) *(float2*)(tile_d + (warp / UNITS) * GROUPS * WIDTH + group * WIDTH + units * 16 + j * 8 + 2 * t) = sum;
        }
    __syncthreads();
    for (int column = threadIdx.x; column < GROUPS * WIDTH; column += blockDim.x) {
        float sum = 0.f;
        for (int group = 0; group < WARPS / UNITS; ++group) sum += tile_d[group * GROUPS * WIDTH + column];
        parts[(wide)blockIdx.x * GROUPS * WIDTH + column] = sum;
    }
}
#endif
