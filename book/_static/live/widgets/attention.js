// The attention bench: one query, four tokens; scores, weights, and the average they make.

(function () {
  "use strict";
  const { kit } = Live;

  // Keys are compared, values are averaged; `seen` says which tokens the mask leaves.
  function attend(query, keys, values, scale, seen) {
    const scores = keys.map((key) => scale * key.reduce((sum, k, n) => sum + k * query[n], 0));
    const most = Math.max(...scores.filter((_, t) => seen[t]));
    const powers = scores.map((score, t) => (seen[t] ? Math.exp(score - most) : 0));
    const total = powers.reduce((sum, power) => sum + power, 0);
    const weights = powers.map((power) => power / total);
    const output = values[0].map((_, n) =>
      values.reduce((sum, value, t) => sum + weights[t] * value[n], 0));
    return { scores, weights, output };
  }

  // The corners of the smallest convex shape around the points, in order (Andrew's chain).
  function hull(points) {
    const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const half = (list) => {
      const chain = [];
      for (const p of list) {
        while (chain.length > 1) {
          const [a, b] = chain.slice(-2);
          const turn = (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]);
          if (turn > 0) break;
          chain.pop();
        }
        chain.push(p);
      }
      return chain.slice(0, -1);
    };
    return sorted.length < 3 ? sorted : [...half(sorted), ...half(sorted.reverse())];
  }

  const WORDS = ["Otto", "plants", "a", "radish"];
  const UNIT = 60; // of the drawing for one unit of the plane
  const place = ([x, y]) => [170 + UNIT * x, 150 - UNIT * y];
  const value = ([x, y]) => [(x - 170) / UNIT, (150 - y) / UNIT];

  function draw({ picture, controls, said }) {
    const state = {
      query: [0.2, 1.5], points: [[-1.6, 0.8], [1.4, 1.3], [1.7, -0.9], [-0.7, -1.5]],
      scale: Math.SQRT1_2, masked: true,
    };
    const view = kit.drawing(picture, 340, 300,
      "A plane with the query and four tokens, each both key and value");
    view.append(kit.svg("path", { class: "grid", d: "M10 150H330M170 10V290" }));
    const shape = kit.svg("polygon", {
      style: "fill: var(--live-attention); fill-opacity: 0.13; stroke: var(--live-attention)",
    });
    const arrow = kit.svg("g", {});
    const output = kit.svg("g", {},
      kit.svg("path", { d: "M0 -8L8 0L0 8L-8 0Z", style: "fill: var(--live-warm)" }),
      kit.text(0, 21, "output", { style: "fill: var(--live-warm)", class: "live-letter" }));
    view.append(shape, arrow);
    const common = { place, value, limit: [-2.4, 2.4], step: 0.1 };
    const at = ([x, y]) => `${kit.fixed(x, 1)}, ${kit.fixed(y, 1)}`;
    const points = state.points.map((point, t) => kit.handle(view, {
      ...common, name: `${WORDS[t]}, key and value`, at: point, letter: WORDS[t], show: at,
      colour: "var(--live-attention)",
      move: (next) => {
        state.points[t] = next;
        update();
      },
    }));
    view.append(output);
    kit.handle(view, {
      ...common, name: "query", at: state.query, letter: "query", show: at,
      colour: "var(--live-head)",
      move: (next) => {
        state.query = next;
        update();
      },
    });

    const number = kit.number(controls);
    const rows = kit.bars(controls, WORDS, "Score and weight of each token");
    kit.slider(controls, {
      label: "scores are multiplied by", min: 0, max: 8, step: 0.05, value: 0.7,
      show: (x) => kit.fixed(x) + (Math.abs(x - Math.SQRT1_2) < 0.02 ? " ≈ 1/√K" : ""),
      input: (x) => {
        state.scale = x;
        update();
      },
    });
    state.scale = 0.7;
    kit.choice(controls, {
      label: "the query stands at “a”, so “radish” is",
      options: [["masked", "masked"], ["seen", "seen"]], value: "masked",
      change: (key) => {
        state.masked = key === "masked";
        update();
      },
    });

    function update() {
      const seen = WORDS.map((_, t) => t < 3 || !state.masked);
      const { scores, weights, output: mean } =
        attend(state.query, state.points, state.points, state.scale, seen);
      const corners = hull(state.points.filter((_, t) => seen[t]));
      shape.setAttribute("points", corners.map((p) => place(p).join(",")).join(" "));
      output.setAttribute("transform", `translate(${place(mean).join(" ")})`);
      arrow.replaceChildren(kit.arrow(...place([0, 0]), ...place(state.query),
        { style: "stroke: var(--live-head); fill: var(--live-head)" }));
      points.forEach(({ group }, t) => (group.style.opacity = seen[t] ? 1 : 0.45));
      rows(weights.map((weight, t) => ({
        share: weight, marked: weight === Math.max(...weights),
        text: seen[t] ? `${kit.fixed(scores[t])} → ${kit.fixed(weight)}` : "masked",
      })));
      const best = weights.indexOf(Math.max(...weights));
      const nearly = weights[best] > 0.95 ? "the output is nearly this one value"
        : "the output is a blend, inside the shape";
      const least = Math.min(...weights.filter((_, t) => seen[t]));
      const isEqual = weights[best] - least < 1e-9;
      number(kit.fixed(weights[best]), isEqual ? "for each token that is seen: the output is their mean"
        : `largest weight, on “${WORDS[best]}”: ${nearly}`);
      said(`${isEqual ? "All weights are" : "Largest weight"} ${kit.fixed(weights[best])}` +
        `${isEqual ? "" : `, on ${WORDS[best]}`}. Output at ${at(mean)}.`);
    }
    update();
  }

  Live.widget("attention", { compute: { attend, hull }, draw });
})();
