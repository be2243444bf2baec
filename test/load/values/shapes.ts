/** Texts of JSON values that cost as much as they can, of about so many bytes. */
export type Shape = (bytes: number) => string;

const filled = (item: string, bytes: number, [open, close] = ['[', ']']): string => {
  const count = Math.max(1, Math.floor(bytes / (item.length + 1)));
  return `${open}${`${item},`.repeat(count - 1)}${item}${close}`;
};
const members = (bytes: number, value: string, name: (at: number) => string): string => {
  const count = Math.max(1, Math.floor(bytes / (value.length + 12)));
  return `{${Array.from({ length: count }, (_, at) => `"${name(at)}":${value}`).join()}}`;
};
const wrapped = (inner: string, levels: number, [open, close]: readonly [string, string]): string =>
  `${open.repeat(levels)}${inner}${close.repeat(levels)}`;
const NODE = ['{"items":[', '],"op":"xor"}'] as const;

/** Lists, objects with many names, values for wide schemas, nesting, alternatives, long texts, numbers, repeated names. */
export const SHAPES: Readonly<Record<string, Shape>> = {
  numbers: (bytes) => filled('1', bytes),
  'empty lists': (bytes) => filled('[]', bytes),
  'empty objects': (bytes) => filled('{}', bytes),
  nulls: (bytes) => filled('null', bytes),
  texts: (bytes) => filled('"x"', bytes),
  'valid texts and one number': (bytes) => filled('"abcd"', bytes).replace(/"abcd"\]$/, '1]'),
  'unlike objects': (bytes) => {
    const count = Math.max(1, Math.floor(bytes / 14));
    return `[${Array.from({ length: count }, (_, at) => `{"a":"${at}"}`).join()}]`;
  },
  'wide objects': (bytes) => filled('{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":0}', bytes),
  'many names': (bytes) => members(bytes, '1', (at) => `k${at}`),
  'many names of objects': (bytes) => members(bytes, '{}', (at) => `k${at}`),
  'names that are numbers': (bytes) => members(bytes, '1', (at) => String(at * 7)),
  'one name again and again': (bytes) => members(bytes, '1', () => 'a'),
  'escaped __proto__': (bytes) => members(bytes, '{}', () => '\\u005f_proto__'),
  'lists of lists': (bytes) => filled(wrapped('1', 20, ['[', ']']), bytes),
  deep: (bytes) => wrapped('1', Math.floor(bytes / 2), ['[', ']']),
  'as deep as allowed': (bytes) => filled(wrapped('1', 400, ['[', ']']), bytes),
  'one long text': (bytes) => `"${'a'.repeat(bytes)}"`,
  'one long text of two bytes': (bytes) => `"${'é'.repeat(bytes / 2)}"`,
  'an address that is long': (bytes) => `"${'a@'.repeat(bytes / 2)}"`,
  'a URL that is long': (bytes) => `"http://a/${'?x=#[]'.repeat(bytes / 8)}"`,
  'a name that is long': (bytes) => `{"${'a'.repeat(bytes)}":1}`,
  'one long number': (bytes) => '1'.repeat(bytes),
  'a tree': (bytes) => wrapped('{"op":"xor"}', Math.min(60, Math.floor(bytes / 24)), NODE),
  'a tree of long lists': (bytes) =>
    wrapped(`{"numbers":${filled('1', Math.min(bytes, 190_000))},"op":"xor"}`, 40, NODE),
  'a tree of long texts': (bytes) => wrapped(`{"text":"${'a'.repeat(bytes)}","op":"xor"}`, 40, NODE),
  'many trees': (bytes) => `{"items":${filled(wrapped('{"op":"xor"}', 12, NODE), bytes)},"op":"xor"}`,
};
