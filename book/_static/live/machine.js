// The page of the story machine: what the model expects beside what the language allows.

(function (root) {
  "use strict";

  const live = root.live;
  const box = document.getElementById("story-machine");
  if (!box) return;
  const base = live.base;
  const calm = root.matchMedia("(prefers-reduced-motion: reduce)");
  const MOST = 1000; // tokens of a text

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  };

  const the = { // all that a link restores, and what follows from it
    name: "hamlet", ids: [], place: 1, temperature: 0.8, topP: 1, greedy: false, seed: 1,
    off: new Set(), look: "", model: null, tokenizer: null, language: null, next: null,
    state: null, slid: null, done: [], surprise: [], playing: false, kept: {}, loading: {},
  };

  // ------------------------------------------------------------------ loading

  const asked = {};
  const script = (name) => (asked[name] = asked[name] || new Promise((done, failed) => {
    const element = make("script", { src: `${base}data/${name}.js` });
    element.onload = done;
    element.onerror = () => {
      delete asked[name]; // the next press may have more luck
      failed(new Error(`The file ${name}.js could not be loaded.`));
    };
    document.head.append(element);
  }));

  // What `decoder_only_book.live.packed` compressed.
  async function unpacked(text) {
    if (!root.DecompressionStream) throw new Error("This browser is too old for the stored models.");
    const letters = atob(text), packed = new Uint8Array(letters.length);
    for (let i = 0; i < packed.length; i++) packed[i] = letters.charCodeAt(i);
    const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(plain).arrayBuffer());
  }

  // The weights; each part is unpacked while others come. The language comes after them, as the
  // first token does not need it.
  async function load(name) {
    parts.bar.value = 0;
    await Promise.all([script("letters"), script(`${name}-0`)]);
    const about = live.data[`${name}/about`];
    const bytes = new Uint8Array(about.bytes);
    let came = 0;
    await Promise.all(Array.from({ length: about.parts }, async (_, i) => {
      await script(`${name}-${i + 1}`);
      const planes = await Promise.all(live.data[`${name}/weights/${i}`].map(unpacked));
      planes.forEach((plane, j) => {
        for (let k = 0, at = i * about.part + j; k < plane.length; k++, at += 2) bytes[at] = plane[k];
      });
      if (the.name === name) parts.bar.value = ++came / about.parts;
    }));
    const model = new live.Model(about.model, live.readTensors(bytes.buffer));
    for (let i = 0; i < about.parts; i++) delete live.data[`${name}/weights/${i}`];
    const kept = the.kept[name] = [model, live.readTokenizer(live.data[`${name}/tokenizer`]), null];
    kept.coming = script(`${name}-language`).then(() => {
      kept[2] = new live.Language(live.data[`${name}/language`]);
    }).finally(() => {
      kept.coming = null;
      if (the.model === model) judgeAgain(kept[2]);
    });
    kept.coming.catch(() => {}); // who needs it is told
  }

  // A story may be over before its language came, or did not come.
  function judgeAgain(language) {
    if (language) speak(language);
    else if (the.done.length) draw();
    const { said, verdict } = parts;
    if (said.textContent.endsWith(COMING)) say(said.textContent.replace(COMING, verdict.textContent));
  }

  function use(name, model, tokenizer, language) {
    if (tokenizer.size > model.config.vocab_size)
      throw new Error(`The tokenizer has ${tokenizer.size} tokens, the model ${model.config.vocab_size}.`);
    parts.bar.hidden = true;
    Object.assign(the, { name, model, tokenizer, state: model.start(), slid: null, done: [], surprise: [] });
    speak(language);
    clearTimeout(catchUp.waits);
    the.off.clear();
    start();
    looks();
  }

  function speak(language) {
    the.language = language;
    the.next = language && new live.NextToken(language, the.tokenizer);
    if (language && the.done.length) draw();
  }

  const COMING = "The language is on its way.";
  const isComing = () => !the.language && Boolean((the.kept[the.name] || {}).coming);

  // The chosen model, loaded once; several presses of a button wait for the same one. Where the
  // reader chooses another meanwhile, that one.
  async function ready(isWhole = true) {
    while (!the.model) {
      const { name } = the;
      if (!the.kept[name]) {
        parts.bar.hidden = false;
        await (the.loading[name] = the.loading[name] || load(name).finally(() => { delete the.loading[name]; }));
      }
      if (!the.model && the.name === name) use(name, ...the.kept[name]);
    }
    if (isWhole) await (the.kept[the.name] || {}).coming;
  }

  const start = () => {
    const { end } = the.tokenizer;
    the.ids = [end === undefined ? the.tokenizer.encode("\n")[0] : end];
    the.place = 1;
  };

  // A run's folder, or one that `decoder-only export` wrote.
  async function open(files) {
    const named = (test) => files.filter((file) => test(file.name));
    const [config] = named((name) => name === "config.json");
    const [words] = named((name) => name === "tokenizer.json");
    const states = named((name) => /^state-\d+\.safetensors$/.test(name)).sort((a, b) => a.name < b.name ? 1 : -1);
    const weights = named((name) => name === "weights.safetensors")[0] ||
      named((name) => name === "model.safetensors")[0] || states[0];
    if (!config || !words || !weights)
      throw new Error("This is no run's folder: it must hold config.json, tokenizer.json and weights.safetensors.");
    if (weights.size > 600e6) throw new Error("The model is too large for a page (600 MB of weights).");
    const parsed = async (file) => {
      try { return JSON.parse(await file.text()); } catch (_) { throw new Error(`${file.name} is damaged or cut short.`); }
    };
    await script("letters");
    const about = await parsed(config);
    const tokenizer = live.readTokenizer(await parsed(words));
    const isState = weights.name.startsWith("state-");
    let tensors = live.readTensors(await weights.arrayBuffer(), (name) => !isState || name.startsWith("model."));
    if (isState) tensors = Object.fromEntries(Object.entries(tensors).map(([name, x]) => [name.slice(6), x]));
    let model = about.model;
    if (about.model_type) [model, tensors] = live.fromLibrary(about, tensors);
    if (!model) throw new Error("config.json describes no model of this book.");
    const known = ["hamlet", "full"].find((name) => about.data && about.data.kind === "stories" && about.data.language === name);
    if (known) await script(`${known}-language`);
    const language = known && live.data[`${known}/language`].arguments.seed === (about.data.language_seed || 0)
      ? new live.Language(live.data[`${known}/language`]) : null;
    const kept = [new live.Model(model, tensors), tokenizer, language];
    use("yours", ...kept);
    the.kept.yours = kept;
    parts.model.querySelector("[value=yours]").disabled = false;
    parts.model.value = "yours";
    say(language ? "Your model is here, beside its language."
      : "Your model is here. The page does not have the exact language of its text, so the right list stays empty.");
  }

  // ------------------------------------------------------------------ computing

  // Brings cache and surprises in step with the ids; what stays the same is kept.
  function sync() {
    const { state, ids, done } = the, room = the.model.room;
    let same = 0;
    while (same < ids.length && same < done.length && ids[same] === done[same]) same++;
    const n = Math.min(same, room);
    for (const lists of [state.keys, state.values, state.queries, state.streams])
      for (const list of lists) list.length = n;
    state.hidden.length = state.length = n;
    the.surprise.length = Math.min(the.surprise.length, same);
    if (the.slid && the.slid.place > same) the.slid = null;
    if (n < Math.min(ids.length, room)) the.model.run(state, ids.slice(n, room), the.off);
    the.done = [...ids];
    for (let s = Math.max(1, the.surprise.length); s < ids.length; s++)
      if (s <= room || (the.slid && the.slid.place === s)) the.surprise[s] = surpriseAt(s);
  }

  // The cache that predicts a place, its last position, and the token that it begins with. Beyond
  // the context a window slides, whose positions begin at 0 again, as in Python's `generate`.
  function seen(place) {
    const room = the.model.room;
    if (place <= room) return { state: the.state, last: place - 1, from: 0 };
    const from = place - room;
    if (!the.slid || the.slid.place !== place)
      the.slid = { place, state: the.model.run(the.model.start(), the.ids.slice(from, place), the.off) };
    return { state: the.slid.state, last: room - 1, from };
  }

  function logitsAt(place, block = null) {
    const { state, last } = seen(place);
    return the.model.logits(state, last, block);
  }

  const surpriseAt = (s) => -Math.log2(live.softmax(logitsAt(s))[the.ids[s]]);

  // Beyond the context each surprise takes a window of its own: one at a time, so that the page
  // stays awake.
  function catchUp() {
    clearTimeout(catchUp.waits);
    let s = the.model.room + 1;
    while (s < the.ids.length && the.surprise[s] !== undefined) s++;
    if (s >= the.ids.length || the.playing) return;
    catchUp.waits = setTimeout(() => {
      if (!the.model || s >= the.ids.length) return; // another text has come
      const kept = the.slid;
      the.surprise[s] = surpriseAt(s);
      the.slid = kept;
      tint(document.getElementById(`token-${s}`), s, watched());
      catchUp();
    });
  }

  const text = (ids = the.ids) => the.tokenizer.decode(ids.filter((id) => id !== the.tokenizer.end));
  const isOver = () => the.ids.length > 1 && the.ids[the.ids.length - 1] === the.tokenizer.end;
  const isFull = () => the.ids.length >= MOST;
  const ended = () => isOver() ? "The story is over. Go back, or begin a new one."
    : `The page holds ${MOST} tokens. Go back, or begin a new story.`;

  function step() {
    if (isOver() || isFull()) return false;
    sync();
    const settings = {
      temperature: the.greedy ? 0 : the.temperature, topP: the.topP, seed: the.seed,
      place: the.ids.length, allowed: the.tokenizer.size,
    };
    the.ids.push(live.choose(logitsAt(the.ids.length), settings));
    return true;
  }

  // ------------------------------------------------------------------ what is shown

  const shown = (id) => id === the.tokenizer.end ? "the end"
    : the.tokenizer.decode([id]).replace(/ /g, "␣").replace(/\n/g, "↵");
  const percent = (p) => p >= 0.9995 ? "100%" : p < 0.0005 ? (p === 0 ? "0" : p.toExponential(0)) : `${(100 * p).toFixed(p < 0.1 ? 1 : 0)}%`;
  const bits = (x) => x === Infinity ? "∞" : x.toFixed(2);
  const say = (line) => { parts.said.textContent = line; };

  // A token's colour, and its name. The root shows small weights, too.
  function tint(token, at, weights) {
    const surprise = the.surprise[at];
    const strength = weights ? Math.sqrt(weights[at] || 0) : Math.min(1, (surprise || 0) / 8);
    token.style.setProperty("--strength", strength.toFixed(3));
    token.setAttribute("aria-label", (at ? shown(the.ids[at]) : "the start") +
      (surprise === undefined ? "" : `, surprise ${bits(surprise)} bits`));
    return token;
  }

  function draw() {
    sync();
    const { ids, place } = the;
    const weights = watched();
    const forgotten = Math.max(0, place - the.model.room);
    parts.story.replaceChildren(...ids.slice(weights ? 0 : 1).map((id, i) => {
      const at = weights ? i : i + 1;
      return tint(make("span", {
        role: "option", id: `token-${at}`, "data-at": at, "aria-selected": String(at === place),
        class: `token${weights ? " seen" : ""}${at < forgotten ? " forgotten" : ""}`,
      }, at === 0 ? "■ " : id === the.tokenizer.end ? " ■" : the.tokenizer.decode([id])), at, weights);
    }), make("span", {
      role: "option", id: `token-${ids.length}`, class: "token caret", "data-at": ids.length,
      "aria-selected": String(place === ids.length), "aria-label": "the next token",
    }, "▏"));
    parts.story.setAttribute("aria-activedescendant", `token-${place}`);
    const chosen = parts.story.querySelector("[aria-selected=true]"); // the box scrolls by itself
    if (parts.story.scrollHeight > parts.story.clientHeight)
      parts.story.scrollTop += chosen.getBoundingClientRect().top - parts.story.getBoundingClientRect().top - parts.story.clientHeight / 2;
    parts.context.textContent = forgotten
      ? `The model sees ${the.model.room} tokens. Here it has forgotten the first ${forgotten}, in grey.` : "";
    judge();
    lists();
    lens();
    remember();
    catchUp();
  }

  // The letter at which the story leaves the language.
  function judge() {
    if (!the.language) {
      parts.verdict.textContent = isComing() ? COMING
        : "Without its language, the page cannot say where this text goes wrong.";
      return;
    }
    const whole = text();
    const { at, whole: isStory, expected } = the.language.explain(whole);
    if (at === whole.length) {
      parts.verdict.textContent = isStory ? "A whole story of the language."
        : isOver() ? "The model ended here, in the middle of a story." : "So far, some story of the language begins like this.";
      parts.verdict.dataset.good = "";
      return;
    }
    delete parts.verdict.dataset.good;
    const could = expected.slice(0, 3).map(([lead, p]) => `“${lead.slice(0, 24)}” (${percent(p)})`).join(", ");
    const more = expected.length > 3 ? `, or ${expected.length - 3} more` : "";
    parts.verdict.replaceChildren(
      `Leaves the language at letter ${at + 1}: it wrote `, make("mark", {}, whole[at]),
      expected.length ? `, where only this could stand: ${could}${more}.` : ", where the story was over.");
  }

  function lists() {
    const { place, ids } = the;
    const q = live.softmax(logitsAt(place));
    const came = ids[place];
    const p = the.next ? the.next.after(ids.slice(0, place)) : null;
    const order = Array.from(q.keys()).sort((a, b) => q[b] - q[a]).slice(0, 8);
    fill(parts.expects, order.map((id) => [id, q[id]]), came, p);
    if (p) {
      const ranked = [...p].sort((a, b) => b[1] - a[1]);
      fill(parts.allows, ranked.slice(0, 8), came, p);
      const rest = ranked.length - 8;
      if (rest > 0) parts.allows.append(make("li", { class: "rest" }, `and ${rest} more`));
      let divergence = 0;
      for (const [id, mass] of p) divergence += mass * Math.log2(mass / q[id]);
      parts.gap.textContent = `Divergence: ${bits(Math.max(0, divergence))} bits`;
    } else {
      const before = text(ids.slice(0, place));
      const isOff = the.language && the.language.explain(before).at < before.length;
      const reason = isComing() ? COMING : !the.next ? "The page does not have this text's language."
        : isOff ? "The story has left the language before this place, so nothing can follow."
          : "No story is cut into these tokens, so nothing can follow.";
      parts.allows.replaceChildren(make("li", { class: "rest" }, reason));
      parts.gap.textContent = "Divergence: not defined here";
    }
    parts.where.textContent = came === undefined ? "The next token"
      : `Token ${place}: “${shown(came)}”, surprise ${bits(-Math.log2(q[came]))} bits`;
  }

  function fill(list, rows, came, allowed) {
    list.replaceChildren(...rows.map(([id, p]) => make("li", {},
      make("button", {
        type: "button", class: allowed && !allowed.has(id) ? "pick wrong" : "pick",
        "aria-label": `${shown(id)}, ${percent(p)}${id === came ? ", which came" : ""}${allowed && !allowed.has(id) ? ", not allowed" : ""}. Go on with it`,
        onclick: () => {
          the.ids = [...the.ids.slice(0, the.place), id];
          the.place = the.ids.length;
          draw();
          say(`The story goes on with “${shown(id)}”.`);
          parts.story.focus();
        },
      }, make("span", { class: "bar", style: `--p: ${p}` }), make("span", { class: "word" }, shown(id) + (id === came ? " ◂" : "")),
      make("span", { class: "p" }, percent(p))))));
  }

  // ------------------------------------------------------------------ looking in

  // What a head attends to at the chosen place: the weight of each token that it sees.
  function attended(name) {
    const [l, h] = name.split(".").map(Number);
    const { state, last, from } = seen(the.place);
    const [first, weights] = the.model.attention(state, l, h, last);
    const found = [];
    weights.forEach((weight, t) => { found[from + first + t] = weight; });
    return found;
  }

  const watched = () => the.look ? attended(the.look) : null;

  // The same in words: the five tokens that weigh most.
  function reads() {
    const weights = watched();
    if (!weights) return "";
    const [l, h] = the.look.split(".");
    const most = Object.keys(weights).sort((a, b) => weights[b] - weights[a]).slice(0, 5).filter((t) => weights[t] >= 0.01);
    const told = most.map((t) => `${Number(t) ? `“${shown(the.ids[t])}” (token ${t})` : "the start"} ${percent(weights[t])}`);
    return `At this place, head ${h} of block ${l} attends to ${told.join(", ") || "all tokens, each below 1%"}.`;
  }

  // Each head's weights as bars over the text, from its start to the chosen place.
  function maps() {
    for (const map of parts.heads.querySelectorAll("svg")) {
      map.setAttribute("viewBox", `0 0 ${the.place} 1`);
      map.firstChild.setAttribute("d", attended(map.dataset.head)
        .map((weight, t) => weight < 0.004 ? "" : `M${t + 0.5} 1V${(1 - weight).toFixed(3)}`).join(""));
    }
    parts.reads.textContent = reads();
  }

  function looks() {
    const { n_layers: L, n_heads: H } = the.model.config;
    const isHead = (name) => { const [l, h] = name.split("."); return l < L && h < H; };
    if (!the.look || !isHead(the.look)) the.look = "";
    const choice = (value, label, ...shown) => make("label", { class: "map" }, make("input", {
      type: "radio", name: "machine-head", value, "aria-label": label, checked: value === the.look,
      onchange: () => { the.look = value; draw(); say(reads() || "The colours show the surprise again."); },
    }), ...shown);
    const map = (name) => {
      const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      picture.append(document.createElementNS(picture.namespaceURI, "path"));
      picture.dataset.head = name;
      for (const [key, value] of [["preserveAspectRatio", "none"], ["aria-hidden", "true"]]) picture.setAttribute(key, value);
      return picture;
    };
    parts.heads.replaceChildren(
      choice("", "None: the colours show the surprise", make("span", {}, "none: colours show the surprise")),
      ...Array.from({ length: L }, (_, l) => make("div", {}, make("span", {}, `Block ${l}`), ...[...Array(H).keys()].map((h) =>
        choice(`${l}.${h}`, `Attention of head ${h} in block ${l}`, map(`${l}.${h}`), make("span", {}, `${l}.${h}`))))));
    parts.switches.replaceChildren(...Array.from({ length: L }, (_, l) => make("div", { role: "group", "aria-label": `Block ${l}` },
      make("span", {}, `Block ${l}`), ...[...Array(H).keys(), "m"].map((part) => {
        const name = `${l}.${part}`;
        return make("button", {
          type: "button", "aria-pressed": String(!the.off.has(name)),
          "aria-label": part === "m" ? `MLP of block ${l}` : `Head ${part} of block ${l}`,
          onclick: (event) => {
            if (!the.off.delete(name)) the.off.add(name);
            event.currentTarget.setAttribute("aria-pressed", String(!the.off.has(name)));
            the.done = [];
            the.surprise = [];
            draw();
            say(`${part === "m" ? "The MLP" : `Head ${part}`} of block ${l} is ${the.off.has(name) ? "off" : "on"}.`);
          },
        }, part === "m" ? "MLP" : String(part));
      }))));
  }

  function lens() {
    box.classList.toggle("looking", parts.inside.open);
    if (!parts.inside.open) return;
    maps();
    parts.lens.replaceChildren(...Array.from({ length: the.model.config.n_layers }, (_, l) => {
      const p = live.softmax(logitsAt(the.place, l));
      const best = p.indexOf(Math.max(...p));
      return make("tr", {}, make("th", { scope: "row" }, `Block ${l}`), make("td", {}, shown(best)), make("td", {}, percent(p[best])));
    }));
  }

  // ------------------------------------------------------------------ a link to all of it

  function remember() {
    const link = new URLSearchParams({
      m: the.name, seed: the.seed, t: the.temperature, p: the.topP, g: Number(the.greedy), at: the.place,
      off: [...the.off].join("_"), look: the.look, ids: the.ids.slice(1).map((id) => id.toString(36)).join("."),
    });
    clearTimeout(remember.waits); // browsers allow few changes a second
    remember.waits = setTimeout(() => history.replaceState(null, "", `#machine?${link}`), 250);
  }

  async function recall() {
    if (!location.hash.startsWith("#machine?")) return;
    clearTimeout(remember.waits);
    const link = new URLSearchParams(location.hash.slice(9));
    if (!["hamlet", "full"].includes(link.get("m"))) {
      say("This link is to a model of the reader's own; open its folder.");
      return;
    }
    the.playing = false;
    parts.model.value = the.name = link.get("m");
    the.model = null;
    await ready();
    const number = (name, low, high, usual) => {
      const x = Number(link.get(name));
      return link.get(name) !== null && x >= low && x <= high ? x : usual;
    };
    the.seed = Math.floor(number("seed", 0, 2 ** 31 - 1, 1));
    the.temperature = number("t", 0.1, 2, 0.8);
    the.topP = number("p", 0.05, 1, 1);
    the.greedy = link.get("g") === "1";
    const ids = (link.get("ids") || "").split(".").filter(Boolean).map((id) => parseInt(id, 36));
    if (ids.some((id) => !(id >= 0 && id < the.tokenizer.size))) throw new Error("The link names tokens that this model does not have.");
    the.ids = [...the.ids, ...ids].slice(0, MOST);
    const { n_layers: L, n_heads: H } = the.model.config;
    const isPart = (name) => /^\d+\.(\d+|m)$/.test(name) && Number(name.split(".")[0]) < L && !(Number(name.split(".")[1]) >= H);
    the.off = new Set((link.get("off") || "").split("_").filter(isPart));
    the.look = isPart(link.get("look") || "") && !link.get("look").endsWith("m") ? link.get("look") : "";
    the.place = Math.min(the.ids.length, Math.max(1, Math.floor(number("at", 1, 1e6, 1))));
    if (the.off.size || the.look) parts.inside.open = true;
    settings();
    looks();
    draw();
    say(`The link’s story is here, ${the.ids.length - 1} tokens long. ${parts.verdict.textContent}`);
  }

  // ------------------------------------------------------------------ controls

  const does = (action, isWhole = true) => async (event) => {
    try {
      await ready(isWhole);
      await action(event);
    } catch (error) {
      the.playing = false;
      parts.bar.hidden = true;
      say(error.message);
    }
  };

  async function play() {
    the.playing = !the.playing;
    parts.play.textContent = the.playing ? "Pause" : "Play";
    if (isOver() || isFull()) start();
    const before = the.ids.length, { room } = the.model;
    let rested = performance.now();
    while (the.playing && !(before < room && the.ids.length === room) && step()) {
      the.place = the.ids.length;
      if (calm.matches && performance.now() - rested < 100) continue;
      if (!calm.matches) draw();
      await new Promise((done) => setTimeout(done, calm.matches ? 0 : 30)); // another press may come
      rested = performance.now();
    }
    if (!the.playing) return; // the other press tells
    the.playing = false;
    parts.play.textContent = "Play";
    draw();
    say(isOver() ? `${the.ids.length - before} tokens written. ${parts.verdict.textContent}` : isFull() ? ended()
      : `The model sees ${room} tokens, and has written them. Play goes on; it then forgets the beginning.`);
  }

  const moved = () => say(`${parts.where.textContent}. ${parts.gap.textContent}. ${reads()}`.trim());
  function go(place) {
    the.place = Math.max(1, Math.min(the.ids.length, place));
    draw();
    moved();
  }

  function settings() {
    parts.temperature.value = the.temperature;
    parts.topP.value = the.topP;
    parts.greedy.checked = the.greedy;
    parts.seed.value = the.seed;
    parts.temperatureIs.textContent = the.temperature.toFixed(2);
    parts.topPIs.textContent = the.topP.toFixed(2);
  }

  const parts = {};
  const part = (name, tag, attributes, ...children) => (parts[name] = make(tag, attributes, ...children));
  const button = (name, label, action, isWhole) => part(name, "button", { type: "button", onclick: does(action, isWhole) }, label);
  const changed = () => {
    the.temperature = Number(parts.temperature.value);
    the.topP = Number(parts.topP.value);
    the.greedy = parts.greedy.checked;
    the.seed = Math.max(0, Math.min(2 ** 31 - 1, Math.floor(Number(parts.seed.value) || 0)));
    settings();
    if (the.model) remember();
  };
  const slider = (name, label, min, max, value) => make("label", {}, `${label} `,
    part(name, "input", { type: "range", min, max, step: 0.05, value, oninput: changed }), part(`${name}Is`, "output", {}, Number(value).toFixed(2)));

  function build() {
    const folder = part("folder", "input", {
      type: "file", webkitdirectory: true, multiple: true, hidden: true, "aria-label": "A run's folder",
      onchange: () => opened([...parts.folder.files]),
    });
    // What stands there without scripts stays, unseen: other scripts watch it.
    for (const child of box.children) child.hidden = true;
    box.append(
      make("div", { class: "row" },
        make("label", {}, "Model ", part("model", "select", {
          onchange: () => {
            the.playing = false;
            the.name = parts.model.value;
            the.model = null;
            does(() => { draw(); say("The model is here. Press play."); }, false)();
          },
        }, make("option", { value: "hamlet" }, "hamlet: small language, 0.4 MB"), make("option", { value: "full" }, "full: all tales, 2.9 MB"),
        make("option", { value: "yours", disabled: true }, "your own run"))),
        make("button", { type: "button", onclick: () => { parts.folder.value = ""; parts.folder.click(); } }, "Open a run’s folder"), folder, part("bar", "progress", { max: 1, value: 0, hidden: true, "aria-label": "The model is coming" })),
      part("story", "div", {
        class: "machine-story", role: "listbox", tabindex: 0, "aria-label": "The story, token by token",
        onclick: (event) => { const token = event.target.closest(".token"); if (token) go(Number(token.dataset.at)); },
        onkeydown: (event) => {
          const to = { ArrowRight: the.place + 1, ArrowLeft: the.place - 1, Home: 1, End: the.ids.length }[event.key];
          if (to === undefined || !the.model) return;
          event.preventDefault();
          go(to);
        },
      }, make("span", { role: "option", class: "hint", "aria-selected": "false" }, "Press play: the model comes into the page and writes a story.")),
      part("verdict", "p", { class: "machine-verdict" }),
      part("context", "p", { class: "said context" }),
      make("div", { class: "row" },
        button("play", "Play", play, false),
        button("one", "One token", () => {
          const isNew = step();
          go(the.ids.length);
          const last = the.ids.length - 1;
          say(isNew ? `“${shown(the.ids[last])}”, surprise ${bits(the.surprise[last])} bits. ${parts.gap.textContent} next.` : ended());
        }),
        button("back", "Back", () => {
          const gone = the.ids.length > 1 ? the.ids.pop() : null;
          go(the.ids.length);
          say(gone === null ? "Nothing is written yet." : `“${shown(gone)}” is taken back.`);
        }),
        button("anew", "New story", () => { start(); the.seed += 1; settings(); draw(); say("A new story, with the next seed."); }),
        button("link", "Copy the link", async () => {
          remember();
          await new Promise((done) => setTimeout(done, 300));
          try { await navigator.clipboard.writeText(location.href); say("The link is copied. It restores all of this."); }
          catch (_) { say("The address of this page is the link. It restores all of this."); }
        })),
      make("div", { class: "row" },
        slider("temperature", "Temperature", 0.1, 2, the.temperature), slider("topP", "Top-p", 0.05, 1, the.topP),
        make("label", {}, part("greedy", "input", { type: "checkbox", onchange: changed }), " greedy"),
        make("label", {}, "Seed ", part("seed", "input", { type: "number", min: 0, max: 2147483647, value: the.seed, onchange: changed }))),
      part("said", "p", { class: "said", role: "status", "aria-live": "polite" }),
      make("div", { class: "where", role: "heading", "aria-level": 2 }, part("where", "span", {}, "What comes next?"), " ", part("gap", "span", { class: "gap" })),
      make("div", { class: "two" },
        make("div", {}, make("div", { class: "head", role: "heading", "aria-level": 3 }, "The model expects"), part("expects", "ol", {})),
        make("div", {}, make("div", { class: "head", role: "heading", "aria-level": 3 }, "The language allows"), part("allows", "ol", {}))),
      make("details", {}, make("summary", {}, "Type a text"),
        make("label", {}, "The story begins", part("typed", "textarea", {
          rows: 4, spellcheck: "false",
          oninput: does(() => {
            const ids = the.tokenizer.encode(parts.typed.value);
            start();
            the.ids.push(...ids.slice(0, MOST - 1));
            go(the.ids.length);
            const foreign = [...new Set(parts.typed.value)].find((letter) => the.tokenizer.encode(letter).length > 1);
            say(ids.length >= MOST ? `The page holds ${MOST} tokens; the rest is left out.`
              : foreign ? `The tokenizer has no token for “${foreign}”, so it spells it in bytes. ${parts.verdict.textContent}`
                : parts.verdict.textContent);
          }),
        }))),
      part("inside", "details", { ontoggle: () => { if (parts.inside.open || the.model) does(draw)(); } }, make("summary", {}, "Look inside"),
        make("p", {}, "What does each head attend to at the chosen place? Each bar is a token, from the start of the story to this place. Its height is the attention weight. Choose a head, and the story is shaded by its weights."),
        part("heads", "div", { class: "heads", role: "radiogroup", "aria-label": "Attention" }),
        part("reads", "p", { class: "reads" }),
        make("p", {}, "Switch heads and MLPs off; the lists change."),
        part("switches", "div", { class: "switches" }),
        make("table", {}, make("caption", {}, "The prediction after each block"),
          make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "After"), make("th", { scope: "col" }, "likeliest"), make("th", { scope: "col" }, "probability"))),
          part("lens", "tbody", {}))));
    settings();
    box.addEventListener("dragover", (event) => event.preventDefault());
    box.addEventListener("drop", async (event) => {
      event.preventDefault();
      try { await opened(await dropped(event.dataTransfer)); }
      catch (_) { say("The browser does not hand over what was dropped. Press “Open a run’s folder”."); }
    });
  }

  async function dropped(transfer) {
    const entries = [...transfer.items].map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry()).filter(Boolean);
    const found = [];
    for (const entry of entries) {
      if (entry.isFile) found.push(await new Promise((done, failed) => entry.file(done, failed)));
      else {
        const reader = entry.createReader();
        for (;;) {
          const inside = await new Promise((done, failed) => reader.readEntries(done, failed));
          if (!inside.length) break;
          for (const each of inside) if (each.isFile) found.push(await new Promise((done, failed) => each.file(done, failed)));
        }
      }
    }
    return found;
  }

  async function opened(files) {
    the.playing = false;
    try {
      await open(files);
      draw();
    } catch (error) {
      parts.model.value = the.name;
      say(/^[A-Z]|json|weights/.test(error.message) ? error.message : "The folder could not be read.");
    }
  }

  build();
  root.addEventListener("hashchange", () => recall().catch((error) => say(error.message)));
  live.machine = { the, parts, open: opened, ready };
  recall().catch((error) => say(error.message));
})(globalThis);
