// Recurrent cells with their products inside, on tensor cores; sums are kept in single precision. The weights
// stay in shared memory while rows stream past in registers, so pre-activations are never written to memory
// and no warp waits for another.
//
// CELL is the kind of cell, WIDTH that of the state (16, 32 or 64), INPUT that of the input (a multiple of
// 16), STATE whether there is a state before, DX whether the gradient of the input is wanted. SPLIT is 0
// where factors are rounded to TF32; otherwise each is the sum of two such numbers and three products are
// taken, which leaves errors of about 2^-22: as much as single precision itself makes in such sums. What the
// parts of a row of gates are is the same as in cells.cu.
//
// A warp has 16 rows. A lane has rows `lane / 4` and 8 below it; of every 16 columns it has four neighbours,
// from `4 * (lane % 4)` on. Both factors' order within a product is ours to choose, so weights are packed
// such that rows can be taken as they stand in memory, and sums as they are, for factors of the next product.
// Four warps have 64 rows: on Hopper they multiply together, and weights go from shared memory to the tensor
// cores without passing through registers.

#define LSTM 0
#define GRU 1
#define GATED 2

#define THREADS (32 * WARPS)
#define TEAMS (WARPS / 4)
#define BLOCKS (WIDTH / 16)
#define TILES (WIDTH / 8)
#define X_BLOCKS (INPUT / 16)
#define X_TILES (INPUT / 8)
#define GROUPS (CELL == GATED ? 3 : 4)
#define X_GROUPS (CELL == LSTM ? 4 : 3)
#define H_GROUPS (CELL == LSTM ? 4 : CELL == GRU ? 3 : 2)
#define H_COLUMNS (CELL == LSTM ? 4 * WIDTH : 3 * WIDTH)
#define STATE_WIDTH (CELL == LSTM ? 2 * WIDTH : WIDTH)

// Whether four warps multiply together: in the forward pass, where the processor can and registers are enough
// for the rows that come next. In the backward pass, which is bound by memory, it gains nothing.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && defined(FORWARD) && WIDTH == 64 && !SPLIT && \
    INPUT <= (CELL == GATED ? 128 : 64)
#define TOGETHER 1
#else
#define TOGETHER 0
#endif

extern __shared__ float shared[];

// The group of gates that part `number` of an input's product goes to.
__device__ __forceinline__ constexpr int x_group(int number) {
    return CELL == GRU && number == 2 ? 3 : number;
}

// A factor, rounded to what the tensor cores take unless it is split: they pass over the last 13 bits. NaN
// stays NaN.
__device__ __forceinline__ float kept(float x) {
    return SPLIT || x != x ? x : __uint_as_float(__float_as_uint(x) + 0x1000u);
}

// What a lane has of sixteen columns: four of one row, and four of the row 8 below.
struct Piece {
    float of[8];

    __device__ __forceinline__ Piece rounded() const {
        Piece piece;
#pragma unroll
        for (int e = 0; e < 8; ++e) piece.of[e] = kept(of[e]);
        return piece;
    }
};

// Where number `e` of piece `block` is among the sums of a warp.
#define SUM(sums, block, e) sums[2 * (block) + ((e) >> 1 & 1)][2 * ((e) >> 2) + ((e) & 1)]

// The rows of a lane.
struct Rows {
    wide first;
    bool there[2];

    __device__ __forceinline__ Piece load(const float* matrix, int stride, int column) const {
        Piece piece;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float4 four =
                there[half]
                    ? *(const float4*)(matrix + (first + 8 * half) * stride + column + 4 * (threadIdx.x & 3))
                    : make_float4(0.f, 0.f, 0.f, 0.f);
            piece.of[4 * half] = four.x, piece.of[4 * half + 1] = four.y, piece.of[4 * half + 2] = four.z,
                         piece.of[4 * half + 3] = four.w;
        }
        return piece;
    }

    __device__ __forceinline__ void store(float* matrix, int stride, int column, const Piece& piece,
                                          int adds = 0) const {
#pragma unroll
        for (int half = 0; half < 2; ++half)
            if (there[half]) {
                float4* at = (float4*)(matrix + (first + 8 * half) * stride + column + 4 * (threadIdx.x & 3));
                const float* of = piece.of + 4 * half;
                const float4 four = make_float4(of[0], of[1], of[2], of[3]);
                *at = adds ? sum_of(four, *at) : four;
            }
    }
};

