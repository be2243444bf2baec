import { button, make, put } from './dom.js';
import { alternativesOf, choicesOf, repeats, resolved, type Schema, typeOf, within } from './schema.js';

/* A form from a JSON Schema. What it cannot show as fields is a field of JSON. */

/** A field, or a group of them. */
export interface Field {
  readonly node: HTMLElement;
  /** @returns `undefined`: nothing is given. @throws FieldError, which has marked the field */
  value(): unknown;
  fill(value: unknown): void;
}

export class FieldError extends Error {}

interface Place {
  readonly root: Schema;
  readonly name?: string | undefined;
  readonly required: boolean;
  readonly depth: number;
  /** The references that lead here. */
  readonly within: readonly string[];
  readonly left: { fields: number };
}

const DEEPEST = 5;
/** A form has at most so many fields; what is left is JSON. */
const MOST_FIELDS = 400;
const LONG_TEXT = 120;
let lastId = 0;

/** Makes a form for an object. */
export function formOf(schema: Schema): Field {
  return fieldOf(schema, { root: schema, required: true, depth: 0, within: [], left: { fields: MOST_FIELDS } });
}

function fieldOf(given: unknown, where: Place): Field {
  const place = { ...where, within: within(given, where.within) };
  place.left.fields--;
  const schema = resolved(given, place.root);
  const choices = choicesOf(schema, place.root);
  const { type, properties, items } = schema;
  if (choices) return choiceField(schema, choices, place);
  if (type === 'boolean') return choiceField(schema, [true, false], place);
  if (type === 'string') return textField(schema, place);
  if (type === 'number' || type === 'integer') return numberField(schema, place);
  const isShallow = place.depth < DEEPEST && place.left.fields > 0 && !repeats(given, where.within);
  if (isShallow && (type === 'object' || properties) && isClosed(schema)) return objectField(schema, place);
  if (isShallow && type === 'array' && items !== undefined && items !== true) return listField(schema, place);
  return jsonField(schema, place);
}

