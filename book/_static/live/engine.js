// The model: safetensors in, logits out. What `decoder_only.model.gpt.GPT` computes, for all its
// settings, one sequence at a time, with a cache. Numbers are kept in 32 bits and added in 64.

(function (root) {
  "use strict";

  const live = (root.live = root.live || {});
  const MOST = 120e6; // weights that a page can hold

  // ------------------------------------------------------------------ files

  const half = new Float32Array(65536);
  let halfIsMade = false;
  function halves() {
    for (let i = 0; !halfIsMade && i < 65536; i++) {
      const [sign, e, f] = [i >> 15 ? -1 : 1, (i >> 10) & 31, i & 1023];
      half[i] = sign * (e === 31 ? (f ? NaN : Infinity)
        : e ? 2 ** (e - 15) * (1 + f / 1024) : 2 ** -14 * (f / 1024));
    }
    halfIsMade = true;
    return half;
  }

  const READ = {
    F32: (b) => new Float32Array(b),
    F64: (b) => Float32Array.from(new Float64Array(b)),
    F16: (b) => { const table = halves(); return Float32Array.from(new Uint16Array(b), (x) => table[x]); },
    BF16: (b) => {
      const small = new Uint16Array(b);
      const wide = new Uint32Array(small.length);
      for (let i = 0; i < small.length; i++) wide[i] = small[i] << 16;
      return new Float32Array(wide.buffer);
    },
  };
  const SIZE = { F32: 4, F64: 8, F16: 2, BF16: 2 };

  // The tensors of a safetensors file, by name, as { shape, data }; `wanted` may leave some out.
  function readTensors(buffer, wanted = () => true) {
    const cut = () => new Error("The file of weights is cut short, or is no safetensors file.");
    if (buffer.byteLength < 8) throw cut();
    const length = Number(new DataView(buffer).getBigUint64(0, true));
    if (length > buffer.byteLength - 8) throw cut();
    let header;
    try {
      header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
    } catch (_) {
      throw cut();
    }
    const tensors = {};
    for (const [name, entry] of Object.entries(header)) {
      if (name === "__metadata__" || !wanted(name)) continue;
      const { dtype, shape, data_offsets: [from, to] } = entry;
      const n = shape.reduce((product, size) => product * size, 1);
      if (!READ[dtype]) throw new Error(`${name} is stored as ${dtype}, which the page cannot read.`);
      if (8 + length + to > buffer.byteLength || to - from !== n * SIZE[dtype]) throw cut();
      tensors[name] = { shape, data: READ[dtype](buffer.slice(8 + length + from, 8 + length + to)) };
    }
    return tensors;
  }

  // ------------------------------------------------------------------ settings

  const USUAL = {
    n_kv_heads: null, head_dim: null, d_mlp: null, positions: "learned", position_base: 10000,
    norm: "layer", norm_eps: 1e-5, norm_position: "pre", activation: "gelu_tanh", windows: [null],
    qk_norm: false, attention_scale: null, bias: true, tied: true, soft_cap: null, dropout: 0,
    initialization: "gpt2", base_width: null,
  };
  const NEEDED = ["vocab_size", "context_length", "d_model", "n_layers", "n_heads"];
  const CHOICES = {
    positions: ["learned", "sinusoidal", "rotary", "none"], norm: ["layer", "rms"],
    norm_position: ["pre", "post"],
    activation: ["relu", "gelu", "gelu_tanh", "squared_relu", "swiglu"],
  };

  function settings(given) {
    const c = { ...USUAL, ...given };
    for (const name of NEEDED)
      if (!Number.isInteger(c[name]) || c[name] < 1) throw new Error(`The settings lack ${name}.`);
    for (const name of Object.keys(c))
      if (!(name in USUAL) && !NEEDED.includes(name))
        throw new Error(`The page cannot run a model with the setting ${name}.`);
    for (const [name, known] of Object.entries(CHOICES))
      if (!known.includes(c[name])) throw new Error(`The page cannot run ${name} = ${c[name]}.`);
    c.G = c.n_kv_heads || c.n_heads;
    c.K = c.head_dim || Math.floor(c.d_model / c.n_heads);
    c.F = c.d_mlp || (c.activation === "swiglu" ? 8 * Math.ceil(c.d_model / 3) : 4 * c.d_model);
    c.scale = c.attention_scale || 1 / Math.sqrt(c.K);
    return c;
  }

  // ------------------------------------------------------------------ arithmetic

  // out[i, r] = w[r, :] . x[i, :] + bias[r], for n vectors; four at a time read w once.
  function linear({ data: w, shape: [rows, cols] }, bias, x, n, out = new Float32Array(n * rows)) {
    let i = 0;
    for (; i + 4 <= n; i += 4) {
      const [a, b, c, d] = [i * cols, (i + 1) * cols, (i + 2) * cols, (i + 3) * cols];
      for (let r = 0, at = 0; r < rows; r++, at += cols) {
        let s = 0, t = 0, u = 0, v = 0;
        for (let k = 0; k < cols; k++) {
          const y = w[at + k];
          s += y * x[a + k]; t += y * x[b + k]; u += y * x[c + k]; v += y * x[d + k];
        }
        const o = bias ? bias.data[r] : 0, to = i * rows + r;
        out[to] = s + o; out[to + rows] = t + o; out[to + 2 * rows] = u + o; out[to + 3 * rows] = v + o;
      }
    }
    for (; i < n; i++) {
      const a = i * cols, whole = cols - (cols % 4);
      for (let r = 0, at = 0; r < rows; r++, at += cols) {
        let s = 0, t = 0, u = 0, v = 0, k = 0;
        for (; k < whole; k += 4) {
          s += w[at + k] * x[a + k]; t += w[at + k + 1] * x[a + k + 1];
          u += w[at + k + 2] * x[a + k + 2]; v += w[at + k + 3] * x[a + k + 3];
        }
        for (; k < cols; k++) s += w[at + k] * x[a + k];
        out[i * rows + r] = s + t + u + v + (bias ? bias.data[r] : 0);
      }
    }
    return out;
  }

  // The normal distribution's cumulative function, from a table with cubic interpolation.
  const STEP = 1 / 64, LAST = 6;
  const density = (x) => Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);
  let table = null;
  function cumulative(x) {
    if (x <= -LAST) return 0;
    if (x >= LAST) return 1;
    if (!table) {
      table = [0];
      for (let i = 0; i * STEP < 2 * LAST; i++) { // Simpson's rule
        const at = -LAST + i * STEP;
        table.push(table[i] +
          STEP / 6 * (density(at) + 4 * density(at + STEP / 2) + density(at + STEP)));
      }
    }
    const i = Math.floor((x + LAST) / STEP), left = -LAST + i * STEP, t = (x - left) / STEP;
    const s = 1 - t;
    return table[i] * s * s * (1 + 2 * t) + table[i + 1] * t * t * (3 - 2 * t) +
      STEP * t * s * (density(left) * s - density(left + STEP) * t);
  }

  const ACTIVATIONS = {
    relu: (x) => Math.max(x, 0),
    squared_relu: (x) => (x > 0 ? x * x : 0),
    gelu: (x) => x * cumulative(x),
    gelu_tanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x))),
    swiglu: (x) => x / (1 + Math.exp(-x)),
  };

  // Each run of `width` numbers brought to one scale, and for a layer norm to mean zero first.
  function normalize(x, width, eps, weight, bias, centred) {
    const out = new Float32Array(x.length);
    for (let at = 0; at < x.length; at += width) {
      let mean = 0, square = 0;
      if (centred) for (let k = 0; k < width; k++) mean += x[at + k] / width;
      for (let k = 0; k < width; k++) square += (x[at + k] - mean) ** 2 / width;
      const factor = 1 / Math.sqrt(square + eps);
      for (let k = 0; k < width; k++)
        out[at + k] = (x[at + k] - mean) * factor * weight.data[k] + (bias ? bias.data[k] : 0);
    }
    return out;
  }

  function softmax(x) {
    let most = -Infinity, sum = 0;
    for (const y of x) most = Math.max(most, y);
    const out = new Float64Array(x.length);
    for (let i = 0; i < x.length; i++) sum += out[i] = Math.exp(x[i] - most);
    for (let i = 0; i < x.length; i++) out[i] /= sum;
    return out;
  }

  // ------------------------------------------------------------------ the model

  class Model {
    constructor(config, tensors) {
      this.config = settings(config);
      this.tensors = tensors;
      this.nWeights = 0;
      for (const [name, shape] of Object.entries(this.shapes())) {
        const tensor = tensors[name];
        if (!tensor) throw new Error(`The weights lack ${name}.`);
        if (String(tensor.shape) !== String(shape))
          throw new Error(`${name} has the shape ${tensor.shape}; the settings want ${shape}.`);
        this.nWeights += tensor.data.length;
      }
      if (this.nWeights > MOST) throw new Error("The model is too large for a page (120 M weights).");
    }

    // How many tokens one cache can hold. Where all blocks have windows, the model can go on.
    get room() {
      const { windows, positions, context_length: length } = this.config;
      return windows.every(Boolean) && ["rotary", "none"].includes(positions) ? Infinity : length;
    }

    shapes() {
      const c = this.config, D = c.d_model, [HK, GK] = [c.n_heads * c.K, c.G * c.K];
      const found = { "embedding.weight": [c.vocab_size, D] };
      const norm = (name) => {
        found[`${name}.weight`] = [D];
        if (c.norm === "layer" && c.bias) found[`${name}.bias`] = [D];
      };
      const map = (name, to, from) => {
        found[`${name}.weight`] = [to, from];
        if (c.bias) found[`${name}.bias`] = [to];
      };
      if (c.positions === "learned") found["positions.weight"] = [c.context_length, D];
      for (let l = 0; l < c.n_layers; l++) {
        const b = `blocks.${l}.`, a = `${b}attention.`;
        norm(`${b}attention_norm`);
        norm(`${b}mlp_norm`);
        map(`${a}query`, HK, D);
        map(`${a}key`, GK, D);
        map(`${a}value`, GK, D);
        map(`${a}output`, D, HK);
        if (c.qk_norm) found[`${a}query_norm.weight`] = found[`${a}key_norm.weight`] = [c.K];
        if (c.activation === "swiglu") map(`${b}mlp.gate`, c.F, D);
        map(`${b}mlp.up`, c.F, D);
        map(`${b}mlp.down`, D, c.F);
      }
      if (c.norm_position === "pre") norm("final_norm");
      if (!c.tied) found["head.weight"] = [c.vocab_size, D];
      return found;
    }

    // An empty cache; it also keeps queries and the stream after each block, to look into.
    start() {
      const each = () => Array.from({ length: this.config.n_layers }, () => []);
      return { length: 0, keys: each(), values: each(), queries: each(), streams: each(), hidden: [] };
    }

    linear(name, x, n) {
      return linear(this.tensors[`${name}.weight`], this.tensors[`${name}.bias`], x, n);
    }

    norm(name, x) {
      const c = this.config, [w, b] = [this.tensors[`${name}.weight`], this.tensors[`${name}.bias`]];
      return normalize(x, c.d_model, c.norm_eps, w, b, c.norm === "layer");
    }

    embed(ids, start) {
      const c = this.config, D = c.d_model, x = new Float32Array(ids.length * D);
      const { data } = this.tensors["embedding.weight"];
      ids.forEach((id, i) => {
        const at = start + i;
        for (let d = 0; d < D; d++) {
          let y = data[id * D + d];
          if (c.positions === "learned") y += this.tensors["positions.weight"].data[at * D + d];
          if (c.positions === "sinusoidal") {
            const angle = this.angle(at, d - (d % 2), D);
            y = Math.sqrt(D) * y + (d % 2 ? Math.cos(angle) : Math.sin(angle));
          }
          x[i * D + d] = y;
        }
      });
      return x;
    }

    // As in 32 bits, as Python has it.
    angle(at, plane, width) {
      return Math.fround(at * Math.fround(this.config.position_base ** Math.fround(-plane / width)));
    }

    // Queries or keys of n positions from `start` on, normalized and rotated.
    placed(x, name, heads, start) {
      const c = this.config, K = c.K;
      if (c.qk_norm) x = normalize(x, K, c.norm_eps, this.tensors[`${name}.weight`], null, false);
      if (c.positions !== "rotary") return x;
      const width = heads * K;
      for (let i = 0; i * width < x.length; i++)
        for (let k = 0; k < K / 2; k++) {
          const angle = this.angle(start + i, 2 * k, K), cos = Math.cos(angle), sin = Math.sin(angle);
          for (let h = 0; h < heads; h++) {
            const at = i * width + h * K + k, [one, two] = [x[at], x[at + K / 2]];
            x[at] = one * cos - two * sin;
            x[at + K / 2] = two * cos + one * sin;
          }
        }
      return x;
    }

    // Weights of head h of block l at position s, from the first key that it sees on: [first, weights].
    attention(state, l, h, s) {
      const c = this.config, K = c.K, window = c.windows[l % c.windows.length];
      const first = window ? Math.max(0, s - window + 1) : 0;
      const query = state.queries[l][s], g = Math.floor(h / (c.n_heads / c.G)) * K;
      const scores = new Float64Array(s - first + 1);
      for (let t = first; t <= s; t++) {
        const key = state.keys[l][t];
        let sum = 0;
        for (let k = 0; k < K; k++) sum += query[h * K + k] * key[g + k];
        scores[t - first] = sum * c.scale;
      }
      return [first, softmax(scores)];
    }

    gathered(state, l, n, off) {
      const c = this.config, K = c.K, width = c.n_heads * K, out = new Float32Array(n * width);
      for (let i = 0; i < n; i++)
        for (let h = 0; h < c.n_heads; h++) {
          if (off.has(`${l}.${h}`)) continue;
          const [first, weights] = this.attention(state, l, h, state.length + i);
          const g = Math.floor(h / (c.n_heads / c.G)) * K, to = i * width + h * K;
          for (let t = 0; t < weights.length; t++) {
            const value = state.values[l][first + t], weight = weights[t];
            for (let k = 0; k < K; k++) out[to + k] += weight * value[g + k];
          }
        }
      return out;
    }

    mlp(l, x, n) {
      const name = `blocks.${l}.mlp`, act = ACTIVATIONS[this.config.activation];
      const up = this.linear(`${name}.up`, x, n);
      if (this.config.activation === "swiglu") {
        const gate = this.linear(`${name}.gate`, x, n);
        for (let i = 0; i < up.length; i++) up[i] *= act(gate[i]);
      } else for (let i = 0; i < up.length; i++) up[i] = act(up[i]);
      return this.linear(`${name}.down`, up, n);
    }

    // Goes on by these ids. `off` names parts that add nothing: "1.0" is head 0 of block 1, "1.m"
    // its MLP.
    run(state, ids, off = new Set()) {
      const c = this.config, D = c.d_model, n = ids.length;
      if (c.positions === "learned" && state.length + n > c.context_length)
        throw new Error(`The model has places for ${c.context_length} tokens only.`);
      const rows = (x, width, to) => {
        for (let i = 0; i < n; i++) to.push(x.slice(i * width, (i + 1) * width));
      };
      const add = (x, y) => { for (let i = 0; i < x.length; i++) x[i] += y[i]; return x; };
      let x = this.embed(ids, state.length);
      const pre = c.norm_position === "pre";
      for (let l = 0; l < c.n_layers; l++) {
        const b = `blocks.${l}.`, a = `${b}attention.`;
        const read = pre ? this.norm(`${b}attention_norm`, x) : x;
        const query = this.linear(`${a}query`, read, n), key = this.linear(`${a}key`, read, n);
        rows(this.placed(query, `${a}query_norm`, c.n_heads, state.length), c.n_heads * c.K, state.queries[l]);
        rows(this.placed(key, `${a}key_norm`, c.G, state.length), c.G * c.K, state.keys[l]);
        rows(this.linear(`${a}value`, read, n), c.G * c.K, state.values[l]);
        add(x, this.linear(`${a}output`, this.gathered(state, l, n, off), n));
        if (!pre) x = this.norm(`${b}attention_norm`, x);
        if (!off.has(`${l}.m`)) add(x, this.mlp(l, pre ? this.norm(`${b}mlp_norm`, x) : x, n));
        if (!pre) x = this.norm(`${b}mlp_norm`, x);
        rows(x, D, state.streams[l]);
      }
      rows(pre ? this.norm("final_norm", x) : x, D, state.hidden);
      state.length += n;
      return state;
    }

    // Logits after position s; or what the head would read after block l already.
    logits(state, s, l = null) {
      const c = this.config;
      let x = l === null ? state.hidden[s] : state.streams[l][s];
      if (l !== null && c.norm_position === "pre") x = this.norm("final_norm", x);
      if (c.base_width) x = x.map((y) => y * c.base_width / c.d_model);
      const out = linear(this.tensors[c.tied ? "embedding.weight" : "head.weight"], null, x, 1);
      return c.soft_cap ? out.map((y) => c.soft_cap * Math.tanh(y / c.soft_cap)) : out;
    }
  }

  // ------------------------------------------------------------------ drawing

  // A number in [0, 1) that the seed and the place decide, so that a step back and a step on agree.
  function uniform(seed, place) {
    let x = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(place + 1, 0xc2b2ae35);
    for (const [shift, factor] of [[16, 0x7feb352d], [15, 0x846ca68b], [16, 0x2c1b3c6d]])
      x = Math.imul(x ^ (x >>> shift), factor);
    return ((x ^ (x >>> 16)) >>> 0) / 2 ** 32;
  }

  // The token that is drawn. Temperature 0 takes the likeliest; `allowed` ids may come out.
  function choose(logits, { temperature, topP, seed, place, allowed = logits.length }) {
    const scores = logits.slice(0, allowed);
    if (temperature === 0) return scores.reduce((best, x, i) => (x > scores[best] ? i : best), 0);
    const p = softmax(scores.map((x) => x / temperature));
    const order = [...p.keys()];
    if (topP < 1) order.sort((a, b) => p[b] - p[a] || a - b); // to sort takes longer than to draw
    let kept = 0, sum = 0;
    while (kept < order.length && (topP >= 1 || kept === 0 || sum < topP)) sum += p[order[kept++]];
    let left = uniform(seed, place) * sum;
    for (let i = 0; i < kept; i++) if ((left -= p[order[i]]) < 0) return order[i];
    return order[kept - 1];
  }

  Object.assign(live, { Model, readTensors, softmax, choose, settings });
})(globalThis);