__device__ __forceinline__ Rows rows_of(int tile, int rows) {
    Rows here;
    here.first = (wide)tile * 64 + (threadIdx.x >> 5 & 3) * 16 + (threadIdx.x >> 2 & 7);
    here.there[0] = here.first < rows;
    here.there[1] = here.first + 8 < rows;
    return here;
}

// A weight of `inner` by 8 * `tiles` numbers, packed: for every eight of its rows and eight of its columns 64
// numbers. The number at (k, n) is at weight[k * by_inner + n * by_column].
struct Weight {
    float* packed;
    int tiles;
};

__device__ __forceinline__ Weight pack(float*& room, const float* weight, int inner, int tiles, int by_inner,
                                       int by_column) {
    const int all = inner * tiles * 8;
    // Many at a time: every block begins with this, and nothing else is under way.
    const int many = 16;
    for (int first = threadIdx.x; first < all; first += many * THREADS) {
        float read[many];
#pragma unroll
        for (int j = 0; j < many; ++j) {
            const int i = min(first + j * THREADS, all - 1);
            // Where four warps multiply together, two times 32 numbers for the lanes; otherwise 32 times two.
            const int lane = TOGETHER ? i & 31 : i >> 1 & 31, late = TOGETHER ? i >> 5 & 1 : i & 1;
            const int k = (lane & 3) + 4 * late, n = lane >> 2, tile = (i >> 6) % tiles,
                      step = (i >> 6) / tiles;
            const int row = 16 * (step >> 1) + 4 * (k & 3) + 2 * (step & 1) + (k >> 2);
            const int column = 16 * (tile >> 1) + 4 * (n >> 1) + 2 * (tile & 1) + (n & 1);
            read[j] = weight[row * by_inner + column * by_column];
        }
#pragma unroll
        for (int j = 0; j < many; ++j)
            if (first + j * THREADS < all) room[first + j * THREADS] = kept(read[j]);
    }
    const Weight packed = {room, tiles};
    room += all;
    return packed;
}

// Weights are there for all warps, and for the tensor cores.
__device__ __forceinline__ void publish() {
#if TOGETHER
    asm volatile("fence.proxy.async;" ::: "memory");
#endif
    __syncthreads();
}

// Products begin here, with sums and factors as they are now, and have ended there.
__device__ __forceinline__ void begin_products() {
#if TOGETHER
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

__device__ __forceinline__ void end_products() {
#if TOGETHER
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
}

// Sums must not be touched between the two.
template <int COUNT> __device__ __forceinline__ void pin(float (*sums)[4]) {
#if TOGETHER
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) asm volatile("" : "+f"(sums[i][j])::"memory");
#endif
}

