/*
 * # What travels to the page
 *
 * A snapshot is complete; a delta has the changes since the last update: fields of an endpoint, fields of rows by their
 * `key`, keys of removed rows, new events.
 */

/** A row of a table is flat, so that its changes are fields. */
export type Row = Readonly<Record<string, unknown>> & { readonly key: string };

export const TABLES = ['sessions', 'calls', 'tools', 'offers'] as const;
export type Tables<T> = Readonly<Record<(typeof TABLES)[number], T>>;

export interface EndpointState {
  readonly facts: Readonly<Record<string, unknown>>;
  readonly tables: Tables<ReadonlyMap<string, Row>>;
}

/** An update has all of an endpoint, or what has changed. */
export interface EndpointUpdate {
  facts?: Readonly<Record<string, unknown>>;
  tables?: Partial<Tables<TableUpdate>>;
}

export interface TableUpdate {
  /** Has new rows, and changed fields of known ones. */
  set?: readonly object[];
  gone?: readonly string[];
}

/** Makes an update with all of an endpoint. */
export function wholeOf({ facts, tables }: EndpointState): EndpointUpdate {
  const whole = TABLES.map((name) => [name, { set: [...tables[name].values()] }] as const);
  return { facts, tables: Object.fromEntries(whole) };
}

/** @returns `undefined` when nothing has changed */
export function changeOf(before: EndpointState, after: EndpointState): EndpointUpdate | undefined {
  const facts = changedFields(before.facts, after.facts);
  const tables = TABLES.flatMap((name) => {
    const change = changedRows(before.tables[name], after.tables[name]);
    return change ? [[name, change] as const] : [];
  });
  if (!facts && tables.length === 0) return undefined;
  return { ...(facts && { facts }), ...(tables.length > 0 && { tables: Object.fromEntries(tables) }) };
}

function changedRows(before: ReadonlyMap<string, Row>, after: ReadonlyMap<string, Row>): TableUpdate | undefined {
  const set: object[] = [];
  for (const [key, row] of after) {
    const known = before.get(key);
    if (!known) set.push(row);
    else if (known !== row) {
      const fields = changedFields(known, row);
      if (fields) set.push({ key, ...fields });
    }
  }
  // Without a new row, the number of rows is the same unless some were removed.
  const gone = [...before.keys()].filter((key) => !after.has(key));
  if (set.length === 0 && gone.length === 0) return undefined;
  return { ...(set.length > 0 && { set }), ...(gone.length > 0 && { gone }) };
}

function changedFields<T extends Readonly<Record<string, unknown>>>(
  before: T,
  after: T,
): Record<string, unknown> | undefined {
  let changed: Record<string, unknown> | undefined;
  for (const name of Object.keys(after)) {
    if (!isSame(before[name], after[name])) (changed ??= {})[name] = after[name];
  }
  return changed;
}

/** Compares plain values, and lists of plain values. */
function isSame(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (!Array.isArray(one) || !Array.isArray(other) || one.length !== other.length) return false;
  return one.every((value, index) => value === other[index]);
}
