// A norm as a projection: three numbers, and what each norm no longer knows of them.

(function () {
  "use strict";
  const { kit } = Live;

  const mean = (x) => x.reduce((sum, each) => sum + each, 0) / x.length;
  const divided = (x, eps) => {
    const size = Math.sqrt(mean(x.map((each) => each * each)) + eps);
    return x.map((each) => each / size);
  };
  const rms = (x, eps = 1e-5) => divided(x, eps);
  const layer = (x, eps = 1e-5) => divided(x.map((each) => each - mean(x)), eps);
  const NORMS = { layer, rms };

  // Three axes as three directions of the drawing, seen from 20° to the left and 20° above.
  const [SIDE, UP] = [(-20 * Math.PI) / 180, (20 * Math.PI) / 180];
  const AXES = [
    [-Math.sin(SIDE), Math.cos(SIDE) * Math.sin(UP)],
    [Math.cos(SIDE), Math.sin(SIDE) * Math.sin(UP)],
    [0, -Math.cos(UP)],
  ];
  const UNIT = 36;
  const place = (x) => [0, 1].map((n) =>
    [105, 185][n] + UNIT * x.reduce((sum, each, axis) => sum + each * AXES[axis][n], 0));

  function draw({ picture, controls, said }) {
    const state = { x: [0.2, 2, 0.8], all: 0, times: 1, norm: "layer" };
    const view = kit.drawing(picture, 340, 300, "Three dimensions: a vector, and the circle or sphere of its norm");
    const line = (from, to, look) =>
      kit.svg("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], ...look });
    const origin = place([0, 0, 0]);
    [0, 1, 2].forEach((axis) => {
      const end = [0, 0, 0].map((_, n) => (n === axis ? 2.6 : 0));
      view.append(line(origin, place(end), { class: "axis" }),
        kit.text(...place(end.map((x) => 1.12 * x)), `x${"₀₁₂"[axis]}`, { class: "quiet" }));
    });
    const ground = kit.svg("g", {});
    view.append(ground);
    const number = kit.number(controls);
    kit.choice(controls, {
      label: "norm", value: "layer", options: [["layer", "LayerNorm"], ["rms", "RMSNorm"]],
      change: (norm) => {
        state.norm = norm;
        update();
      },
    });
    const slider = (label, min, max, start, change) => kit.slider(controls, {
      label, min, max, step: 0.1, value: start, show: (x) => kit.fixed(x, 1),
      input: (x) => {
        change(x);
        update();
      },
    });
    slider("add to all three", -1, 1, 0, (x) => (state.all = x));
    slider("multiply all three by", 0.5, 1.5, 1, (x) => (state.times = x));
    state.x.forEach((start, n) => slider(`x${"₀₁₂"[n]}`, -1, 2, start, (x) => (state.x[n] = x)));

    // A circle of radius √3 around (1, 1, 1), in the plane where the mean is zero.
    const circle = Array.from({ length: 73 }, (_, n) => {
      const angle = (n * Math.PI) / 36;
      const [a, b] = [Math.cos(angle) * Math.sqrt(1.5), Math.sin(angle) * Math.sqrt(0.5)];
      return place([a - b, -a - b, 2 * b]).join(",");
    }).join(" ");

    function update() {
      const { norm } = state;
      const input = state.x.map((x) => state.times * x + state.all);
      const output = NORMS[norm](input);
      const middle = norm === "layer" ? input.map((x) => x - mean(input)) : null;
      ground.replaceChildren(norm === "layer"
        ? kit.svg("polygon", { points: circle, style: "fill: var(--live-norm); fill-opacity: 0.12; stroke: var(--live-norm)" })
        : kit.svg("circle", {
          cx: origin[0], cy: origin[1], r: UNIT * Math.sqrt(3),
          style: "fill: var(--live-norm); fill-opacity: 0.12; stroke: var(--live-norm)",
        }));
      if (middle) {
        ground.append(line(place(input), place(middle), { style: "stroke: var(--live-line); stroke-width: 1.5; stroke-dasharray: 4 3" }));
      }
      ground.append(line(place(middle || input), place(output), { style: "stroke: var(--live-line); stroke-width: 1.5; stroke-dasharray: 1 3" }));
      for (const [x, colour, name] of [[input, "var(--live-stream)", "input"], [output, "var(--live-norm)", "output"]]) {
        const at = place(x);
        ground.append(kit.arrow(...origin, ...at, { style: `stroke: ${colour}; fill: ${colour}` }),
          kit.text(at[0], at[1] + (name === "input" ? -8 : 17), name, { style: `fill: ${colour}`, class: "live-letter" }));
      }
      const plain = NORMS[norm](state.x);
      const moved = Math.hypot(...output.map((x, n) => x - plain[n]));
      const name = norm === "layer" ? "LayerNorm" : "RMSNorm";
      const numbers = output.map((x) => kit.fixed(x)).join(", ");
      number(kit.fixed(moved),
        `how far adding and multiplying moved the output of ${name}, which is (${numbers})`);
      said(`${name} gives ${numbers}; adding and multiplying moved it by ${kit.fixed(moved)}.`);
    }
    update();
  }

  Live.widget("norm", { compute: { layer, rms }, draw });
})();
