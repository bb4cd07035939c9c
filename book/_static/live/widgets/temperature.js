// Logits, temperature and loss: four words, of which one came.

(function () {
  "use strict";
  const { kit } = Live;

  function softmax(logits, temperature) {
    const most = Math.max(...logits);
    const powers = logits.map((y) => Math.exp((y - most) / temperature));
    const total = powers.reduce((sum, power) => sum + power, 0);
    return powers.map((power) => power / total);
  }

  // Nats: the surprise at the word that came.
  function loss(logits, temperature, came) {
    const most = Math.max(...logits);
    const total = logits.reduce((sum, y) => sum + Math.exp((y - most) / temperature), 0);
    return Math.log(total) - (logits[came] - most) / temperature;
  }

  // How the loss changes with each logit.
  const gradient = (logits, temperature, came) =>
    softmax(logits, temperature).map((p, v) => (p - (v === came ? 1 : 0)) / temperature);

  const WORDS = ["sat", "ran", "the", "."];

  function draw({ picture, controls, said }) {
    const state = { logits: [1.4, 0.7, 0, 0], temperature: 1, came: 1 };
    const number = kit.number(picture);
    kit.choice(picture, {
      label: "the word that came after “the cat”", value: 1,
      options: WORDS.map((word, v) => [v, word]),
      change: (v) => {
        state.came = v;
        update();
      },
    });
    const rows = kit.bars(picture, WORDS, "Probability of each word");
    const view = kit.drawing(picture, 340, 120, "The loss at every temperature");
    kit.slider(controls, {
      label: "temperature T", min: 0.2, max: 4, step: 0.05, value: 1,
      input: (x) => {
        state.temperature = x;
        update();
      },
    });
    WORDS.forEach((word, v) => kit.slider(controls, {
      label: `logit of “${word}”`, min: -3, max: 3, step: 0.1, value: state.logits[v],
      show: (x) => kit.fixed(x, 1),
      input: (x) => {
        state.logits[v] = x;
        update();
      },
    }));
    const x = (t) => 30 + (300 * (t - 0.2)) / 3.8;
    const y = (bits) => 95 - 14 * Math.min(bits, 6.2);
    const curve = kit.svg("polyline", { style: "fill: none; stroke: var(--live-head); stroke-width: 2" });
    const dot = kit.svg("circle", { r: 5, style: "fill: var(--live-head)" });
    view.append(
      kit.svg("path", { class: "axis", d: `M30 8V95H330` }),
      ...[0, 2, 4, 6].map((bits) => kit.text(24, y(bits) + 4, bits, { class: "quiet end" })),
      ...[1, 2, 3, 4].map((t) => kit.text(x(t), 110, t, { class: "quiet" })),
      kit.text(36, 16, "loss in bits, against T", { class: "quiet start" }), curve, dot);

    function update() {
      const { logits, temperature, came } = state;
      const p = softmax(logits, temperature);
      const slope = gradient(logits, temperature, came);
      const bits = (t) => loss(logits, t, came) / Math.LN2;
      rows(p.map((each, v) => ({
        share: each, marked: v === came, text: `${kit.fixed(each)}, ∂ ${kit.fixed(slope[v])}`,
        colour: v === came ? "var(--live-head)" : "var(--live-model)",
      })));
      const points = Array.from({ length: 96 }, (_, n) => 0.2 + 0.04 * n);
      curve.setAttribute("points", points.map((t) => `${x(t)},${y(bits(t))}`).join(" "));
      dot.setAttribute("cx", x(temperature));
      dot.setAttribute("cy", y(bits(temperature)));
      const now = bits(temperature);
      number(`${kit.fixed(now)} bits`,
        `loss: the surprise at “${WORDS[came]}”; ∂ is its derivative by each logit`);
      said(`T ${kit.fixed(temperature)}: “${WORDS[came]}” has probability ${kit.fixed(p[came])}, ` +
        `loss ${kit.fixed(now)} bits.`);
    }
    update();
  }

  Live.widget("temperature", { compute: { softmax, loss, gradient }, draw });
})();
