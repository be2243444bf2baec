import { changed, make, makeSvg, put } from './dom.js';
import { count } from './format.js';

/* Tables that keep the node of each row for as long as there is the row, and touch only what has changed. */

export interface Column<R> {
  readonly id: string;
  /** Absent: the column of the actions. */
  readonly label?: string;
  readonly kind?: string;
  /** The field that the rows can be sorted by. */
  readonly sorts?: string;
  readonly draw: (cell: HTMLElement, row: R) => void;
}

export interface Sorting {
  readonly by: string;
  readonly descending: boolean;
}

export interface TableParts<R> {
  readonly label: string;
  readonly columns: readonly Column<R>[];
  /** Shown in place of an empty table. */
  readonly empty: HTMLElement;
  readonly keyOf: (row: R) => string;
  readonly toneOf?: (row: R) => string;
  readonly onSort?: (field: string) => void;
}

export interface Drawing<R> {
  readonly rows: readonly R[];
  /** Rows that are not shown. */
  readonly left?: number;
  readonly onMore?: () => void;
  /** Whether a filter may have hidden rows. */
  readonly narrowed: boolean;
  readonly sorting?: Sorting;
}

export class Table<R> {
  readonly #rows = new Map<string, { readonly node: HTMLElement; readonly cells: readonly HTMLElement[] }>();
  readonly #body = make('tbody', { role: 'rowgroup' });
  readonly #heads: readonly HTMLElement[];
  readonly #table: HTMLElement;
  readonly #nothing = make('p', { class: 'empty' }, 'Nothing here matches.');
  readonly #more = make('button', { type: 'button' });
  readonly #rest = make('div', { class: 'more' }, this.#more);

  constructor(
    home: HTMLElement,
    private readonly parts: TableParts<R>,
  ) {
    this.#heads = parts.columns.map((column) => this.#head(column));
    const top = make('thead', { role: 'rowgroup' }, make('tr', { role: 'row' }, ...this.#heads));
    this.#table = make('table', { role: 'table', 'aria-label': parts.label }, top, this.#body);
    home.append(this.#table, parts.empty, this.#nothing, this.#rest);
  }

  draw({ rows, left = 0, onMore, narrowed, sorting }: Drawing<R>): void {
    this.#table.hidden = rows.length === 0;
    this.parts.empty.hidden = rows.length > 0 || narrowed;
    this.#nothing.hidden = rows.length > 0 || !narrowed;
    this.#rest.hidden = left <= 0;
    if (left > 0) {
      put(this.#more, `Show more (${count(left)})`);
      this.#more.onclick = onMore ?? null;
    }
    if (sorting) this.#mark(sorting);
    this.#drawRows(rows);
  }

  #drawRows(rows: readonly R[]): void {
    const { columns, keyOf, toneOf } = this.parts;
    const keys = new Set(rows.map(keyOf));
    for (const [key, { node }] of this.#rows) {
      if (keys.has(key)) continue;
      node.remove();
      this.#rows.delete(key);
    }
    let next = this.#body.firstChild;
    for (const row of rows) {
      const { node, cells } = this.#rows.get(keyOf(row)) ?? this.#add(keyOf(row));
      if (node === next) next = next.nextSibling;
      else this.#body.insertBefore(node, next);
      for (const [index, column] of columns.entries()) column.draw(cells[index]!, row);
      const tone = toneOf?.(row);
      if (tone !== undefined && node.dataset['tone'] !== tone) node.dataset['tone'] = tone;
    }
  }

  #mark({ by, descending }: Sorting): void {
    for (const [index, { sorts }] of this.parts.columns.entries()) {
      if (sorts === by) this.#heads[index]!.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
      else this.#heads[index]!.removeAttribute('aria-sort');
    }
  }

  #head({ id, label, kind = '', sorts }: Column<R>): HTMLElement {
    const head = make('th', { scope: 'col', role: 'columnheader', class: `c-${id} ${kind}` });
    if (label === undefined) head.append(make('span', { class: 'hidden' }, 'Action'));
    else if (sorts === undefined) head.append(label);
    else {
      const button = make('button', { type: 'button' }, label);
      button.addEventListener('click', () => this.parts.onSort?.(sorts));
      head.append(button);
    }
    return head;
  }

  #add(key: string): { node: HTMLElement; cells: HTMLElement[] } {
    const cells = this.parts.columns.map(({ id, label, kind = '' }) => {
      const cell = make('td', { role: 'cell', class: `c-${id} ${kind}` });
      if (label !== undefined) cell.dataset['label'] = label;
      return cell;
    });
    const node = make('tr', { role: 'row' }, ...cells);
    node.addEventListener('click', (event) => followLink(node, event));
    const known = { node, cells };
    this.#rows.set(key, known);
    return known;
  }
}

