// Heads that share keys and values: what a cache holds, by the number of heads that are kept.

(function () {
  "use strict";
  const { kit } = Live;

  // Keys and values of all positions in all blocks.
  const cacheBytes = ({ blocks, groups, width, length, texts = 1, each = 2 }) =>
    2 * blocks * groups * width * length * texts * each;

  // The shapes of two models; heads of 128.
  const MODELS = {
    llama: { name: "Llama 2 70B", blocks: 80, heads: 64, width: 128 },
    gpt: { name: "GPT-3 175B", blocks: 96, heads: 96, width: 128 },
  };
  const divisors = (n) => Array.from({ length: n }, (_, i) => i + 1).filter((g) => n % g === 0);

  function draw({ picture, controls, said }) {
    const state = { model: "llama", groups: 64, length: 4096, texts: 16 };
    const view = kit.drawing(picture, 340, 210, "Query heads above, joined to the heads of keys and values that they read");
    const number = kit.number(controls);
    kit.choice(controls, {
      label: "shape", value: "llama", options: Object.entries(MODELS).map(([key, m]) => [key, m.name]),
      change: (key) => {
        state.model = key;
        heads.range.max = divisors(MODELS[key].heads).length - 1;
        heads.value = heads.range.max;
        state.groups = MODELS[key].heads;
        update();
      },
    });
    const heads = kit.slider(controls, {
      label: "heads of keys and values G", min: 0, max: divisors(64).length - 1, step: 1,
      value: divisors(64).length - 1,
      show: (x) => {
        const [list, n] = [divisors(MODELS[state.model].heads), MODELS[state.model].heads];
        const g = list[Math.min(x, list.length - 1)];
        return g === 1 ? "1 for all" : g === n ? `${g}, one each` : `${g}`;
      },
      input: (x) => {
        state.groups = divisors(MODELS[state.model].heads)[x];
        update();
      },
    });
    kit.slider(controls, {
      label: "positions in each text", min: 9, max: 17, step: 1, value: 12, show: (x) => kit.whole(2 ** x),
      input: (x) => {
        state.length = 2 ** x;
        update();
      },
    });
    kit.slider(controls, {
      label: "texts at a time", min: 0, max: 8, step: 1, value: 4, show: (x) => kit.whole(2 ** x),
      input: (x) => {
        state.texts = 2 ** x;
        update();
      },
    });
    const rows = kit.bars(controls, ["cache", "80 GB GPU"], "The cache beside one GPU's memory");

    function update() {
      const { blocks, heads: n, width } = MODELS[state.model];
      const { groups, length, texts } = state;
      const size = cacheBytes({ blocks, groups, width, length, texts });
      const [across, wide] = [Math.min(32, n), 320 / Math.min(32, n)];
      view.replaceChildren(
        kit.text(10, 18, `query heads, ${across} of ${n} drawn`, { class: "start", style: "fill: var(--live-attention)" }),
        kit.text(10, 200, "heads of keys and values that they read", { class: "start", style: "fill: var(--live-head)" }));
      const share = n / groups;
      const drawn = new Map();
      for (let h = 0; h < across; h += 1) drawn.set(Math.floor(h / share), [...(drawn.get(Math.floor(h / share)) || []), h]);
      drawn.forEach((members) => {
        const x = (h) => 10 + wide * (h + 0.5);
        const middle = (x(members[0]) + x(members[members.length - 1])) / 2;
        members.forEach((h) => view.append(
          kit.svg("line", { x1: x(h), y1: 48, x2: middle, y2: 160, class: "axis" }),
          kit.svg("rect", { x: x(h) - 0.4 * wide, y: 30, width: 0.8 * wide, height: 20, rx: 1.5, style: "fill: var(--live-attention)" })));
        const box = Math.max(0.8 * wide, Math.min(14, wide * members.length * 0.8));
        view.append(kit.svg("rect", { x: middle - box / 2, y: 160, width: box, height: 22, rx: 1.5, style: "fill: var(--live-head)" }));
      });
      rows([
        { share: size / 160e9, text: kit.bytes(size), colour: "var(--live-head)" },
        { share: 0.5, text: kit.bytes(80e9), colour: "var(--live-line)" },
      ]);
      const saved = groups === n ? "nothing is shared" : `${share} times less than without sharing`;
      number(kit.bytes(size),
        `cache of ${texts} text${texts === 1 ? "" : "s"}, ${kit.bytes(cacheBytes({ blocks, groups, width, length: 1 }))} a token: ${saved}`);
      said(`${groups} heads of keys and values: cache of ${kit.bytes(size)}; ${saved}.`);
    }
    update();
  }

  Live.widget("shared", { compute: { cacheBytes }, draw });
})();
