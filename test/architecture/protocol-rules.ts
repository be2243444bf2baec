/*
 * # From a rule of the protocol to its files and tests
 *
 * The list of rules is docs/protocol-rules.md: a heading `### S7: …` each, and a line `Decided in …` with files below `src/`.
 * The tests of a rule are those whose titles name it: in front (`S11, E6: …`) or at the end (`… (E6)`). Pure functions over
 * texts, so that the specification can plant a mistake and see it found.
 */

/** One rule as the document has it. */
interface ProtocolRule {
  readonly id: string;
  readonly title: string;
  /** Below `src/`; the first one decides. */
  readonly files: readonly string[];
}

/** Path of a specification, with `/` → the rules that its titles name. */
type NamedRules = ReadonlyMap<string, ReadonlySet<string>>;

const BEGIN = '<!-- rules:begin, by `npx vitest run test/architecture/protocol-rules.spec.ts -u` -->';
const END = '<!-- rules:end -->';
const GENERATED = /<!-- rules:begin[^]*<!-- rules:end -->/;

const RULE = /^### (?<id>§0|[A-Z]\d{1,2}): (?<title>.+)$/;
const ID = /§0|\b[A-Z]\d{1,2}\b/g;
/** The first argument of `it`, `describe` or what `.each()` made of them. */
const NAMED_FIRST = /\(\s*(['"`])(?=§0|[A-Z]\d{1,2}\b)(?<ids>(?:(?!\1)[^:\n])*):/g;
const NAMED_LAST = /\((?<ids>(?:§0|[A-Z]\d{1,2})(?:, (?:§0|[A-Z]\d{1,2}))*)\)['"`]/g;

/** @throws Error for a rule without a line that says where it is decided, and for an id that is there twice */
export function readRules(document: string): ProtocolRule[] {
  const rules = document.split(/^(?=### )/m).flatMap((section): ProtocolRule[] => {
    const { id, title } = RULE.exec(section.split('\n', 1)[0]!)?.groups ?? {};
    if (id === undefined || title === undefined) return [];
    const decided = /^Decided in [^]*?\.$/m.exec(section)?.[0] ?? '';
    const files = [...decided.matchAll(/`([^`]+)`/g)].map(([, file]) => file!);
    if (files.length === 0) throw new Error(`Rule ${id} does not say where it is decided.`);
    return [{ id, title, files }];
  });
  const repeated = rules.find(({ id }, index) => rules.findIndex((other) => other.id === id) !== index);
  if (repeated) throw new Error(`Rule ${repeated.id} is there twice.`);
  return rules;
}

/** The ids of rules in the titles of a specification. */
export function rulesNamedIn(specification: string): Set<string> {
  const named = [...specification.matchAll(NAMED_FIRST), ...specification.matchAll(NAMED_LAST)];
  return new Set(named.flatMap(({ groups }) => groups!['ids']!.match(ID) ?? []));
}

/** The document with its table as it should be. @throws Error when the marks of the table are missing */
export function withTable(document: string, rules: readonly ProtocolRule[], named: NamedRules): string {
  if (!GENERATED.test(document)) throw new Error(`The document lacks the lines "${BEGIN}" and "${END}".`);
  const rows = rules.map((rule) => {
    const tests = testsOf(rule, named).map((path) => `[${nameOf(path)}](../${path})`);
    const files = rule.files.map((file) => `[${file}](../src/${file})`);
    return `| [${rule.id}](#${anchorOf(rule)}) | ${files.join(', ')} | ${tests.join(', ')} |`;
  });
  // Padded to the longest row, a new test would change every line.
  const table = ['| rule | decided in | tests |', '| --- | --- | --- |', ...rows].join('\n');
  const ignored = `<!-- prettier-ignore-start -->\n\n${table}\n\n<!-- prettier-ignore-end -->`;
  return document.replace(GENERATED, () => `${BEGIN}\n${ignored}\n${END}`);
}

/** The specifications that name a rule, in order. */
export function testsOf({ id }: ProtocolRule, named: NamedRules): string[] {
  return [...named].flatMap(([path, ids]) => (ids.has(id) ? [path] : [])).toSorted();
}

/** Ids in titles that are no rules, each with its file. */
export function unknownIds(rules: readonly ProtocolRule[], named: NamedRules): string[] {
  const known = new Set(rules.map(({ id }) => id));
  return [...named].flatMap(([path, ids]) => [...ids].filter((id) => !known.has(id)).map((id) => `${path}: ${id}`));
}

/** `test/legacy/post.spec.ts` → `legacy/post`, `src/core/protocol/era.spec.ts` → `src/core/protocol/era`. */
function nameOf(path: string): string {
  return path.replace(/^test\//, '').replace(/\.spec\.ts$/, '');
}

/** Of a heading, as GitHub makes it. */
function anchorOf({ id, title }: ProtocolRule): string {
  return `${id}: ${title}`
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
    .replaceAll(' ', '-');
}
