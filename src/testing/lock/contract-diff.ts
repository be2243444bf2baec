import { isObject } from '../../core/protocol/json-rpc.js';
import { difference, jsonOf } from './canonical.js';
import { type Contract, type Entry, type Kind, KIND_NAMES, KINDS } from './contract.js';
import { type Change, schemaChanges, type Severity } from './schema-diff.js';

/** The changes of one entry, or of the roles. */
export interface EntryChanges {
  /** Such as `tool find_order`. */
  readonly subject: string;
  readonly changes: readonly Change[];
}

/**
 * Compares what an endpoint serves with a file that differs.
 *
 * @returns subjects with changes, in the order of kinds and names; at least one
 */
export function contractChanges(file: Contract, served: Contract): EntryChanges[] {
  const subjects = [{ subject: 'roles', changes: roleChanges(file, served) }];
  for (const kind of KIND_NAMES) {
    const [before, after] = [recordOf(file[kind]), recordOf(served[kind])];
    for (const key of [...new Set([...before.keys(), ...after.keys()])].toSorted()) {
      const changes = [
        ...entryChanges(kind, before.get(key), after.get(key), { file, served, key }),
        ...(before.has(key) && after.has(key) ? viewChanges(kind, key, file, served) : []),
      ];
      subjects.push({ subject: `${KINDS[kind].noun} ${key}`, changes });
    }
  }
  const changed = subjects.filter(({ changes }) => changes.length > 0);
  if (changed.length > 0) return changed;
  return [{ subject: 'file', changes: [look('is written differently, as after a merge; its meaning is the same')] }];
}

function roleChanges(file: Contract, served: Contract): Change[] {
  const [before, after] = [recordOf(file.roles), recordOf(served.roles)];
  const gone = [...before.keys()].filter((role) => !after.has(role));
  const added = [...after.keys()].filter((role) => !before.has(role));
  return [
    ...gone.map((role) => look(`"${role}" is in the file, and not compared any more`)),
    ...added.map((role) => look(`"${role}" is compared now, and not in the file`)),
    ...undescribed(file),
  ];
}

/** Returns names that roles see and the file does not describe, as after a merge. */
function undescribed(file: Contract): Change[] {
  return [...recordOf(file.roles)].flatMap(([role, view]) =>
    KIND_NAMES.flatMap((kind) => {
      const described = recordOf(file[kind]);
      const names = (view[kind] ?? []).filter((name) => !described.has(name));
      return names.map((name) =>
        look(`"${role}" sees the ${KINDS[kind].noun} ${name} in the file, which does not describe it`),
      );
    }),
  );
}

/** Returns the changes of who sees an entry, among the roles that both have. */
function viewChanges(kind: Kind, key: string, file: Contract, served: Contract): Change[] {
  const after = recordOf(served.roles);
  return [...recordOf(file.roles).keys()]
    .filter((role) => after.has(role))
    .flatMap((role): Change[] => {
      const [saw, sees] = [rolesWith(file, kind, key), rolesWith(served, kind, key)].map((roles) =>
        roles.includes(role),
      );
      if (saw === sees) return [];
      if (saw) return [{ severity: 'breaking', text: `the role "${role}" does not see it any more` }];
      return [{ severity: 'additive', text: `the role "${role}" sees it now` }];
    });
}

function rolesWith({ roles }: Contract, kind: Kind, key: string): string[] {
  return [...recordOf(roles)].flatMap(([role, view]) => (view[kind]?.includes(key) ? [role] : []));
}

function entryChanges(
  kind: Kind,
  before: Entry | undefined,
  after: Entry | undefined,
  { file, served, key }: { file: Contract; served: Contract; key: string },
): Change[] {
  if (!after)
    return [{ severity: 'breaking', text: `is gone; seen by ${rolesWith(file, kind, key).join(', ')} before` }];
  if (!before) return [{ severity: 'additive', text: `is new; seen by ${rolesWith(served, kind, key).join(', ')}` }];
  const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])].toSorted();
  return fields.flatMap((field) => {
    const [was, is] = [before[field], after[field]];
    if (jsonOf(was) === jsonOf(is)) return [];
    const changes = fieldChanges(field, was, is);
    // Equal in meaning, and not in text: the file is still another one.
    return changes.length > 0 ? changes : [look(`${field} is written differently; its meaning is the same`)];
  });
}

