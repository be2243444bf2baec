import { make, makeSvg } from './dom.js';
import { duration } from './format.js';
import type { SchemaNode } from './schema.js';

/* Parts of what is opened: sections, pairs, JSON, trees of schemas, histograms. */

/** A part of the panel, which is made anew only when its data has changed. */
export interface Section {
  readonly id: string;
  /** Absent: a part without a heading. */
  readonly title?: string;
  /** What it is made from. */
  readonly data: unknown;
  readonly make: () => readonly (Node | string)[];
}

/** Pairs of a name and a value; those without a value are left out. */
export function facts(pairs: Readonly<Record<string, string | Node | undefined>>): HTMLElement {
  const list = make('dl', { class: 'facts' });
  for (const [name, value] of Object.entries(pairs)) {
    if (value === undefined || value === '') continue;
    list.append(make('dt', {}, name), make('dd', {}, value));
  }
  return list;
}

export function note(text: string): HTMLElement {
  return make('p', { class: 'note-text' }, text);
}

export function json(value: unknown): HTMLElement {
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
  return make('pre', { class: 'json', tabindex: '0' }, text ?? 'undefined');
}

export function chips(texts: readonly string[]): HTMLElement {
  return make('ul', { class: 'chips' }, ...texts.map((text) => make('li', {}, text)));
}

export function bdi(text: string): HTMLElement {
  return make('bdi', {}, text);
}

/** The properties of a schema, nested. */
export function tree(nodes: readonly SchemaNode[]): HTMLElement {
  return make('ul', { class: 'tree' }, ...nodes.map(branch));
}

function branch({ name, type, required, description, notes, children }: SchemaNode): HTMLElement {
  const head = make('p', { class: 'branch' });
  if (name !== undefined) head.append(make('b', {}, name));
  head.append(make('code', {}, type));
  if (required && name !== undefined) head.append(make('em', { class: 'required' }, 'required'));
  const item = make('li', {}, head);
  if (description) item.append(make('p', {}, bdi(description)));
  if (notes.length > 0) item.append(make('p', { class: 'dim' }, notes.join(' · ')));
  if (children.length > 0) item.append(tree(children));
  return item;
}

/** @param bounds upper bounds in milliseconds; `counts` has one more */
export function histogram(bounds: readonly number[], counts: readonly number[]): HTMLElement {
  const first = counts.findIndex(Boolean);
  const last = counts.findLastIndex(Boolean);
  const shown = counts.slice(Math.max(0, first - 1), Math.min(counts.length, last + 2));
  const from = Math.max(0, first - 1);
  const most = Math.max(...shown);
  const label = (at: number) => (at < bounds.length ? `≤ ${duration(bounds[at]!)}` : `> ${duration(bounds.at(-1)!)}`);
  const bars = shown.map((value, index) =>
    makeSvg('rect', {
      x: String(index * 12 + 1),
      width: '10',
      y: String(60 - Math.max(value > 0 ? 2 : 0, (value / most) * 58)),
      height: String(Math.max(value > 0 ? 2 : 0, (value / most) * 58)),
    }),
  );
  const texts = shown.map((value, index) => `${label(from + index)}: ${value}`).filter((_, at) => shown[at]! > 0);
  const look = { class: 'histogram', viewBox: `0 0 ${shown.length * 12} 60`, preserveAspectRatio: 'none', role: 'img' };
  const svg = makeSvg('svg', { ...look, 'aria-label': texts.join(', ') }, ...bars);
  const scale = make('p', { class: 'scale', 'aria-hidden': 'true' });
  scale.append(...shown.map((_, index) => make('span', {}, index % 2 === 0 ? label(from + index) : '')));
  return make('div', {}, svg, scale);
}
