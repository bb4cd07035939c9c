// The tokenizer: text becomes the ids that `decoder_only.tokenization` gives it, and comes back.
//
// These are classic scripts with one name, `live`, for all of them: a page that is opened from a
// file may load neither modules nor anything by `fetch`.

(function (root) {
  "use strict";

  const live = (root.live = root.live || {});
  live.data = live.data || {};
  live.put = live.put || ((key, value) => { live.data[key] = value; });

  // White space as Unicode has it: JavaScript's \s leaves out U+0085 and takes U+FEFF.
  const SPACE = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";

  // Ranges as `decoder_only_book.live.letters` writes them, as what stands in a class of a pattern.
  function ranges(text) {
    const numbers = text.split(" ").map((digits) => parseInt(digits, 36));
    let at = 0;
    let found = "";
    for (let i = 0; i < numbers.length; i += 2) {
      at += numbers[i];
      const end = at + numbers[i + 1];
      found += `\\u{${at.toString(16)}}-\\u{${(end - 1).toString(16)}}`;
      at = end;
    }
    return found;
  }

  // GPT-2's pattern, with the letters and numbers that tiktoken knows, whatever the browser knows.
  let pattern = null;
  function words() {
    if (!pattern) {
      const [L, N] = [ranges(live.data.letters.L), ranges(live.data.letters.N)];
      pattern = new RegExp(
        `'(?:[sdmt]|ll|ve|re)| ?[${L}]+| ?[${N}]+| ?[^${SPACE}${L}${N}]+|` +
        `[${SPACE}]+$|[${SPACE}]+(?![^${SPACE}])|[${SPACE}]`, "gu");
    }
    return pattern;
  }

  // The pattern in a tokenizer's file must be this one, letter for letter.
  const GPT2_PATTERN = [
    "'(?:[sdmt]|ll|ve|re)", " ?\\p{L}++", " ?\\p{N}++", " ?[^\\s\\p{L}\\p{N}]++", "\\s++$",
    "\\s+(?!\\S)", "\\s",
  ].join("|");
  const END_OF_TEXT = "<|endoftext|>";

  class Tokenizer {
    // `byteOrder[i]` is the byte whose id is i; special tokens have the highest ids.
    constructor({ merges, specialTokens, byteOrder }) {
      this.bytes = byteOrder.map((byte) => [byte]);
      this.idOfByte = [];
      byteOrder.forEach((byte, id) => { this.idOfByte[byte] = id; });
      if (byteOrder.length !== 256 || Object.keys(this.idOfByte).length !== 256)
        throw new Error("tokenizer.json does not name each of the 256 bytes once");
      this.rank = new Map();
      for (const [left, right] of merges) {
        if (!this.bytes[left] || !this.bytes[right])
          throw new Error("tokenizer.json joins tokens that it does not have");
        this.rank.set(left * 0x200000 + right, this.bytes.length);
        this.bytes.push([...this.bytes[left], ...this.bytes[right]]);
      }
      this.nOrdinary = this.bytes.length;
      this.special = {};
      for (const token of specialTokens) {
        this.special[token] = this.bytes.length;
        this.bytes.push([...new TextEncoder().encode(token)]);
      }
      this.end = this.special[END_OF_TEXT];
      this.size = this.bytes.length;
      this.known = new Map();
    }

    // A word's ids: again and again the pair that was learned first is merged, from left to right.
    word(text) {
      let ids = this.known.get(text);
      if (ids) return ids;
      ids = Array.from(new TextEncoder().encode(text), (byte) => this.idOfByte[byte]);
      while (ids.length > 1) {
        let best = Infinity;
        let pair = -1;
        for (let i = 1; i < ids.length; i++) {
          const key = ids[i - 1] * 0x200000 + ids[i];
          const token = this.rank.get(key);
          if (token < best) [best, pair] = [token, key];
        }
        if (pair < 0) break;
        const merged = [];
        for (let i = 0; i < ids.length; i++) {
          const here = i + 1 < ids.length && ids[i] * 0x200000 + ids[i + 1] === pair;
          merged.push(here ? best : ids[i]);
          if (here) i++;
        }
        ids = merged;
      }
      if (this.known.size > 50000) this.known.clear();
      this.known.set(text, ids);
      return ids;
    }

    // Special tokens in a text are ordinary text.
    encode(text) {
      if (/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(text))
        throw new Error("The text holds half a character, which no token stands for.");
      const ids = [];
      for (const [word] of text.matchAll(words())) for (const id of this.word(word)) ids.push(id);
      return ids;
    }

    decode(ids) {
      const bytes = ids.flatMap((id) => this.bytes[id]);
      return new TextDecoder("utf-8", { ignoreBOM: true }).decode(new Uint8Array(bytes));
    }
  }

  // GPT-2's files write the byte of each id as a letter: itself if it prints, else one after U+00FF.
  function letterOrder() {
    const printable = [];
    for (let byte = 0; byte < 256; byte++)
      if ((byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad)) printable.push(byte);
    const rest = [];
    for (let byte = 0; byte < 256; byte++) if (!printable.includes(byte)) rest.push(byte);
    const order = [...printable, ...rest];
    const letters = order.map((byte, id) => String.fromCharCode(id < 188 ? byte : 68 + id));
    return new Map(letters.map((letter, id) => [letter, order[id]]));
  }

  // The content of a tokenizer.json, in this package's form or in that of the library `tokenizers`.
  function readTokenizer(content) {
    if (content && content.model) return fromLibrary(content);
    if (!content || content.format !== "decoder-only byte-pair tokenizer" || content.version !== 1)
      throw new Error("tokenizer.json is of another kind than this book's or GPT-2's");
    if (content.pattern !== GPT2_PATTERN)
      throw new Error("tokenizer.json cuts text by a pattern of its own");
    return new Tokenizer({
      merges: content.merges, specialTokens: content.special_tokens, byteOrder: content.byte_order,
    });
  }

  function fromLibrary(content) {
    const { model, pre_tokenizer: cut } = content;
    const isGpt2 = (model.type || "BPE") === "BPE" && !content.normalizer && cut &&
      cut.type === "ByteLevel" && !cut.add_prefix_space && cut.use_regex !== false;
    if (!isGpt2) throw new Error("tokenizer.json is not a byte-level BPE tokenizer of GPT-2's kind");
    const added = [...(content.added_tokens || [])].sort((a, b) => a.id - b.id);
    const names = new Set(added.map((token) => token.content));
    const tokens = Object.keys(model.vocab).filter((token) => !names.has(token))
      .sort((a, b) => model.vocab[a] - model.vocab[b]);
    const every = [...tokens.map((token) => model.vocab[token]), ...added.map(({ id }) => id)];
    const merges = model.merges.map((pair) => typeof pair === "string" ? pair.split(" ") : pair);
    const inOrder = every.every((id, i) => id === i) &&
      merges.length === tokens.length - 256 &&
      merges.every((pair, i) => pair.join("") === tokens[256 + i]);
    if (!inOrder) throw new Error("tokenizer.json has ids that are not bytes, merges, special tokens");
    const byteOf = letterOrder();
    return new Tokenizer({
      merges: merges.map(([left, right]) => [model.vocab[left], model.vocab[right]]),
      specialTokens: added.map((token) => token.content),
      byteOrder: tokens.slice(0, 256).map((token) => byteOf.get(token)),
    });
  }

  Object.assign(live, { Tokenizer, readTokenizer, END_OF_TEXT });
})(globalThis);
