// Merge by merge: byte-pair encoding learned from the reader's own text, one merge at a time.

(function () {
  "use strict";
  const { kit } = Live;

  // GPT-2's cut into words, before any merge.
  const CUT = /'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s/gu;
  const words = (text) => text.match(CUT) || [];
  const spelled = (word) => [...new TextEncoder().encode(word)];

  // All words after a merge of the neighbours x and y into a new token.
  function merged(ids, x, y, token) {
    const out = [];
    for (let n = 0; n < ids.length; n += 1) {
      const meets = ids[n] === x && n + 1 < ids.length && ids[n + 1] === y;
      out.push(meets ? token : ids[n]);
      n += meets ? 1 : 0;
    }
    return out;
  }

  // The most frequent pair; of several, the one with the smallest ids.
  function best(lists) {
    const counts = new Map();
    for (const ids of lists) {
      for (let n = 0; n + 1 < ids.length; n += 1) {
        const pair = ids[n] * 65536 + ids[n + 1];
        counts.set(pair, (counts.get(pair) || 0) + 1);
      }
    }
    let [found, most] = [null, 0];
    counts.forEach((count, pair) => {
      if (count > most || (count === most && pair < found)) [found, most] = [pair, count];
    });
    return found === null ? null : { x: Math.floor(found / 65536), y: found % 65536, count: most };
  }

  // The merges in order, and the words' tokens after each of them.
  function learn(text, n_merges) {
    let lists = words(text).map(spelled);
    const [merges, states] = [[], [lists]];
    while (merges.length < n_merges) {
      const pair = best(lists);
      if (!pair) break;
      lists = lists.map((ids) => merged(ids, pair.x, pair.y, 256 + merges.length));
      merges.push([pair.x, pair.y, pair.count]);
      states.push(lists);
    }
    return { merges, states };
  }

  const bytesOf = (id, merges) =>
    id < 256 ? [id] : merges[id - 256].slice(0, 2).flatMap((part) => bytesOf(part, merges));
  const named = (id, merges) => {
    const text = new TextDecoder().decode(new Uint8Array(bytesOf(id, merges)));
    return text.replace(/ /g, "·").replace(/\n/g, "↵");
  };

  const TEXT = "a black cat sat back; a black bat sat back; the blackberry sat flat";
  const MOST = 60;

  function draw({ picture, controls, said }) {
    picture.parentElement.classList.add("below");
    const state = { text: TEXT, step: 0 };
    const number = kit.number(picture);
    const shown = kit.el("p", { class: "live-tokens", "aria-label": "The text in tokens", role: "group" });
    picture.append(shown);
    const input = kit.el("textarea", { class: "live-text", rows: 3, maxlength: 200, id: "live-merges-text" });
    input.value = TEXT;
    const slider = kit.slider(controls, {
      label: "merges", min: 0, max: MOST, step: 1, value: 0, show: (x) => kit.whole(x),
      input: (x) => {
        state.step = x;
        update();
      },
    });
    controls.append(kit.el("label", { for: "live-merges-text" }, "your text"), input);
    let learned = learn(TEXT, MOST);
    input.addEventListener("input", () => {
      state.text = input.value;
      learned = learn(state.text, MOST);
      state.step = 0;
      slider.value = 0;
      update();
    });

    function update() {
      const { merges, states } = learned;
      slider.range.max = Math.max(1, merges.length);
      const step = Math.min(state.step, merges.length);
      const lists = states[step];
      shown.replaceChildren(...lists.flatMap((ids, n) => [
        ...ids.map((id) => kit.el("span", { class: id === 255 + step ? "new" : null }, named(id, merges))),
        n + 1 < lists.length ? kit.el("wbr", {}) : null,
      ].filter(Boolean)));
      const tokens = lists.reduce((sum, ids) => sum + ids.length, 0);
      const n_bytes = states[0].reduce((sum, ids) => sum + ids.length, 0);
      const last = step ? merges[step - 1] : null;
      const fired = last
        ? `merge ${step} joined ${named(last[0], merges)} and ${named(last[1], merges)}, the most frequent pair: ${last[2]} time${last[2] === 1 ? "" : "s"}`
        : "no merge yet: each byte is a token";
      number(`${tokens} tokens`, `for ${n_bytes} bytes; ${fired}`);
      said(`${tokens} tokens for ${n_bytes} bytes; ${fired}.`);
    }
    update();
  }

  Live.widget("merges", { compute: { words, learn }, draw });
})();