/** A click anywhere on a row opens what its first link opens, unless it was for a button or to select text. */
function followLink(row: HTMLElement, { target }: Event): void {
  if ((target as Element).closest('a, button, label, input') || !getSelection()?.isCollapsed) return;
  row.querySelector('a')?.click();
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */

type Cell<R> = (cell: HTMLElement, row: R) => void;

export function plain<R>(read: (row: R) => string): Cell<R> {
  return (cell, row) => put(cell, read(row));
}

/** Shows a number; 0 and unknown ones are faint. @param tone of the others */
export function figure<R>(read: (row: R) => number, write: (value: number, row: R) => string, tone = 'some'): Cell<R> {
  return (cell, row) => {
    const value = read(row);
    put(cell, write(value, row));
    cell.classList.toggle('zero', value <= 0);
    cell.classList.toggle(tone, value > 0);
  };
}

/**
 * Shows a text, and a second one behind it. A bdi keeps a text that runs from right to left from turning others.
 *
 * @param linkOf where the first text leads, `undefined` for none
 */
export function texts<R>(
  read: (row: R) => readonly [string | null, (string | null)?],
  linkOf?: (row: R) => string | undefined,
): Cell<R> {
  return (cell, row) => {
    if (!cell.firstChild) {
      const link = linkOf?.(row);
      const text = make('bdi');
      // The space lets the line break there.
      cell.append(link === undefined ? text : make('a', { href: link }, text), ' ', make('small'));
    }
    const [first, second] = read(row);
    const { firstChild, lastChild } = cell;
    put(firstChild!.firstChild instanceof Element ? firstChild!.firstChild : firstChild!, first ?? '');
    put(lastChild!, second ?? '');
    cell.classList.toggle('blank', !first && !second);
  };
}

export interface Action<R> {
  /** It may change with the row. */
  readonly word: (row: R) => string;
  /** Names what is acted upon. */
  readonly object: (row: R) => string;
  readonly offered?: (row: R) => boolean;
  readonly run: (row: R) => Promise<void>;
}

/** Shows a button that asks once more, in place. */
export function action<R>({ word, object, offered, run }: Action<R>): Cell<R> {
  /** Holds what a button acts upon. */
  const rows = new WeakMap<HTMLElement, R>();
  const armedButton = (cell: HTMLElement): HTMLButtonElement => {
    const button = make('button', { type: 'button' });
    const disarm = () => {
      button.classList.remove('armed');
      put(button, word(rows.get(cell)!));
    };
    const press = async () => {
      if (!button.classList.contains('armed')) {
        button.classList.add('armed');
        put(button, 'Sure?');
        return;
      }
      disarm();
      button.disabled = true;
      await run(rows.get(cell)!);
      button.disabled = false;
    };
    button.addEventListener('click', () => void press());
    button.addEventListener('blur', disarm);
    button.addEventListener('keydown', ({ key }) => {
      if (key === 'Escape') disarm();
    });
    cell.append(button);
    return button;
  };
  return (cell, row) => {
    if (offered?.(row) === false) return;
    rows.set(cell, row);
    const button = (cell.firstChild as HTMLButtonElement | null) ?? armedButton(cell);
    const does = word(row);
    if (!changed(button, does)) return;
    button.classList.remove('armed');
    button.setAttribute('aria-label', `${does} ${object(row)}`);
    put(button, does);
    button.dataset['word'] = does;
  };
}

/** Shows the calls of the last minute as a small curve. */
export function spark(cell: HTMLElement, { spark: values }: { readonly spark: readonly number[] }): void {
  if (values.length === 0) {
    cell.replaceChildren();
    return;
  }
  if (!cell.firstChild) {
    const look = { class: 'spark', viewBox: '0 0 90 20', preserveAspectRatio: 'none', role: 'img' };
    cell.append(makeSvg('svg', look, makeSvg('path')));
  }
  if (!changed(cell, values.join())) return;
  const svg = cell.firstChild as SVGElement;
  const most = Math.max(4, ...values);
  const step = 90 / (values.length - 1);
  const points = values.map((value, at) => `${(at * step).toFixed(1)} ${(19 - (value / most) * 18).toFixed(1)}`);
  svg.firstElementChild!.setAttribute('d', `M-1 20L${points.join('L')}L91 20`);
  const sum = values.reduce((total, value) => total + value, 0);
  svg.classList.toggle('still', sum === 0);
  svg.setAttribute('aria-label', `${count(sum)} calls in the last minute`);
}
