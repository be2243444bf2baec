/* Nodes. Text of the server comes in by `textContent` alone, and never becomes markup. */

export function byId<T extends Element = HTMLElement>(id: string): T {
  return document.getElementById(id) as Element as T;
}

/** Sets a text, and touches the node only if it differs. */
export function put(node: Node, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

export type Attributes = Readonly<Record<string, string>>;

export function make<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

export function makeSvg<K extends keyof SVGElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  ...children: Node[]
): SVGElementTagNameMap[K] {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

export function button(text: string, onclick: () => void, attributes: Attributes = {}): HTMLButtonElement {
  const node = make('button', { type: 'button', ...attributes }, text);
  node.addEventListener('click', onclick);
  return node;
}

/** Remembers what a node was drawn from. @returns whether that has changed */
export function changed(node: Node, text: string): boolean {
  if (drawn.get(node) === text) return false;
  drawn.set(node, text);
  return true;
}
const drawn = new WeakMap<Node, string>();
