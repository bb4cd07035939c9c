// The language of the stories, exact: an interpreter of the grammar that Python wrote down.
//
// `decoder_only_book.live.language_data` says what the data looks like. What is computed here is
// what `decoder_only.stories.grammar` and `.exact` compute: where a text leaves the language and
// what could have stood there, and the distribution of the next token.

(function (root) {
  "use strict";

  const live = (root.live = root.live || {});
  const capital = (text) => text[0].toUpperCase() + text.slice(1);
  const article = (text) => ("aeiou".includes(text[0]) ? "an " : "a ") + text;
  const DERIVED = {
    Text: capital, a: article, A: (text) => capital(article(text)),
  };
  const total = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

  // ------------------------------------------------------------------ nodes of the grammar

  // A list of words; each entry is a record of its forms and of what is known of it.
  class Lexicon {
    constructor(key, weights) {
      this.key = key; // under which the memory keeps the entries that are used up
      this.weights = weights;
      this.total = total(weights);
      this.forms = {};
    }

    find(form, text, at, used) {
      if (!this.forms[form]) {
        const index = new Map(this.entries.map((entry, i) => [entry[form], i]));
        const lengths = [...new Set([...index.keys()].map((word) => word.length))];
        this.forms[form] = [index, lengths.sort((a, b) => a - b)];
      }
      const [indexOf, lengths] = this.forms[form];
      for (const length of lengths) {
        const index = indexOf.get(text.slice(at, at + length));
        if (index !== undefined && !used.includes(index)) return index;
      }
      return null;
    }
  }

  const NONE = [];

  class Choice {
    constructor(weights, bodies) {
      Object.assign(this, { weights, bodies, total: total(weights) });
    }
    take(index) { return this.bodies[index]; }
    find(text, at, memory) {
      for (let i = 0; i < this.bodies.length; i++)
        if (begins(this.bodies[i], text, at, memory)) return i;
      return null;
    }
    *alternatives() {
      for (let i = 0; i < this.bodies.length; i++)
        yield [i, this.bodies[i], this.weights[i] / this.total];
    }
  }

  // A word that the story has not used yet; it is said and remembered.
  class Draw {
    constructor(name, source, form) { Object.assign(this, { name, source, form }); }
    lexicon(memory) {
      return this.source instanceof Lexicon ? this.source : follow(this.source, memory);
    }
    take(index, memory) {
      const entry = this.lexicon(memory).entries[index];
      memory[this.name] = entry;
      for (const [source, number] of entry.uses) {
        const used = memory[source.key] || NONE;
        if (!used.includes(number)) memory[source.key] = [...used, number];
      }
      return [entry[this.form]];
    }
    find(text, at, memory) {
      const lexicon = this.lexicon(memory);
      return lexicon.find(this.form, text, at, memory[lexicon.key] || NONE);
    }
    *alternatives(memory) {
      const lexicon = this.lexicon(memory);
      const used = memory[lexicon.key] || NONE;
      const open = lexicon.total - total(used.map((i) => lexicon.weights[i]));
      for (let i = 0; i < lexicon.entries.length; i++)
        if (!used.includes(i)) yield [i, [lexicon.entries[i][this.form]], lexicon.weights[i] / open];
    }
  }

  class Known {
    constructor(path) { this.path = path; }
    expand(memory) {
      const value = follow(this.path, memory);
      if (typeof value === "string") return [value];
      return Array.isArray(value) ? value : [value.text];
    }
  }

  class Remember {
    constructor(name, path) { Object.assign(this, { name, path }); }
  }

  class Rule {
    constructor(rules, name) { Object.assign(this, { rules, name }); }
    expand() { return this.rules[this.name]; }
  }

  function follow(path, memory) {
    let value = memory;
    for (const key of path) value = value[key];
    return value;
  }

  const chooses = (node) => node instanceof Choice || node instanceof Draw;

  // The text of the nodes before their first choice, that choice, and the memory it meets.
  function opening(nodes, memory) {
    let text = "";
    const ahead = [...nodes].reverse();
    while (ahead.length) {
      const node = ahead.pop();
      if (typeof node === "string") text += node;
      else if (chooses(node)) return [text, node, memory];
      else if (node instanceof Remember)
        memory = { ...memory, [node.name]: follow(node.path, memory) };
      else ahead.push(...[...node.expand(memory)].reverse());
    }
    return [text, null, memory];
  }

  function begins(nodes, text, at, memory) {
    if (typeof nodes[0] === "string" && !text.startsWith(nodes[0], at)) return false;
    const [begin, choice, met] = opening(nodes, memory);
    if (!text.startsWith(begin, at)) return false;
    return choice === null || choice.find(text, at + begin.length, met) !== null;
  }

  // Every way in which the nodes can begin, through their first choice, with its probability.
  function* leads(nodes, memory) {
    const [begin, choice, met] = opening(nodes, memory);
    if (choice === null) {
      yield [begin, 1];
      return;
    }
    for (const [, body, p] of choice.alternatives(met))
      for (const [text, probability] of leads(body, met)) yield [begin + text, p * probability];
  }

  // ------------------------------------------------------------------ following a text

  // A place in a story, on one path through its choices.
  class Place {
    constructor(ahead, memory, at) { Object.assign(this, { ahead, memory, at }); }
    put(nodes) {
      for (let i = nodes.length - 1; i >= 0; i--) this.ahead = [nodes[i], this.ahead];
    }
    // The next node that says or chooses something; null after the end.
    next() {
      while (this.ahead) {
        const node = this.ahead[0];
        this.ahead = this.ahead[1];
        if (typeof node === "string" || chooses(node)) return node;
        if (node instanceof Remember) this.memory[node.name] = follow(node.path, this.memory);
        else this.put(node.expand(this.memory));
      }
      return null;
    }
    take(choice, index) { this.put(choice.take(index, this.memory)); }
    copy() { return new Place(this.ahead, { ...this.memory }, this.at); }
    // Goes through all that the text settles. Gives the node at which it stops: null at the end.
    advance(text) {
      while (this.ahead) {
        const node = this.next();
        if (node === null) return null;
        if (typeof node === "string") {
          if (text.startsWith(node, this.at)) {
            this.at += node.length;
            continue;
          }
        } else {
          const index = node.find(text, this.at, this.memory);
          if (index !== null) {
            this.take(node, index);
            continue;
          }
        }
        this.put([node]);
        return node;
      }
      return null;
    }
  }

  const agree = (one, other) => one.startsWith(other) || other.startsWith(one);

  // The first space from `from` on that follows another character, or -1.
  function cutAfter(text, from) {
    for (let i = Math.max(1, from); i < text.length; i++)
      if (text[i] === " " && text[i - 1] !== " ") return i;
    return -1;
  }

  // Where the last word of a text begins, with its space.
  function lastWord(text) {
    for (let i = text.length - 1; i > 0; i--)
      if (text[i] === " " && text[i - 1] !== " ") return i;
    return 0;
  }

  class Language {
    constructor(data) {
      this.arguments = data.arguments;
      const records = data.records.map(() => ({}));
      const rules = {};
      const lexicons = data.lexicons.map(([entries, weights], i) => {
        const all = weights.length === 1 ? entries.map(() => weights[0]) : weights;
        const lexicon = new Lexicon(`#${i}`, all); // no name in a template begins with #
        lexicon.entries = entries.map((number) => records[number]);
        return lexicon;
      });
      const node = (packed) => {
        if (typeof packed === "string") return packed;
        const [kind, one, two, three] = packed;
        if (kind === "c") return new Choice(one, two.map(nodes));
        if (kind === "d") return new Draw(one, Array.isArray(two) ? two : lexicons[two], three);
        if (kind === "k") return new Known(one);
        return kind === "r" ? new Remember(one, two) : new Rule(rules, one);
      };
      const nodes = (packed) => packed.map(node);
      const templates = data.templates.map(nodes);
      const things = [records, templates, lexicons];
      data.records.forEach(([shape, ...values], i) => {
        const record = records[i];
        data.shapes[shape].forEach((key, k) => {
          const value = values[k];
          if (key === "uses") record.uses = value.map(([list, index]) => [lexicons[list], index]);
          else if (value === 0) record[key] = DERIVED[key](record.text);
          else record[key] = typeof value === "string" ? value : things[value[0]][value[1]];
        });
      });
      for (const [name, packed] of Object.entries(data.rules)) rules[name] = nodes(packed);
      this.rules = rules;
    }

    beginning() {
      const place = new Place(null, {}, 0);
      place.put(this.rules.story);
      return place;
    }

    // How many characters some story begins with, whether the text is a whole story, and what
    // could have followed there, most probable first.
    explain(text) {
      const place = this.beginning();
      const node = place.advance(text);
      if (node === null)
        return { at: place.at, whole: place.at === text.length, expected: [] };
      const found = typeof node === "string" ? [[node, 1]] : [...leads([node], place.memory)];
      const agreement = (lead) => {
        let n = 0;
        while (n < lead.length && lead[n] === text[place.at + n]) n++;
        return n;
      };
      const lengths = found.map(([lead]) => agreement(lead));
      const longest = lengths.reduce((most, n) => Math.max(most, n), 0);
      const rest = found.filter((_, i) => lengths[i] === longest)
        .map(([lead, p]) => [lead.slice(longest), p]);
      const sum = total(rest.map(([, p]) => p));
      const expected = rest.map(([lead, p]) => [lead, p / sum]).sort((a, b) => b[1] - a[1]);
      return { at: place.at + longest, whole: false, expected };
    }
  }

  // ------------------------------------------------------------------ the next token

  // The exact distribution of the next token, as a Map from ids to probabilities. The tokenizer
  // must cut before a space that follows another character.
  class NextToken {
    constructor(language, tokenizer) {
      const crosses = tokenizer.bytes.slice(0, tokenizer.nOrdinary).some((bytes) =>
        bytes.some((byte, i) => byte === 32 && bytes.slice(0, i).some((other) => other !== 32)));
      if (crosses || tokenizer.end === undefined)
        throw new Error("the tokenizer has tokens that go on over a space, or no end of text");
      Object.assign(this, { language, tokenizer, words: new Map() });
    }

    spelled(id) {
      return this.tokenizer.bytes[id]
        .map((byte) => (byte < 128 ? String.fromCharCode(byte) : "\ufffd")).join("");
    }

    // What could follow these tokens; null where no story is cut into them.
    after(ids) {
      const { tokenizer } = this;
      if (ids[0] === tokenizer.end) ids = ids.slice(1);
      if (ids.some((id) => id >= tokenizer.nOrdinary)) return null;
      const text = ids.map((id) => this.spelled(id)).join("");
      const settled = tokenizer.encode(text.slice(0, lastWord(text)));
      if (settled.some((id, i) => id !== ids[i])) return null;
      return this.following(this.language.beginning(), text, ids);
    }

    // As `after` for each place of a text, from the first on; faster than one at a time.
    *along(ids) {
      const place = this.language.beginning();
      let text = "";
      let isCut = true;
      for (let n = 0; n <= ids.length; n++) {
        if (n) text += this.spelled(ids[n - 1]);
        const settled = this.tokenizer.encode(text.slice(0, lastWord(text)));
        isCut = isCut && !settled.some((id, i) => id !== ids[i]);
        yield isCut ? this.following(place, text, ids.slice(0, n)) : null;
      }
    }

    following(place, text, ids) {
      place.advance(text);
      const start = lastWord(text); // all before it is encoded for good
      const begun = Math.min(start, place.at);
      let last = ids.length;
      let size = text.length;
      while (size > start) size -= this.tokenizer.bytes[ids[--last]].length;
      const goal = { text: text.slice(begun), word: start - begun, ids: ids.slice(last) };
      const found = new Map();
      const mass = this.grow(place.copy(), text.slice(begun, place.at), goal, 1, found);
      if (!(mass > 0)) return null;
      for (const [id, p] of found) found.set(id, p / mass);
      return found;
    }

    // Adds up, for all that can follow `text` and agrees with the goal, `prior` times its
    // probability under the token it leads to; gives the whole mass that agrees.
    grow(place, text, goal, prior, found) {
      for (;;) {
        const behind = text.slice(goal.word);
        const cut = cutAfter(behind, goal.text.length - goal.word + 1);
        if (cut >= 0) return this.settle(behind.slice(0, cut), goal, prior, found, false);
        const node = place.next();
        if (node === null) return this.settle(behind, goal, prior, found, true);
        if (typeof node !== "string") return this.fork(node, place, text, goal, prior, found);
        text += node;
        if (!agree(text, goal.text)) return 0;
      }
    }

    settle(word, goal, prior, found, isEnd) {
      let ids = this.words.get(word);
      if (!ids) this.words.set(word, (ids = this.tokenizer.encode(word)));
      const before = goal.ids.length;
      if (goal.ids.some((id, i) => ids[i] !== id)) return 0;
      let token = ids[before];
      if (token === undefined) {
        if (!isEnd) return 0;
        token = this.tokenizer.end;
      }
      found.set(token, (found.get(token) || 0) + prior);
      return prior;
    }

    fork(node, place, text, goal, prior, found) {
      let mass = 0;
      for (const [index, body, p] of node.alternatives(place.memory)) {
        if (typeof body[0] === "string" && !agree(text + body[0], goal.text)) continue;
        const other = place.copy();
        other.take(node, index);
        mass += this.grow(other, text, goal, prior * p, found);
      }
      return mass;
    }
  }

  Object.assign(live, { Language, NextToken });
})(globalThis);