function fieldChanges(field: string, was: unknown, is: unknown): Change[] {
  switch (field) {
    case 'inputSchema':
      return schemaChanges(was, is, 'input', 'input');
    case 'outputSchema':
      if (was === undefined) return [{ severity: 'additive', text: 'the result has a schema now' }];
      if (is === undefined) return [{ severity: 'breaking', text: 'the result has no schema any more' }];
      return schemaChanges(was, is, 'output', 'output');
    case 'arguments':
      return argumentChanges(was, is);
    case 'scopes':
      return setChanges(
        was,
        is,
        (scope) => `needs the scope ${scope} now`,
        (scope) => `does not need the scope ${scope} any more`,
      );
    case 'mimeType':
      return [{ severity: 'breaking', text: `mimeType ${difference(was, is)}` }];
    case 'annotations':
      return partChanges('annotations', was, is);
    case 'title':
    case 'description':
      return [look(`${field} ${difference(was, is)}`)];
    default:
      return partChanges(field, was, is);
  }
}

/** Returns the changes of the arguments of a prompt. */
function argumentChanges(was: unknown, is: unknown): Change[] {
  const byName = (given: unknown): Map<string, Entry> =>
    new Map(listOf(given).map((argument) => [String(argument['name']), argument]));
  const [before, after] = [byName(was), byName(is)];
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((name): Change[] => {
    const [old, now] = [before.get(name), after.get(name)];
    const required = now?.['required'] === true;
    if (!now) return [{ severity: 'breaking', text: `the argument ${name} is gone` }];
    if (!old) {
      return required
        ? [{ severity: 'breaking', text: `the argument ${name} is new, and required` }]
        : [{ severity: 'additive', text: `the argument ${name} is new` }];
    }
    const { required: wasRequired, ...oldTexts } = old;
    const { required: _, ...texts } = now;
    const changes = partChanges(`argument ${name}`, oldTexts, texts);
    if (required === (wasRequired === true)) return changes;
    const severity: Severity = required ? 'breaking' : 'additive';
    return [
      { severity, text: `the argument ${name} is ${required ? 'required now' : 'not required any more'}` },
      ...changes,
    ];
  });
}

/** Returns the objects of a list: a file may have been edited by hand. */
function listOf(given: unknown): Entry[] {
  return Array.isArray(given) ? given.filter((each) => isObject(each)) : [];
}

function setChanges(
  was: unknown,
  is: unknown,
  added: (member: string) => string,
  removed: (member: string) => string,
): Change[] {
  const [before, after] = [was, is].map((list) => (Array.isArray(list) ? list.map(String) : [])) as [
    string[],
    string[],
  ];
  return [
    ...after.filter((one) => !before.includes(one)).map((one): Change => ({ severity: 'breaking', text: added(one) })),
    ...before
      .filter((one) => !after.includes(one))
      .map((one): Change => ({ severity: 'additive', text: removed(one) })),
  ];
}

/** Returns changes of an object that no rule knows, one for each property. */
function partChanges(name: string, was: unknown, is: unknown): Change[] {
  if (!isObject(was ?? {}) || !isObject(is ?? {})) return [look(`${name} ${difference(was, is)}`)];
  const [before, after] = [recordOf(was as object | undefined), recordOf(is as object | undefined)];
  return [...new Set([...before.keys(), ...after.keys()])]
    .filter((part) => jsonOf(before.get(part)) !== jsonOf(after.get(part)))
    .map((part) => look(`${name}.${part} ${difference(before.get(part), after.get(part))}`));
}

function look(text: string): Change {
  return { severity: 'look', text };
}

function recordOf<T>(record: Readonly<Record<string, T>> | undefined): Map<string, T>;
function recordOf(record: object | undefined): Map<string, unknown>;
function recordOf(record: object = {}): Map<string, unknown> {
  return new Map<string, unknown>(Object.entries(record));
}
