// Attention over the steps of a window, for every row by itself. `inputs` are the matrices of queries, keys
// and values, step by step; of each row, head and step there are shares of all steps.

// The shares: a thread has a row, a head and a step.
extern "C" __global__ void __launch_bounds__(256)
    attention_shares(wide count, const float* const* inputs, int steps, int heads, int depth, int causal,
                     float scale, float* all) {
    const wide i = thread_number();
    if (i >= count) return;
    const Place place = place_of(i, steps);
    const int t = (int)place.column, seen = causal ? t + 1 : steps;
    // Heads stand side by side, so a row and a head begin here in every matrix.
    const wide at = place.row * depth;
    const float* query = inputs[t] + at;
    float* shares = all + i * steps;
    float largest = -INFINITE, sum = 0.f;
    for (int s = 0; s < seen; ++s) {
        const float* key = inputs[steps + s] + at;
        float score = 0.f;
        for (int column = 0; column < depth; ++column) score = fmaf(query[column], key[column], score);
        score *= scale;
        shares[s] = score;
        largest = fmaxf(largest, score);
    }
    for (int s = 0; s < seen; ++s) {
        const float value = expf(shares[s] - largest);
        shares[s] = value;
        sum += value;
    }
    for (int s = 0; s < steps; ++s) shares[s] = s < seen ? shares[s] / sum : 0.f;
}

// The output: a thread has a number of it.
extern "C" __global__ void __launch_bounds__(256)
    attention_output(wide count, const float* const* inputs, int steps, int heads, int depth, int causal,
                     const float* all, float* output) {
    const wide i = thread_number();
    if (i >= count) return;
    const wide width = (wide)heads * depth;
    const Place place = place_of(i, width), step = place_of(place.row, steps);
    const wide row = step.row, head = place_of(place.column, depth).row;
    const int t = (int)step.column, seen = causal ? t + 1 : steps;
    const float* shares = all + ((row * heads + head) * steps + t) * steps;
    float sum = 0.f;
    for (int s = 0; s < seen; ++s)
        sum = fmaf(shares[s], inputs[2 * steps + s][row * width + place.column], sum);
    output[i] = sum;
}

// The gradients of the scores, before they were scaled: a thread has a row, a head and a step.
extern "C" __global__ void __launch_bounds__(256)
    attention_scores_back(wide count, const float* const* inputs, int steps, int heads, int depth, int causal,
                          float scale, const float* all_shares, const float* upstream, float* all_scores) {
    const wide i = thread_number();
    if (i >= count) return;
    const Place place = place_of(i, steps), row = place_of(place.row, heads);
    const int t = (int)place.column, seen = causal ? t + 1 : steps;
    const wide at = place.row * depth, width = (wide)heads * depth;
    const float* mine = upstream + (row.row * steps + t) * width + row.column * depth;
    const float* shares = all_shares + i * steps;
    float* scores = all_scores + i * steps;
    float mean = 0.f;
    for (int s = 0; s < seen; ++s) {
        const float* value = inputs[2 * steps + s] + at;
        float score = 0.f;
        for (int column = 0; column < depth; ++column) score = fmaf(mine[column], value[column], score);
        scores[s] = score;
        mean = fmaf(shares[s], score, mean);
    }
    for (int s = 0; s < steps; ++s) scores[s] = s < seen ? shares[s] * (scores[s] - mean) * scale : 0.f;
}

// The gradients of all inputs: blocks in the second direction have one each, a thread has a number of it.
extern "C" __global__ void __launch_bounds__(256)
    attention_back(wide count, const float* const* inputs, int steps, int heads, int depth, int causal,
                   const float* shares, const float* scores, const float* upstream, float* const* gradients,
                   const int* adds) {
    const wide i = thread_number();
    const int which = blockIdx.y, kind = which / steps, step = which % steps;
    float* gradient = gradients[which];
    if (i >= count || !gradient) return;
    const wide width = (wide)heads * depth;
    const Place place = place_of(i, width);
    const wide head = place_of(place.column, depth).row;
    // Where the numbers of this row and head begin, of every step those of all.
    const wide at = (place.row * heads + head) * steps * steps;
    float sum = 0.f;
    if (kind == 0) {
        const int seen = causal ? step + 1 : steps;
        for (int s = 0; s < seen; ++s)
            sum = fmaf(scores[at + (wide)step * steps + s], inputs[steps + s][i], sum);
    } else if (kind == 1) {
        for (int t = causal ? step : 0; t < steps; ++t)
            sum = fmaf(scores[at + (wide)t * steps + step], inputs[t][i], sum);
    } else {
        const float* mine = upstream + place.row * steps * width + place.column;
        for (int t = causal ? step : 0; t < steps; ++t)
            sum = fmaf(shares[at + (wide)t * steps + step], mine[t * width], sum);
    }
    put(gradient + i, sum, adds[which]);
}
