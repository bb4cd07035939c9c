// The valley: four rules, one rate, and noise. A matrix diag(x, y), so that Muon has something to
// orthogonalize: its singular values are the two sides of the valley.

(function () {
  "use strict";
  const { kit } = Live;

  // The singular value s of a matrix after one of Muon's five polynomials, and after all.
  function stretched(x, y) {
    const norm = Math.max(Math.hypot(x, y), 1e-7);
    return [x / norm, y / norm].map((s) => {
      for (let n = 0; n < 5; n += 1) s = 3.4445 * s - 4.775 * s ** 3 + 2.0315 * s ** 5;
      return s;
    });
  }

  // Each rule takes place, gradient, what it kept, rate and the step's number from 1.
  const RULES = {
    descent: (w, g, kept, rate) => w.map((x, n) => x - rate * g[n]),
    momentum: (w, g, kept, rate) => {
      kept.mean = g.map((x, n) => 0.9 * ((kept.mean || [0, 0])[n]) + x);
      return w.map((x, n) => x - rate * kept.mean[n]);
    },
    adam: (w, g, kept, rate, step) => {
      kept.mean = g.map((x, n) => 0.9 * ((kept.mean || [0, 0])[n]) + 0.1 * x);
      kept.square = g.map((x, n) => 0.95 * ((kept.square || [0, 0])[n]) + 0.05 * x * x);
      return w.map((x, n) => {
        const mean = kept.mean[n] / (1 - 0.9 ** step);
        const square = kept.square[n] / (1 - 0.95 ** step);
        return x - (rate * mean) / (Math.sqrt(square) + 1e-8);
      });
    },
    muon: (w, g, kept, rate) => {
      kept.mean = g.map((x, n) => 0.95 * ((kept.mean || [0, 0])[n]) + 0.05 * x);
      const ahead = g.map((x, n) => 0.05 * x + 0.95 * kept.mean[n]);
      const step = stretched(...ahead);
      return w.map((x, n) => x - rate * 0.2 * Math.SQRT2 * step[n]);
    },
  };

  const CURVATURE = [0.02, 2.5];
  const loss = (w) => (CURVATURE[0] * w[0] ** 2 + CURVATURE[1] * w[1] ** 2) / 2;

  // The places of so many steps; `noises` are added to the gradients, two for each step.
  function walk(rule, start, rate, steps, noises) {
    const kept = {};
    const path = [start];
    for (let step = 1; step <= steps; step += 1) {
      const w = path[path.length - 1];
      const g = w.map((x, n) => CURVATURE[n] * x + (noises ? noises[2 * step - 2 + n] : 0));
      path.push(RULES[rule](w, g, kept, rate, step));
    }
    return path;
  }

  const NAMES = { descent: "descent", momentum: "momentum", adam: "Adam", muon: "Muon" };
  const STEPS = 80;
  const place = ([x, y]) => [240 + 47 * x, 95 - 50 * y];
  const value = ([x, y]) => [(x - 240) / 47, (95 - y) / 50];
  const near = (x) => Math.min(1e4, Math.max(-1e4, x)); // a path that flies off still has a line

  function draw({ picture, controls, said }) {
    const state = { rule: "descent", rate: 0.2, noise: 0, start: [-4, 1], steps: STEPS };
    const view = kit.drawing(picture, 340, 190, "A long valley from above, and the way of each rule");
    const clip = kit.svg("clipPath", { id: "live-valley" },
      kit.svg("rect", { x: 5, y: 5, width: 330, height: 180 }));
    view.append(clip);
    for (const level of [0.01, 0.03, 0.08, 0.2, 0.5, 1.2, 2.8]) {
      const [cx, cy] = place([0, 0]);
      view.append(kit.svg("ellipse", {
        class: "grid", cx, cy, rx: 47 * Math.sqrt((2 * level) / CURVATURE[0]),
        ry: 50 * Math.sqrt((2 * level) / CURVATURE[1]), "clip-path": "url(#live-valley)",
      }));
    }
    const others = kit.svg("g", { "clip-path": "url(#live-valley)" });
    const own = kit.svg("g", { "clip-path": "url(#live-valley)" });
    const [cx, cy] = place([0, 0]);
    view.append(others, own, kit.svg("path", {
      d: `M${cx - 5} ${cy - 5}l10 10M${cx + 5} ${cy - 5}l-10 10`,
      style: "stroke: var(--live-head); stroke-width: 2.5",
    }));
    kit.handle(view, {
      name: "start", at: state.start, place, value, limit: [-4.6, 1.6], step: 0.1, letter: "start",
      colour: "var(--live-truth)", show: (w) => w.map((x) => kit.fixed(x, 1)).join(", "),
      move: (w) => {
        state.start = w;
        update();
      },
    });

    const number = kit.number(controls);
    const keys = Object.keys(RULES);
    kit.choice(controls, {
      label: "the rule in colour", value: "descent", options: keys.map((key) => [key, NAMES[key]]),
      change: (key) => {
        state.rule = key;
        update();
      },
    });
    kit.slider(controls, {
      label: "rate η", min: -2, max: 0.3, step: 0.02, value: Math.log10(0.2),
      show: (x) => kit.fixed(10 ** x, 3),
      input: (x) => {
        state.rate = 10 ** x;
        update();
      },
    });
    state.rate = 10 ** -0.7;
    kit.slider(controls, {
      label: "noise of a batch, added to each gradient", min: 0, max: 1, step: 0.05, value: 0,
      input: (x) => {
        state.noise = x;
        update();
      },
    });
    kit.slider(controls, {
      label: "steps", min: 1, max: STEPS, step: 1, value: STEPS, show: (x) => kit.whole(x),
      input: (x) => {
        state.steps = x;
        update();
      },
    });
    const rows = kit.bars(controls, keys.map((key) => NAMES[key]),
      "Loss of each rule after these steps");
    const unit = kit.normals(2 * STEPS, 9);

    const say = (x) => (x > 1e3 ? "flew off" : x < 1e-4 ? "< 0.0001" : kit.fixed(x, 4));

    function update() {
      const noises = unit.map((x) => state.noise * x);
      const losses = {};
      others.replaceChildren();
      for (const key of keys) {
        const path = walk(key, state.start, state.rate, state.steps, noises);
        losses[key] = loss(path[path.length - 1]);
        const points = path.map((w) => place(w).map(near).join(",")).join(" ");
        if (key === state.rule) {
          own.replaceChildren(
            kit.svg("polyline", { points, style: "fill: none; stroke: var(--live-attention); stroke-width: 1.8" }),
            ...path.map((w) => {
              const [x, y] = place(w).map(near);
              return kit.svg("circle", { cx: x, cy: y, r: 2.2, style: "fill: var(--live-attention)" });
            }));
        } else {
          others.append(kit.svg("polyline", { points, class: "grid" }));
        }
      }
      rows(keys.map((key) => ({
        // Each factor of ten above 0.0001 is a seventh of the track.
        share: (Math.log10(Math.max(losses[key], 1e-4)) + 4) / 7, text: say(losses[key]),
        marked: key === state.rule,
        colour: key === state.rule ? "var(--live-attention)" : "var(--live-line)",
      })));
      const limit = 2 / CURVATURE[1];
      const steps = `after ${state.steps} ${state.steps === 1 ? "step" : "steps"}`;
      const now = say(losses[state.rule]);
      const note = state.rule === "descent"
        ? `its rate is ${state.rate > limit ? "above" : "below"} 2 / λ = ${kit.fixed(limit, 1)}`
        : "the lowest possible is 0";
      number(now, `${now === "flew off" ? "" : "loss of "}${NAMES[state.rule]} ${steps}; ${note}`);
      said(`${NAMES[state.rule]} at rate ${kit.fixed(state.rate, 3)}: ` +
        `${now === "flew off" ? "" : "loss "}${now} ${steps}.`);
    }
    update();
  }

  Live.widget("valley", { compute: { walk, loss, stretched }, draw });
})();
