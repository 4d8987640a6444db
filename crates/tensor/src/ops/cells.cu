// The parts of recurrent cells that are no products: a thread has one unit of one row. Pre-activations stand
// in rows of STRIDE numbers, each gate in WIDTH columns; they are activated in place. Biases are null where
// they are in there already.

#define UNIT(count, width)          \
    const wide i = thread_number(); \
    if (i >= count) return;         \
    const wide row = i / width;     \
    const int unit = (int)(i % width);

__device__ __forceinline__ float with(const float* bias, int at, float value) {
    return bias ? value + bias[at] : value;
}

// Columns of one matrix put among those of another.
extern "C" __global__ void copy_columns(wide count, const float* from, int from_stride, float* to,
                                        int to_stride, int columns, int adds) {
    const wide i = thread_number();
    if (i >= count) return;
    put(to + i / columns * to_stride + i % columns, from[i / columns * from_stride + i % columns], adds);
}

// Long short-term memory: gates i, f, g, o; the state is h and c side by side.
extern "C" __global__ void lstm(wide count, int width, float* cell, const float* bias, const float* state,
                                float* tangents, float* output) {
    UNIT(count, width)
    float* at = cell + row * 4 * width + unit;
    const float in = sigmoid(with(bias, unit, at[0]));
    const float forget = sigmoid(with(bias, width + unit, at[width]));
    const float gate = tanhf(with(bias, 2 * width + unit, at[2 * width]));
    const float out = sigmoid(with(bias, 3 * width + unit, at[3 * width]));
    float c = in * gate;
    if (state) c = fmaf(forget, state[row * 2 * width + width + unit], c);
    const float tangent = tanhf(c);
    at[0] = in;
    at[width] = forget;
    at[2 * width] = gate;
    at[3 * width] = out;
    tangents[i] = tangent;
    output[row * 2 * width + unit] = out * tangent;
    output[row * 2 * width + width + unit] = c;
}

// Its gradients: of the gates, and of c before. The gradient of h before is put in by a product later.
extern "C" __global__ void lstm_back(wide count, int width, const float* cell, const float* tangents,
                                     const float* state, const float* upstream, float* gates, float* before,
                                     int adds) {
    UNIT(count, width)
    const float* at = cell + row * 4 * width + unit;
    const float in = at[0], forget = at[width], gate = at[2 * width], out = at[3 * width],
                tangent = tangents[i];
    const float dh = upstream[row * 2 * width + unit];
    const float dc = fmaf(dh * out, fmaf(-tangent, tangent, 1.f), upstream[row * 2 * width + width + unit]);
    float* to = gates + row * 4 * width + unit;
    to[0] = dc * gate * in * (1.f - in);
    to[width] = state ? dc * state[row * 2 * width + width + unit] * forget * (1.f - forget) : 0.f;
    to[2 * width] = dc * in * fmaf(-gate, gate, 1.f);
    to[3 * width] = dh * tangent * out * (1.f - out);
    if (before) put(before + row * 2 * width + width + unit, dc * forget, adds);
}

// The gated recurrent unit of cuDNN: parts r, z, the state's part of n, and n. Products of the state are in
// there already, if there is one.
extern "C" __global__ void gru(wide count, int width, float* cell, const float* bias, const float* state_bias,
                               const float* state, float* output) {
    UNIT(count, width)
    float* at = cell + row * 4 * width + unit;
    const float reset = sigmoid(with(bias, unit, at[0]) + state_bias[unit]);
    const float keep = sigmoid(with(bias, width + unit, at[width]) + state_bias[width + unit]);
    const float hidden = (state ? at[2 * width] : 0.f) + state_bias[2 * width + unit];
    const float fresh = tanhf(fmaf(reset, hidden, with(bias, 2 * width + unit, at[3 * width])));
    at[0] = reset;
    at[width] = keep;
    at[2 * width] = hidden;
    at[3 * width] = fresh;
    output[i] = fmaf(keep, (state ? state[i] : 0.f) - fresh, fresh);
}

extern "C" __global__ void gru_back(wide count, int width, const float* cell, const float* state,
                                    const float* upstream, float* gates, float* before, int adds) {
    UNIT(count, width)
    const float* at = cell + row * 4 * width + unit;
    const float reset = at[0], keep = at[width], hidden = at[2 * width], fresh = at[3 * width],
                g = upstream[i];
    const float dn = g * (1.f - keep) * fmaf(-fresh, fresh, 1.f), dhidden = dn * reset;
    float* to = gates + row * 4 * width + unit;
    to[0] = dhidden * hidden * (1.f - reset);
    to[width] = g * ((state ? state[i] : 0.f) - fresh) * keep * (1.f - keep);
    to[2 * width] = dhidden;
    to[3 * width] = dn;
    if (before) put(before + i, g * keep, adds);
}

// The gated cell of T-GCN: z, r, n. First r, and what of the state it lets through.
extern "C" __global__ void gated_reset(wide count, int width, float* cell, const float* bias,
                                       const float* state, float* reset) {
    UNIT(count, width)
    float* at = cell + row * 3 * width + width + unit;
    const float r = sigmoid(with(bias, width + unit, *at));
    *at = r;
    reset[i] = r * state[i];
}

// Then z, n and the new state.
extern "C" __global__ void gated(wide count, int width, float* cell, const float* bias, const float* state,
                                 float* output) {
    UNIT(count, width)
    float* at = cell + row * 3 * width + unit;
    const float keep = sigmoid(with(bias, unit, at[0]));
    const float fresh = tanhf(with(bias, 2 * width + unit, at[2 * width]));
    at[0] = keep;
    at[2 * width] = fresh;
    output[i] = fmaf(keep, (state ? state[i] : 0.f) - fresh, fresh);
}

extern "C" __global__ void gated_back(wide count, int width, const float* cell, const float* state,
                                      const float* upstream, float* gates, float* before, int adds) {
    UNIT(count, width)
    const float* at = cell + row * 3 * width + unit;
    const float keep = at[0], fresh = at[2 * width], g = upstream[i], stays = g * (1.f - keep);
    float* to = gates + row * 3 * width + unit;
    to[0] = stays * keep * ((state ? state[i] : 0.f) - fresh);
    if (!state) to[width] = 0.f;
    to[2 * width] = stays * fmaf(-fresh, fresh, 1.f);
    if (before) put(before + i, g * keep, adds);
}

// The gradient of r from that of what it let through, which goes on to the state.
extern "C" __global__ void gated_reset_back(wide count, int width, const float* cell, const float* state,
                                            const float* through, float* gates, float* before) {
    UNIT(count, width)
    const float r = cell[row * 3 * width + width + unit], passed = through[i] * r;
    gates[row * 3 * width + width + unit] = passed * state[i] * (1.f - r);
    if (before) before[i] += passed;
}
