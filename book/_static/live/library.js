// A folder in the layout of `transformers`, such as `decoder-only export` writes: our settings and
// our names of the weights, for the families of gpt2, llama and qwen3.

(function (root) {
  "use strict";

  const live = (root.live = root.live || {});
  const transposed = ({ shape: [rows, cols], data }) => {
    const out = new Float32Array(data.length);
    for (let r = 0; r < rows; r++) for (let c = 0; c < cols; c++) out[c * rows + r] = data[r * cols + c];
    return { shape: [cols, rows], data: out };
  };
  const third = ({ shape: [rows, ...rest], data }, i) => {
    const n = data.length / 3;
    return { shape: [rows / 3, ...rest], data: data.slice(i * n, (i + 1) * n) };
  };
  const GPT2 = {
    "ln_1": "attention_norm", "ln_2": "mlp_norm", "attn.c_proj": "attention.output",
    "mlp.c_fc": "mlp.up", "mlp.c_proj": "mlp.down",
  };
  const LLAMA = {
    "input_layernorm": "attention_norm", "post_attention_layernorm": "mlp_norm",
    "self_attn.q_proj": "attention.query", "self_attn.k_proj": "attention.key",
    "self_attn.v_proj": "attention.value", "self_attn.o_proj": "attention.output",
    "self_attn.q_norm": "attention.query_norm", "self_attn.k_norm": "attention.key_norm",
    "mlp.gate_proj": "mlp.gate", "mlp.up_proj": "mlp.up", "mlp.down_proj": "mlp.down",
  };
  const TOP = {
    "wte": "embedding", "wpe": "positions", "ln_f": "final_norm", "embed_tokens": "embedding",
    "norm": "final_norm", "lm_head": "head",
  };

  function fromLibrary(c, tensors) {
    const isGpt2 = c.model_type === "gpt2";
    if (!isGpt2 && !["llama", "qwen3"].includes(c.model_type))
      throw new Error(`The page cannot run a model of the family ${c.model_type}.`);
    const rope = { ...(c.rope_scaling || {}), ...(c.rope_parameters || {}) };
    const refused = ["attention_bias", "mlp_bias", "use_sliding_window", "add_cross_attention",
      "scale_attn_by_inverse_layer_idx"].find((name) => c[name]) ||
      ((rope.rope_type || rope.type || "default") !== "default" && "rope_type") ||
      (c.scale_attn_weights === false && "scale_attn_weights");
    if (refused) throw new Error(`The page cannot run a model with the setting ${refused}.`);
    const activation = isGpt2 ? { gelu_new: "gelu_tanh" }[c.activation_function || "gelu_new"]
      : { silu: "swiglu", relu: "squared_relu" }[c.hidden_act || "silu"];
    if (!activation) throw new Error("The page cannot run this model's activation.");
    const model = isGpt2 ? {
      vocab_size: c.vocab_size, context_length: c.n_positions, d_model: c.n_embd, n_layers: c.n_layer,
      n_heads: c.n_head, d_mlp: c.n_inner || null, norm_eps: c.layer_norm_epsilon || 1e-5, activation,
      tied: c.tie_word_embeddings !== false,
    } : {
      vocab_size: c.vocab_size, context_length: c.max_position_embeddings, d_model: c.hidden_size,
      n_layers: c.num_hidden_layers, n_heads: c.num_attention_heads, n_kv_heads: c.num_key_value_heads,
      head_dim: c.head_dim || null, d_mlp: c.intermediate_size, norm_eps: c.rms_norm_eps || 1e-6,
      position_base: rope.rope_theta || c.rope_theta || 10000, activation, positions: "rotary",
      norm: "rms", bias: false, qk_norm: c.model_type === "qwen3", tied: c.tie_word_embeddings === true,
    };
    const ours = {};
    for (const [name, tensor] of Object.entries(tensors)) {
      const parts = name.replace(/^(transformer|model)\./, "").split(".");
      const kind = parts.pop();
      if (TOP[parts.join(".")]) ours[`${TOP[parts.join(".")]}.${kind}`] = tensor;
      if (!["h", "layers"].includes(parts[0])) continue;
      const [, block, ...inner] = parts;
      const theirs = inner.join(".");
      const isMatrix = isGpt2 && kind === "weight" && tensor.shape.length === 2;
      const x = isMatrix ? transposed(tensor) : tensor;
      if (isGpt2 && theirs === "attn.c_attn")
        ["query", "key", "value"].forEach((part, i) => { ours[`blocks.${block}.attention.${part}.${kind}`] = third(x, i); });
      else if ((isGpt2 ? GPT2 : LLAMA)[theirs]) ours[`blocks.${block}.${(isGpt2 ? GPT2 : LLAMA)[theirs]}.${kind}`] = x;
    }
    if (activation === "squared_relu")
      for (const name of Object.keys(ours).filter((name) => name.endsWith("mlp.gate.weight"))) {
        const up = ours[name.replace("gate", "up")];
        if (!up || up.data.some((y, i) => y !== ours[name].data[i]))
          throw new Error("The page cannot run a gate of its own with hidden_act relu.");
        delete ours[name];
      }
    return [model, ours];
  }

  Object.assign(live, { fromLibrary });
})(globalThis);