/** Returns whether the properties are all that an object may have, as far as a form goes. */
function isClosed({ properties, additionalProperties, anyOf, oneOf }: Schema): boolean {
  const own = Object.keys(properties ?? {}).length > 0;
  return !anyOf && !oneOf && (own || typeof additionalProperties !== 'object');
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

function objectField(schema: Schema, place: Place): Field {
  const { depth, name, required } = place;
  const needed = schema['required'];
  const fields = Object.entries((schema['properties'] ?? {}) as Record<string, unknown>).map(([key, each]) => {
    const isNeeded = Array.isArray(needed) && needed.includes(key);
    return [key, fieldOf(each, { ...place, name: key, required: isNeeded, depth: depth + 1 })] as const;
  });
  const body = make('div', { class: 'group' }, ...fields.map(([, { node }]) => node));
  const given = make('input', { type: 'checkbox' });
  const node = name === undefined ? body : make('fieldset', {}, ...headOf(schema, place), body);
  const isOptional = name !== undefined && !required;
  if (isOptional) {
    body.before(make('label', { class: 'check' }, given, ' Give it'));
    body.hidden = true;
    given.addEventListener('change', () => {
      body.hidden = !given.checked;
    });
  }
  return {
    node,
    value() {
      if (isOptional && !given.checked) return undefined;
      const value: Record<string, unknown> = {};
      for (const [key, field] of fields) {
        const part = field.value();
        if (part !== undefined) define(value, key, part);
      }
      return value;
    },
    fill(value) {
      given.checked = value !== undefined;
      body.hidden = isOptional && !given.checked;
      for (const [key, field] of fields) field.fill(own(value, key));
    },
  };
}

function listField(schema: Schema, place: Place): Field {
  const entries: { readonly field: Field; readonly node: HTMLElement }[] = [];
  const list = make('ol', { class: 'entries' });
  const add = (value?: unknown) => {
    const field = fieldOf(schema['items'], { ...place, name: undefined, required: true, depth: place.depth + 1 });
    const node = make('li', {}, field.node);
    const entry = { field, node };
    const remove = () => {
      entries.splice(entries.indexOf(entry), 1);
      node.remove();
    };
    node.append(button('Remove', remove, { class: 'small' }));
    entries.push(entry);
    list.append(node);
    if (value !== undefined) field.fill(value);
  };
  const more = button('Add an entry', () => add(), { class: 'small' });
  const node = make('fieldset', {}, ...headOf(schema, place), list, more);
  const fill = (value: unknown) => {
    list.replaceChildren();
    entries.length = 0;
    if (Array.isArray(value)) for (const each of value) add(each);
  };
  if ('default' in schema) fill(schema['default']);
  else if (place.required && Number(schema['minItems']) > 0) add();
  const value = () => {
    const values = entries.map(({ field }) => field.value() ?? null);
    return values.length === 0 && !place.required ? undefined : values;
  };
  return { node, value, fill };
}

function headOf(schema: Schema, place: Place): HTMLElement[] {
  const about = aboutOf(schema);
  const legend = make('legend', {}, labelOf(schema, place));
  return about === '' ? [legend] : [legend, make('p', { class: 'dim' }, about)];
}

/* ---- single values ----------------------------------------------------------------------------------------------- */

type Input = HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement;

interface Reading {
  /** @throws Error whose message is shown */
  readonly read: (text: string) => unknown;
  readonly write: (value: unknown) => string;
}

function single(schema: Schema, place: Place, input: Input, { read, write }: Reading): Field {
  const id = `field-${++lastId}`;
  input.id = id;
  const error = make('p', { class: 'field-error', id: `${id}-error`, role: 'alert' });
  const about = make(
    'p',
    { class: 'dim', id: `${id}-about` },
    [aboutOf(schema), hintOf(schema, place)].filter(Boolean).join(' '),
  );
  input.setAttribute('aria-describedby', `${about.id} ${error.id}`);
  if (place.required) input.setAttribute('aria-required', 'true');
  const label = make('label', { for: id }, labelOf(schema, place));
  if (place.name === undefined) input.setAttribute('aria-label', 'Value');
  const node = make('div', { class: 'field' }, ...(place.name === undefined ? [] : [label]), input, about, error);
  const fill = (value: unknown) => {
    input.value = value === undefined ? '' : write(value);
  };
  if ('default' in schema) fill(schema['default']);
  return {
    node,
    fill,
    value() {
      try {
        const value = read(input.value);
        put(error, '');
        input.removeAttribute('aria-invalid');
        return value;
      } catch (problem) {
        put(error, (problem as Error).message);
        input.setAttribute('aria-invalid', 'true');
        input.focus();
        throw new FieldError((problem as Error).message);
      }
    },
  };
}

const TYPES: Readonly<Record<string, string>> = { email: 'email', uri: 'url', date: 'date' };

function textField(schema: Schema, place: Place): Field {
  const { format, maxLength } = schema;
  const isLong = format === undefined && (typeof maxLength !== 'number' || maxLength > LONG_TEXT);
  const isSecret = schema['x-mcp-sensitive'] === true || format === 'password';
  const type = TYPES[String(format)] ?? 'text';
  // No field of the type password: browsers would offer to keep it.
  const look = { autocomplete: 'off', spellcheck: 'false', ...(isSecret && { class: 'secret' }) };
  const input =
    isLong && !isSecret && type === 'text'
      ? make('textarea', { ...look, rows: '1' })
      : make('input', { ...look, type });
  if (format === 'date-time') input.setAttribute('placeholder', '2026-01-31T12:00:00Z');
  const read = (text: string) => (text === '' && !place.required ? undefined : text);
  return single(schema, place, input, {
    read,
    write: (value) => (typeof value === 'string' ? value : JSON.stringify(value)),
  });
}

function numberField(schema: Schema, place: Place): Field {
  const isWhole = schema['type'] === 'integer';
  const input = make('input', { inputmode: isWhole ? 'numeric' : 'decimal', autocomplete: 'off' });
  const read = (text: string) => {
    if (text.trim() === '') {
      if (place.required) throw new Error('A number is required.');
      return undefined;
    }
    const value = Number(text);
    if (!Number.isFinite(value)) throw new Error(`"${text}" is not a number.`);
    return value;
  };
  return single(schema, place, input, { read, write: String });
}

const NOT_GIVEN = '';

function choiceField(schema: Schema, choices: readonly unknown[], place: Place): Field {
  const texts = titlesOf(schema, place.root);
  const select = make('select');
  if (!place.required || !('default' in schema))
    select.append(make('option', { value: NOT_GIVEN }, place.required ? 'Choose' : '–'));
  for (const [index, choice] of choices.entries()) {
    const text = texts[index] ?? (typeof choice === 'string' ? choice : JSON.stringify(choice));
    select.append(make('option', { value: String(index) }, text));
  }
  const read = (text: string) => {
    if (text !== NOT_GIVEN) return choices[Number(text)];
    if (place.required) throw new Error('A choice is required.');
    return undefined;
  };
  const write = (value: unknown) => {
    const index = choices.indexOf(value);
    return index < 0 ? NOT_GIVEN : String(index);
  };
  return single(schema, place, select, { read, write });
}

function titlesOf(schema: Schema, root: Schema): readonly (string | undefined)[] {
  const { enumNames } = schema;
  if (Array.isArray(enumNames)) return enumNames as string[];
  return alternativesOf(schema, root).map(({ title }) => (typeof title === 'string' ? title : undefined));
}

function jsonField(schema: Schema, place: Place): Field {
  const input = make('textarea', { class: 'code', rows: '3', spellcheck: 'false', placeholder: 'JSON' });
  const read = (text: string) => {
    if (text.trim() === '') {
      if (place.required && place.name !== undefined) throw new Error('JSON is required.');
      return place.name === undefined ? {} : undefined;
    }
    return parsed(text);
  };
  return single(schema, place, input, { read, write: (value) => JSON.stringify(value, null, 2) });
}

/** @throws Error whose message is shown */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`This is not JSON: ${(error as Error).message}`, { cause: error });
  }
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

function labelOf({ title }: Schema, { name = '', required }: Place): HTMLElement {
  const label = make('span', { class: 'label' }, make('b', {}, name));
  if (typeof title === 'string' && title !== name) label.append(` ${title}`);
  if (required && name !== '') label.append(make('em', { class: 'required' }, 'required'));
  return label;
}

function aboutOf({ description }: Schema): string {
  return typeof description === 'string' ? description : '';
}

function hintOf(schema: Schema, { root }: Place): string {
  const type = typeOf(schema, root);
  return /^(?:string|integer|number|boolean)$/.test(type) || choicesOf(schema, root) ? '' : `(${type})`;
}

/** Names come from the server: `__proto__` is one like any other. */
function define(object: object, key: string, value: unknown): void {
  Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}

function own(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    ? (value as Record<string, unknown>)[key]
    : undefined;
}
