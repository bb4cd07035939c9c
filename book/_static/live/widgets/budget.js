// The budget: devices and hours become operations, and a law of the loss splits them.

(function () {
  "use strict";
  const { kit } = Live;

  // Besiroglu et al. (2024): loss = E + A / N^alpha + B / M^beta, in nats per token.
  const LAW = { floor: 1.8172, A: 482.01, alpha: 0.3478, B: 2085.43, beta: 0.3658 };
  // Dense 16-bit operations per second, from the makers' data sheets.
  const DEVICES = { T4: 65e12, A100: 312e12, H100: 989.4e12 };

  const operations = (peak, devices, hours, utilization) =>
    peak * devices * hours * 3600 * utilization;
  const loss = (N, M) => LAW.floor + LAW.A * N ** -LAW.alpha + LAW.B * M ** -LAW.beta;

  // N and M of the lowest loss that 6 N M operations can buy.
  function split(C) {
    const ratio = (LAW.alpha * LAW.A) / (LAW.beta * LAW.B);
    const N = (ratio * (C / 6) ** LAW.beta) ** (1 / (LAW.alpha + LAW.beta));
    return [N, C / (6 * N)];
  }

  function draw({ picture, controls, said }) {
    const state = { device: "H100", devices: 8, hours: 24, lean: 0 };
    const view = kit.drawing(picture, 340, 250, "Loss against the number of parameters, for this budget");
    const number = kit.number(controls);
    kit.choice(controls, {
      label: "device, at 40% of its peak, for 6 N M operations", value: "H100", options: Object.keys(DEVICES).map((d) => [d, d]),
      change: (device) => {
        state.device = device;
        update();
      },
    });
    const slider = (label, min, max, step, start, show, change) => kit.slider(controls, {
      label, min, max, step, value: start, show,
      input: (x) => {
        change(x);
        update();
      },
    });
    slider("devices", 0, 12, 1, 3, (x) => kit.whole(2 ** x), (x) => (state.devices = 2 ** x));
    slider("time", -4, 6, 1, 0, (x) => (x < 1 ? `${24 * 2 ** x} hours` : `${2 ** x} days`),
      (x) => (state.hours = 24 * 2 ** x));
    slider("the model, against the best size", -1.5, 1.5, 0.05, 0,
      (x) => `× ${Number((10 ** x).toPrecision(2))}`, (x) => (state.lean = x));

    const [least, most] = [6, 13]; // powers of ten of N
    const x = (N) => 40 + (290 * (Math.log10(N) - least)) / (most - least);
    const y = (value) => 215 - (200 * (Math.min(value, 5) - LAW.floor)) / (5 - LAW.floor);
    const curve = kit.svg("polyline", { style: "fill: none; stroke: var(--live-attention); stroke-width: 2" });
    const valley = kit.svg("polyline", { style: "fill: none; stroke: var(--live-line); stroke-dasharray: 3 3; stroke-width: 1.5" });
    const dot = kit.svg("circle", { r: 6, style: "fill: var(--live-head)" });
    view.append(
      kit.svg("path", { class: "axis", d: "M40 10V215H335" }),
      ...[[6, "1 M"], [8, "100 M"], [10, "10 B"], [12, "1 T"]].map(([p, words]) =>
        kit.text(x(10 ** p), 231, words, { class: "quiet" })),
      ...[2, 3, 4, 5].map((value) => kit.text(34, y(value) + 4, value, { class: "quiet end" })),
      kit.text(335, 247, "parameters N", { class: "quiet end" }),
      kit.text(338, 9, "loss, nats per token; dashed: the best of each budget", { class: "quiet end" }),
      kit.text(46, 210, "the law’s floor", { class: "quiet start" }), valley, curve, dot);
    const best = Array.from({ length: 60 }, (_, n) => split(10 ** (15 + n / 5)));
    valley.setAttribute("points", best.filter(([N, M]) => N > 1e6 && N < 1e13 && loss(N, M) < 5)
      .map(([N, M]) => `${x(N)},${y(loss(N, M))}`).join(" "));

    function update() {
      const C = operations(DEVICES[state.device], state.devices, state.hours, 0.4);
      const ideal = split(C)[0];
      const N = ideal * 10 ** state.lean;
      const M = C / (6 * N);
      const points = Array.from({ length: 141 }, (_, n) => 10 ** (least + n / 20))
        .filter((n) => loss(n, C / (6 * n)) < 5);
      curve.setAttribute("points", points.map((n) => `${x(n)},${y(loss(n, C / (6 * n)))}`).join(" "));
      dot.setAttribute("cx", x(N));
      dot.setAttribute("cy", y(loss(N, M)));
      const now = loss(N, M);
      const beyond = now - loss(...split(C));
      const price = beyond < 0.0005 ? "the best split" : `${kit.fixed(beyond, 3)} above the best split`;
      number(kit.fixed(now, 3),
        `nats per token, ${price}: ${kit.counted(N)} parameters, ${kit.counted(M)} tokens, ` +
        `${kit.whole(M / N) === "0" ? (M / N).toPrecision(1) : kit.whole(M / N)} for each parameter`);
      said(`${kit.counted(N)} parameters, ${kit.counted(M)} tokens: loss ${kit.fixed(now, 3)}, ${price}.`);
    }
    update();
  }

  Live.widget("budget", { compute: { operations, loss, split, DEVICES }, draw });
})();
