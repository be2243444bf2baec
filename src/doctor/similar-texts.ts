/** Two descriptions are nearly the same if so much of their words is common. */
const COMMON = 0.8;
/** So many characters and words of a description are compared: a huge one must not take the time of all others. */
const MAX_CHARACTERS = 4_000;
const MAX_WORDS = 100;

interface DescribedTool {
  readonly name: string;
  readonly description?: string | undefined;
}

/** A text, and the names of the tools that have it. Words are numbers: the rarer, the lower. */
interface Text {
  readonly names: readonly string[];
  /** Distinct words, the rarest first. */
  readonly words: readonly number[];
  /** Words of the names. */
  readonly named: ReadonlySet<number>;
  /** Words of the names that the text has too, the rarest first. */
  readonly own: readonly number[];
}

/**
 * Finds tools between which a model cannot choose by their descriptions. Texts that differ in a word of a tool's name, such
 * as those of `list_orders` and `list_invoices`, are told apart by it.
 *
 * Not every text is compared with every other one. Equal texts are found by a map. A text that has words of its tool's name
 * is like those alone that have the rarest of these words too. Of two others that have 80% of their words in common, both
 * have one of the rarest 20% (and one more) of each. Texts of one group are not compared again.
 *
 * @returns groups of at least two names, in the order of the tools
 */
export function similarTexts(tools: readonly DescribedTool[]): string[][] {
  const texts = textsOf(tools);
  // The root of a group is the first of its texts.
  const parents = texts.map((_, at) => at);
  const rootOf = (at: number): number => {
    let root = at;
    while (parents[root] !== root) root = parents[root]!;
    return (parents[at] = root);
  };
  const index = indexOf(texts);
  const comparedWith = new Int32Array(texts.length).fill(-1);
  for (const [at, text] of texts.entries()) {
    for (const word of text.own.length > 0 ? text.own.slice(0, 1) : rarestOf(text)) {
      for (const other of (text.own.length > 0 ? index.all : index.rarest).get(word) ?? []) {
        if (other === at || comparedWith[other] === at) continue;
        comparedWith[other] = at;
        const [root, otherRoot] = [rootOf(at), rootOf(other)];
        if (root === otherRoot || !areSimilar(text, texts[other]!)) continue;
        parents[Math.max(root, otherRoot)] = Math.min(root, otherRoot);
      }
    }
  }
  const groups = new Map<number, string[]>();
  for (const [at, { names }] of texts.entries()) {
    const group = groups.get(rootOf(at));
    if (group) group.push(...names);
    else groups.set(rootOf(at), [...names]);
  }
  return [...groups.values()].filter(({ length }) => length > 1);
}

/** Returns the texts of all descriptions; equal ones once. */
function textsOf(tools: readonly DescribedTool[]): Text[] {
  const byKey = new Map<string, { words: string[]; names: string[] }>();
  for (const { name, description } of tools) {
    if (description === undefined) continue;
    const words = [...new Set(wordsOf(description.slice(0, MAX_CHARACTERS)))].slice(0, MAX_WORDS);
    if (words.length === 0) continue;
    const key = words.toSorted().join(' ');
    const known = byKey.get(key);
    if (known) known.names.push(name);
    else byKey.set(key, { words, names: [name] });
  }
  const uses = new Map<string, number>();
  for (const { words } of byKey.values()) for (const word of words) uses.set(word, (uses.get(word) ?? 0) + 1);
  const ranked = [...uses].toSorted(([, a], [, b]) => a - b);
  const ranks = new Map(ranked.map(([word], rank) => [word, rank]));
  const numbersOf = (words: readonly string[]): number[] =>
    words.flatMap((word) => ranks.get(word) ?? []).toSorted((a, b) => a - b);
  return Array.from(byKey.values(), ({ words, names }) => {
    const numbers = numbersOf(words);
    const all = new Set(numbers);
    const named = numbersOf([...new Set(names.flatMap(wordsOf))]);
    return { names, words: numbers, named: new Set(named), own: named.filter((word) => all.has(word)) };
  });
}

type Index = ReadonlyMap<number, readonly number[]>;

/** Indexes texts by all of their words, and those without a word of their names by their rarest ones. */
function indexOf(texts: readonly Text[]): { all: Index; rarest: Index } {
  const all = new Map<number, number[]>();
  const rarest = new Map<number, number[]>();
  const add = (index: Map<number, number[]>, word: number, at: number): void => {
    const present = index.get(word);
    if (present) present.push(at);
    else index.set(word, [at]);
  };
  for (const [at, text] of texts.entries()) {
    for (const word of text.words) add(all, word, at);
    if (text.own.length === 0) for (const word of rarestOf(text)) add(rarest, word, at);
  }
  return { all, rarest };
}

function rarestOf({ words }: Text): readonly number[] {
  return words.slice(0, words.length - Math.ceil(COMMON * words.length) + 1);
}

/** Compares texts word by word, until they differ in too many, or in one of a name. */
function areSimilar(text: Text, other: Text): boolean {
  const [a, b] = [text.words, other.words];
  const most = (Math.min(a.length, b.length) * (1 - COMMON)) / COMMON;
  let [at, otherAt, differing] = [0, 0, 0];
  while (at < a.length || otherAt < b.length) {
    const [word, otherWord] = [a[at] ?? Infinity, b[otherAt] ?? Infinity];
    if (word <= otherWord) at++;
    if (otherWord <= word) otherAt++;
    if (word === otherWord) continue;
    const single = Math.min(word, otherWord);
    if (++differing > most || text.named.has(single) || other.named.has(single)) return false;
  }
  const common = (a.length + b.length - differing) / 2;
  return common >= COMMON * (common + differing);
}

/** Returns the words of a text or name: `listOrders2` has the words `list`, `order` and `2`. */
function wordsOf(text: string): string[] {
  const words = text.replace(/(\p{Ll})(\p{Lu})/gu, '$1 $2').match(/\p{L}+|\p{N}+/gu) ?? [];
  return words.map((word) => word.toLowerCase().replace(/(?<=..)s$/, ''));
}
