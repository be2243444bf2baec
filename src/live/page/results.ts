import { make } from './dom.js';
import { bdi, json } from './parts.js';

/* Results: texts as they are, images as images, everything else as JSON. */

type Fields = Readonly<Record<string, unknown>>;

/** @param result of a tool, a resource or a prompt */
export function resultNodes(result: Fields): Node[] {
  const { content, contents, messages, structuredContent } = result;
  const blocks = [content, contents, messages].flatMap((list) => (Array.isArray(list) ? (list as unknown[]) : []));
  const nodes: Node[] =
    structuredContent === undefined ? [] : [make('h3', {}, 'Structured content'), json(structuredContent)];
  // A copy of the structured content is for older clients.
  const copy = structuredContent === undefined ? undefined : JSON.stringify(structuredContent);
  for (const block of blocks) {
    const inner = contentOf(block);
    const { text } = inner;
    if (copy !== undefined && (text === copy || JSON.stringify(text) === copy)) continue;
    const image = imageOf(inner);
    if (image !== undefined) nodes.push(imageNode(image, inner['mimeType'] as string, block));
    else if (typeof text === 'string') nodes.push(make('pre', { class: 'json', tabindex: '0' }, bdi(text)));
    else nodes.push(json(block));
  }
  nodes.push(make('details', {}, make('summary', {}, 'Whole result'), json(result)));
  return nodes;
}

/** Returns what a block holds: the content of a message, or the contents of an embedded resource. */
function contentOf(block: unknown): Fields {
  if (typeof block !== 'object' || block === null) return {};
  const { content, resource } = block as Fields;
  const inner = resource ?? content;
  return inner === undefined ? (block as Fields) : contentOf(inner);
}

const BASE64 = /^[A-Za-z\d+/]+={0,2}$/;
const IMAGE = /^image\/[\w.+-]+$/i;

/**
 * Returns the address of an image: a `data:` URL, which an `<img>` shows without running scripts or loading anything, so that an SVG is
 * safe in it.
 *
 * @returns `undefined` for what is no image, or was cut
 */
export function imageOf({ data, blob, text, mimeType }: Fields): string | undefined {
  if (typeof mimeType !== 'string' || !IMAGE.test(mimeType)) return undefined;
  const bytes = data ?? blob;
  if (typeof bytes === 'string') return BASE64.test(bytes) ? `data:${mimeType};base64,${bytes}` : undefined;
  return typeof text === 'string' && /svg/i.test(mimeType) ? `data:${mimeType},${encodeURIComponent(text)}` : undefined;
}

/** Shows an image in its own size, with its type and size below; one that the browser cannot show is shown as JSON. */
function imageNode(src: string, mimeType: string, block: unknown): HTMLElement {
  const image = make('img', { src, alt: `An image of the result (${mimeType})` });
  const caption = make('figcaption', {}, mimeType);
  const figure = make('figure', { class: 'image' }, image, caption);
  image.addEventListener('load', () => {
    const { naturalWidth: width, naturalHeight: height } = image;
    if (width > 0) caption.textContent = `${mimeType}, ${width} × ${height}`;
  });
  image.addEventListener('error', () => figure.replaceWith(json(block)));
  return figure;
}