__device__ __forceinline__ void multiply_add(float* sum, const unsigned* a, const unsigned* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Factors as products take them: what of them TF32 can hold, and what is left.
template <int COUNT> struct Factors {
    unsigned high[COUNT], low[COUNT];

    __device__ __forceinline__ void set(int i, float x) {
        high[i] = SPLIT ? (__float_as_uint(x) + 0x1000u) & 0xffffe000u : __float_as_uint(x);
        low[i] = SPLIT ? __float_as_uint(x - __uint_as_float(high[i])) : 0u;
    }
};

#if TOGETHER
__device__ __forceinline__ void multiply_together(float (*d)[4], const unsigned* a, const float* weight) {
    // Eight columns and four rows of a weight are 128 bytes; the next four rows come next, then the next
    // eight columns.
    const unsigned long long from =
        ((unsigned)__cvta_generic_to_shared(weight) & 0x3ffffu) >> 4 | 8ull << 16 | 16ull << 32;
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 "
        "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
        "%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, p, 1, 1;}"
        : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
          "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
          "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
          "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
          "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
          "+f"(d[7][2]), "+f"(d[7][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(from));
}
#endif

// Adds to the sums the products of sixteen columns with rows `block` (of sixteen each) of a weight, for COUNT
// eights of its columns.
template <int COUNT> __device__ __forceinline__ void multiply(float (*sums)[4], const Piece& piece,
                                                              const Weight& weight, int block,
                                                              int first_tile) {
    const float* from = weight.packed + (2 * block * weight.tiles + first_tile) * 64;
    Factors<4> a[2];
#pragma unroll
    for (int i = 0; i < 8; ++i) a[i >> 2].set(i & 3, piece.of[4 * (i & 1) + 2 * (i >> 2) + (i >> 1 & 1)]);
#pragma unroll
    for (int j = 0; j < COUNT; j += TOGETHER ? 8 : 1) {
#if TOGETHER
#pragma unroll
        for (int step = 0; step < 2; ++step)
            multiply_together(sums + j, a[step].high, from + (step * weight.tiles + j) * 64);
#else
        // Tensor cores cut off what does not fit into a sum instead of rounding it. Where that counts, few
        // products are summed there.
        float few[4] = {};
        float* sum = SPLIT ? few : sums[j];
#pragma unroll
        for (int step = 0; step < 2; ++step) {
            const float2 two =
                *(const float2*)(from + (step * weight.tiles + j) * 64 + 2 * (threadIdx.x & 31));
            Factors<2> b;
            b.set(0, two.x);
            b.set(1, two.y);
            if (SPLIT) {
                multiply_add(sum, a[step].low, b.high);
                multiply_add(sum, a[step].high, b.low);
            }
            multiply_add(sum, a[step].high, b.high);
        }
#pragma unroll
        for (int i = 0; i < 4 && SPLIT; ++i) sums[j][i] += few[i];
#endif
    }
}

// 1 / (1 + 2^x), to about two units of the last place; too small to be held in full counts as nothing.
__device__ __forceinline__ float falling(float x) {
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
    x += 1.f;
    asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
}

#define LOG2_E 1.44269504f
__device__ __forceinline__ float soft_step(float x) { return falling(-LOG2_E * x); }
__device__ __forceinline__ float soft_sign(float x) { return fmaf(-2.f, falling(2.f * LOG2_E * x), 1.f); }

// The tile that this warp's four begin with: the same for all lanes, and the compiler is to know it.
__device__ __forceinline__ int first_tile() {
    return blockIdx.x * TEAMS + __shfl_sync(ALL_LANES, threadIdx.x / 128, 0);
}

#ifdef FORWARD
// Adds the products of rows with a weight to the sums of the groups of gates: of rows that are there already,
// or are loaded one sixteen of columns after the other. Code for warps by themselves is long, so their loop
// is not written out.
template <int COUNT, int PARTS, bool OF_INPUT>
__device__ __forceinline__ void multiply_rows(float (*sums)[TILES][4], const Piece* pieces, const Rows& here,
                                              const float* matrix, int stride, const Weight& weight) {
    begin_products();
#pragma unroll(TOGETHER ? COUNT : 1)
    for (int block = 0; block < COUNT; ++block) {
#if TOGETHER
        const Piece& piece = pieces[block];
#else
        const Piece piece = here.load(matrix, stride, 16 * block).rounded();
#endif
#pragma unroll
        for (int part = 0; part < PARTS; ++part)
            multiply<TILES>(sums[OF_INPUT ? x_group(part) : part], piece, weight, block, part * TILES);
    }
    end_products();
    pin<GROUPS * TILES>(sums[0]);
}

template <int COUNT> __device__ __forceinline__ void load_all(Piece* pieces, const Rows& here,
                                                              const float* matrix, int stride, int column) {
#pragma unroll
    for (int block = 0; block < COUNT; ++block)
        pieces[block] = here.load(matrix, stride, column + 16 * block);
}

template <int COUNT> __device__ __forceinline__ void round_all(Piece* to, const Piece* from) {
#pragma unroll
    for (int block = 0; block < COUNT; ++block) to[block] = from[block].rounded();
}

// Sums begin with a bias, or with two.
__device__ __forceinline__ void begin_with(float (*sums)[4], const float* bias, const float* other) {
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block) {
        const int unit = 16 * block + 4 * (threadIdx.x & 3);
        float4 four = *(const float4*)(bias + unit);
        if (other) four = sum_of(four, *(const float4*)(other + unit));
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            SUM(sums, block, 4 * half) = four.x, SUM(sums, block, 4 * half + 1) = four.y;
            SUM(sums, block, 4 * half + 2) = four.z, SUM(sums, block, 4 * half + 3) = four.w;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    fused_forward(int rows, const float* __restrict__ x, const float* __restrict__ x_weight,
                  const float* bias, const float* __restrict__ state, const float* __restrict__ h_weight,
                  const float* h_bias, float* cell, float* aside, float* output) {
    float* room = shared;
    const Weight of_x = pack(room, x_weight, INPUT, X_GROUPS * TILES, X_GROUPS * WIDTH, 1);
    Weight of_h, of_n;
    if (STATE) of_h = pack(room, h_weight, WIDTH, H_GROUPS * TILES, H_COLUMNS, 1);
    if (STATE && CELL == GATED) of_n = pack(room, h_weight + 2 * WIDTH, WIDTH, TILES, H_COLUMNS, 1);
    publish();
    const int tiles = (rows + 63) / 64, stride = gridDim.x * TEAMS;
    int tile = first_tile();
    Rows here = rows_of(tile, rows);
    // Rows of the next tile are loaded as soon as those of this one are done. `before` is what the
    // new state is mixed from.
    Piece input[TOGETHER ? X_BLOCKS : 1], hidden[TOGETHER ? BLOCKS : 1], before[TOGETHER ? BLOCKS : 1];
    auto old = [&](int block) {
        return TOGETHER ? before[TOGETHER ? block : 0]
                        : here.load(state, STATE_WIDTH, STATE_WIDTH - WIDTH + 16 * block);
    };
    if (TOGETHER) load_all<TOGETHER ? X_BLOCKS : 0>(input, here, x, INPUT, 0);
    if (TOGETHER && STATE && CELL == LSTM)
        load_all<TOGETHER ? BLOCKS : 0>(hidden, here, state, STATE_WIDTH, 0);
    if (TOGETHER && STATE)
        load_all<TOGETHER ? BLOCKS : 0>(before, here, state, STATE_WIDTH, STATE_WIDTH - WIDTH);
    for (; tile < tiles; tile += stride) {
        const Rows next = rows_of(tile + stride, rows);
        float sums[GROUPS][TILES][4];
        // Biases are read anew for every tile: they would take up registers otherwise.
        asm volatile("" ::: "memory");
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            const bool behind = CELL == GRU && group == 3, hidden = CELL == GRU && group == 2;
            begin_with(sums[group], hidden ? h_bias + 2 * WIDTH : bias + (behind ? 2 : group) * WIDTH,
                       CELL == GRU && group < 2 ? h_bias + group * WIDTH : nullptr);
        }
        if (TOGETHER) round_all<TOGETHER ? X_BLOCKS : 0>(input, input);
        multiply_rows<X_BLOCKS, X_GROUPS, true>(sums, input, here, x, INPUT, of_x);
        if (TOGETHER) load_all<TOGETHER ? X_BLOCKS : 0>(input, next, x, INPUT, 0);
        if (STATE) {
            if (TOGETHER) round_all<TOGETHER ? BLOCKS : 0>(hidden, CELL == LSTM ? hidden : before);
            multiply_rows<BLOCKS, H_GROUPS, false>(sums, hidden, here, state, STATE_WIDTH, of_h);
            if (TOGETHER && CELL == LSTM)
                load_all<TOGETHER ? BLOCKS : 0>(hidden, next, state, STATE_WIDTH, 0);
        }
        if (STATE && CELL == GATED) {
            Piece passed[BLOCKS];
#pragma unroll
            for (int block = 0; block < BLOCKS; ++block) {
                const Piece h = old(block);
                Piece r;
#pragma unroll
                for (int e = 0; e < 8; ++e) {
                    r.of[e] = soft_step(SUM(sums[1], block, e));
                    passed[block].of[e] = r.of[e] * h.of[e];
                }
                here.store(cell, 3 * WIDTH, WIDTH + 16 * block, r);
                here.store(aside, WIDTH, 16 * block, passed[block]);
                passed[block] = passed[block].rounded();
            }
            begin_products();
#pragma unroll
            for (int block = 0; block < BLOCKS; ++block)
                multiply<TILES>(sums[2], passed[block], of_n, block, 0);
            end_products();
            pin<TILES>(sums[2]);
        }
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block) {
            Piece gates[4], shown, other, from = {};
            if (STATE) from = old(block);
#pragma unroll
            for (int e = 0; e < 8; ++e) {
                const float h = from.of[e];
                if (CELL == LSTM) {
                    const float in = soft_step(SUM(sums[0], block, e)),
                                forget = soft_step(SUM(sums[1], block, e));
                    const float gate = soft_sign(SUM(sums[2], block, e)),
                                out = soft_step(SUM(sums[GROUPS - 1], block, e));
                    const float c = in * gate + forget * h, tangent = soft_sign(c);
                    gates[0].of[e] = in, gates[1].of[e] = forget, gates[2].of[e] = gate, gates[3].of[e] = out;
                    shown.of[e] = out * tangent, other.of[e] = c;
                    SUM(sums[0], block, e) = tangent;
                } else if (CELL == GRU) {
                    const float r = soft_step(SUM(sums[0], block, e)),
                                keep = soft_step(SUM(sums[1], block, e)), hidden = SUM(sums[2], block, e);
                    const float fresh = soft_sign(SUM(sums[GROUPS - 1], block, e) + r * hidden);
                    gates[0].of[e] = r, gates[1].of[e] = keep, gates[2].of[e] = hidden,
                    gates[3].of[e] = fresh;
                    shown.of[e] = fresh + keep * (h - fresh);
                } else {
                    const float keep = soft_step(SUM(sums[0], block, e)),
                                fresh = soft_sign(SUM(sums[2], block, e));
                    gates[0].of[e] = keep, gates[2].of[e] = fresh;
                    shown.of[e] = fresh + keep * (h - fresh);
                }
            }
#pragma unroll
            for (int group = 0; group < GROUPS; ++group)
                if (CELL != GATED || group != 1)
                    here.store(cell, GROUPS * WIDTH, group * WIDTH + 16 * block, gates[group]);
            here.store(output, STATE_WIDTH, 16 * block, shown);
            if (CELL == LSTM) {
                here.store(output, STATE_WIDTH, WIDTH + 16 * block, other);
#pragma unroll
                for (int e = 0; e < 8; ++e) other.of[e] = SUM(sums[0], block, e);
                here.store(aside, WIDTH, 16 * block, other);
            }
        }
        if (TOGETHER && STATE)
            load_all<TOGETHER ? BLOCKS : 0>(before, next, state, STATE_WIDTH, STATE_WIDTH - WIDTH);
        here = next;
    }
}
#endif

#ifdef BACKWARD
// Gradients of the gates of sixteen units on their way to memory, to the products and to the sums of the
// biases.
struct Outlet {
    float* gates;
    float4* slots;

    __device__ __forceinline__ void keep(const Rows& here, int group, int block, Piece& piece) const {
        here.store(gates, GROUPS * WIDTH, group * WIDTH + 16 * block, piece);
        float4& slot = slots[(group * BLOCKS + block) * THREADS + threadIdx.x];
        const float* of = piece.of;
        slot = sum_of(slot, make_float4(of[0] + of[4], of[1] + of[5], of[2] + of[6], of[3] + of[7]));
        piece = piece.rounded();
    }
};

// What sixteen units of an LSTM or a GRU need.
struct Loaded {
    Piece a[4], g, h, up, tangent;

    __device__ __forceinline__ void load(const Rows& here, const float* cell, const float* aside,
                                         const float* state, const float* upstream, int column) {
#pragma unroll
        for (int group = 0; group < 4; ++group) a[group] = here.load(cell, 4 * WIDTH, group * WIDTH + column);
        g = here.load(upstream, STATE_WIDTH, column);
        if (STATE) h = here.load(state, STATE_WIDTH, STATE_WIDTH - WIDTH + column);
        if (CELL == LSTM)
            up = here.load(upstream, STATE_WIDTH, WIDTH + column), tangent = here.load(aside, WIDTH, column);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    fused_backward(int rows, const float* __restrict__ cell, const float* __restrict__ aside,
                   const float* __restrict__ state, const float* __restrict__ upstream,
                   const float* __restrict__ x_weight, const float* __restrict__ h_weight, float* gates,
                   float* before, int adds, float* dx, int dx_adds, float* parts) {
    float* room = shared;
    Weight of_h, of_n, of_x;
    if (STATE) of_h = pack(room, h_weight, H_GROUPS * WIDTH, TILES, 1, H_COLUMNS);
    if (STATE && CELL == GATED) of_n = pack(room, h_weight + 2 * WIDTH, WIDTH, TILES, 1, H_COLUMNS);
    if (DX) of_x = pack(room, x_weight, X_GROUPS * WIDTH, X_TILES, 1, X_GROUPS * WIDTH);
    const Outlet outlet = {gates, (float4*)room};
    for (int i = 0; i < GROUPS * BLOCKS; ++i)
        outlet.slots[i * THREADS + threadIdx.x] = make_float4(0.f, 0.f, 0.f, 0.f);
    publish();
    const int tiles = (rows + 63) / 64, stride = GROUPS * WIDTH;
    int tile = first_tile();
    Rows here = rows_of(tile, rows);
    Loaded loaded = {};
    if (CELL != GATED) loaded.load(here, cell, aside, state, upstream, 0);
    for (; tile < tiles; tile += gridDim.x * TEAMS) {
        const Rows next = rows_of(tile + gridDim.x * TEAMS, rows);
        float sums[TILES][4] = {}, sums_x[DX ? X_TILES : 1][4] = {};
        if (CELL == GATED) {
            Piece dz[BLOCKS], dr[BLOCKS], dn[BLOCKS], r[BLOCKS];
            float through[TILES][4] = {};
#pragma unroll
            for (int block = 0; block < BLOCKS; ++block) {
                const Piece keep = here.load(cell, stride, 16 * block),
                            fresh = here.load(cell, stride, 2 * WIDTH + 16 * block);
                const Piece g = here.load(upstream, WIDTH, 16 * block);
                Piece h = {};
                if (STATE) h = here.load(state, WIDTH, 16 * block);
#pragma unroll
                for (int e = 0; e < 8; ++e) {
                    const float stays = g.of[e] * (1.f - keep.of[e]);
                    dz[block].of[e] = stays * keep.of[e] * (h.of[e] - fresh.of[e]);
                    dn[block].of[e] = stays * (1.f - fresh.of[e] * fresh.of[e]);
                    SUM(sums, block, e) = g.of[e] * keep.of[e];
                    dr[block].of[e] = 0.f;
                }
                outlet.keep(here, 0, block, dz[block]);
                outlet.keep(here, 2, block, dn[block]);
                if (!STATE) outlet.keep(here, 1, block, dr[block]);
            }
            if (STATE) {
                // Through r to the state: from the gradient of n first.
#pragma unroll
                for (int block = 0; block < BLOCKS; ++block)
                    r[block] = here.load(cell, stride, WIDTH + 16 * block);
#pragma unroll
                for (int block = 0; block < BLOCKS; ++block) {
                    multiply<TILES>(through, dn[block], of_n, block, 0);
                    multiply<TILES>(sums, dz[block], of_h, block, 0);
                }
#pragma unroll
                for (int block = 0; block < BLOCKS; ++block) {
                    const Piece h = here.load(state, WIDTH, 16 * block);
#pragma unroll
                    for (int e = 0; e < 8; ++e) {
                        const float passed = SUM(through, block, e) * r[block].of[e];
                        dr[block].of[e] = passed * h.of[e] * (1.f - r[block].of[e]);
                        SUM(sums, block, e) += passed;
                    }
                    outlet.keep(here, 1, block, dr[block]);
                }
            }
#pragma unroll
            for (int block = 0; block < BLOCKS; ++block) {
                if (STATE) multiply<TILES>(sums, dr[block], of_h, BLOCKS + block, 0);
                if (DX) {
                    multiply<X_TILES>(sums_x, dz[block], of_x, block, 0);
                    multiply<X_TILES>(sums_x, dr[block], of_x, BLOCKS + block, 0);
                    multiply<X_TILES>(sums_x, dn[block], of_x, 2 * BLOCKS + block, 0);
                }
            }
        } else {
#pragma unroll
            for (int block = 0; block < BLOCKS; ++block) {
                Piece d[4], c;
                const int column = 16 * block;
                const Piece a0 = loaded.a[0], a1 = loaded.a[1], a2 = loaded.a[2], a3 = loaded.a[3],
                            g = loaded.g, h = loaded.h, up = loaded.up, tangent = loaded.tangent;
#pragma unroll
                for (int e = 0; e < 8; ++e) {
                    if (CELL == LSTM) {
                        const float in = a0.of[e], forget = a1.of[e], gate = a2.of[e], out = a3.of[e];
                        const float dc = g.of[e] * out * (1.f - tangent.of[e] * tangent.of[e]) + up.of[e];
                        d[0].of[e] = dc * gate * in * (1.f - in);
                        d[1].of[e] = dc * h.of[e] * forget * (1.f - forget);
                        d[2].of[e] = dc * in * (1.f - gate * gate);
                        d[3].of[e] = g.of[e] * tangent.of[e] * out * (1.f - out);
                        c.of[e] = dc * forget;
                    } else {
                        const float r = a0.of[e], keep = a1.of[e], hidden = a2.of[e], fresh = a3.of[e];
                        d[3].of[e] = g.of[e] * (1.f - keep) * (1.f - fresh * fresh);
                        d[2].of[e] = d[3].of[e] * r;
                        d[0].of[e] = d[2].of[e] * hidden * (1.f - r);
                        d[1].of[e] = g.of[e] * (h.of[e] - fresh) * keep * (1.f - keep);
                    }
                }
                // Asked for before anything is written.
                if (block + 1 < BLOCKS)
                    loaded.load(here, cell, aside, state, upstream, column + 16);
                else
                    loaded.load(next, cell, aside, state, upstream, 0);
                if (CELL == LSTM && before) here.store(before, STATE_WIDTH, WIDTH + column, c, adds);
#pragma unroll
                for (int group = 0; group < GROUPS; ++group) outlet.keep(here, group, block, d[group]);
#pragma unroll
                for (int part = 0; part < H_GROUPS; ++part)
                    if (STATE) multiply<TILES>(sums, d[part], of_h, part * BLOCKS + block, 0);
#pragma unroll
                for (int part = 0; part < X_GROUPS; ++part)
                    if (DX) multiply<X_TILES>(sums_x, d[x_group(part)], of_x, part * BLOCKS + block, 0);
            }
        }
        if (STATE && before)
#pragma unroll
            for (int block = 0; block < BLOCKS; ++block) {
                Piece total, g = {}, keep = {};
                if (CELL == GRU)
                    g = here.load(upstream, WIDTH, 16 * block),
                    keep = here.load(cell, stride, WIDTH + 16 * block);
#pragma unroll
                for (int e = 0; e < 8; ++e) total.of[e] = SUM(sums, block, e) + g.of[e] * keep.of[e];
                here.store(before, STATE_WIDTH, 16 * block, total, adds);
            }
        if (DX)
#pragma unroll
            for (int block = 0; block < X_BLOCKS; ++block) {
                Piece total;
#pragma unroll
                for (int e = 0; e < 8; ++e) total.of[e] = SUM(sums_x, DX ? block : 0, e);
                here.store(dx, INPUT, 16 * block, total, dx_adds);
            }
        here = next;
    }
    // Sums of the gates over all rows of this block: over the lanes and warps that share a unit, in order.
    __syncthreads();
    for (int column = threadIdx.x; column < GROUPS * WIDTH; column += THREADS) {
        const float* slots = (const float*)(outlet.slots + column / 16 * THREADS) + column % 4;
        float sum = 0.f;
        for (int thread = column / 4 % 4; thread < THREADS; thread += 4) sum += slots[thread * 4];
        parts[(wide)blockIdx.x * GROUPS * WIDTH + column] = sum;
    }
}
#endif
